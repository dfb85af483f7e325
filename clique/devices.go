package clique

import (
	"context"
	"fmt"
	"os"

	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/collective"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/nccl"
)

// devices is the state of a session for GPU memory.
type devices struct {
	by      Backend   // NCCL, UCX or Comm
	ordinal int       // the rank's GPU, -1 without one
	pool    *ncclPool // nil unless by is NCCL
}

// leaseGroup is the number of the group with which ncclCarrier leases a communicator.
const leaseGroup = 0

// newDevices creates the devices of a session. All ranks call it: the NCCL communicator is created now, so that Form
// reports its failure.
func newDevices(ctx context.Context, g *collective.Group, by Backend, ordinal int) (*devices, error) {
	d := &devices{by: by, ordinal: ordinal}
	if by != NCCL {
		return d, nil
	}
	var err error
	d.pool, err = newNCCLPool(ctx, g, ordinal)
	if err != nil {
		return nil, fmt.Errorf("NCCL on device %d: %w", ordinal, err)
	}
	return d, nil
}

// setCarrier sets the carrier for device memory of a round or a sub-clique.
func (d *devices) setCarrier(g *collective.Group, sub bool) {
	g.SetCarrier(d.carrier(g, sub))
}

func (d *devices) carrier(g *collective.Group, sub bool) collective.Carrier {
	own := collective.NewDeviceCarrier(g, d.ordinal)
	if d.by == NCCL {
		return &ncclCarrier{Carrier: own, p: d.pool, g: g, sub: sub}
	}
	return own
}

func (d *devices) close() {
	if d.pool != nil {
		d.pool.close()
	}
}

// deviceEngine is the engine for host memory together with the devices.
type deviceEngine struct {
	*collective.Group
	d *devices
}

func (e *deviceEngine) Dup(n uint64) (*collective.Group, error) {
	g, err := e.Group.Dup(n)
	if err == nil {
		e.d.setCarrier(g, false)
	}
	return g, err
}

func (e *deviceEngine) Devices() *devices { return e.d }

func (e *deviceEngine) Close() error {
	e.d.close()
	return e.Group.Close()
}

// gpu describes the GPU of a worker when a clique is formed.
type gpu struct {
	// Ordinal is the number of the GPU in the worker's process, -1 without one.
	Ordinal int `json:"ordinal"`
	// NCCL is the version of libnccl; if it is 0, NoNCCL is the reason.
	NCCL   int    `json:"nccl,omitempty"`
	NoNCCL string `json:"no_nccl,omitempty"`
	// HostID is NCCL_HOSTID of the worker. NCCL treats ranks with different values as ranks on different machines.
	HostID string `json:"hostid,omitempty"`
}

// probeGPU describes the GPU of the worker. A worker that was started without a GPU is probed only if NCCL is requested
// explicitly, because probing starts the driver.
func probeGPU(h *task.Host, m *Member, wanted Backend) gpu {
	g := gpu{Ordinal: -1, HostID: os.Getenv("NCCL_HOSTID")}
	switch {
	case h.Device != nil:
		g.Ordinal = h.Device.Ordinal
	case wanted != NCCL:
		g.NoNCCL = "the worker was started without a GPU"
		return g
	}
	d, err := cuda.DeviceByOrdinal(max(g.Ordinal, 0))
	if err != nil {
		g.Ordinal, g.NoNCCL = -1, err.Error()
		return g
	}
	g.Ordinal = d.Ordinal
	m.UUID, m.PCI = d.UUID, d.PCIBusID
	if m.GPU < 0 {
		m.GPU = d.Ordinal
	}
	if wanted != NCCL && wanted != Auto {
		g.NoNCCL = "not requested"
		return g
	}
	lib, err := nccl.Library()
	if err != nil {
		g.NoNCCL = err.Error()
		return g
	}
	g.NCCL = int(lib.Version)
	return g
}

// chooseDevices returns the backend for device memory, and the reason, for ranks whose host memory uses host. If NCCL
// was requested explicitly but cannot be used, the error names the rank.
func chooseDevices(wanted, host Backend, deterministic bool, ranks []prepared) (Backend, string, error) {
	const kernels = "kernels access the memory of ranks by CUDA IPC if all ranks can; otherwise data is staged " +
		"through pinned memory "
	rest, restWhy := Comm, kernels+"and connections like those of the workers"
	if host == UCX {
		rest, restWhy = UCX, kernels+"and UCX"
	}
	if wanted == UCX || wanted == Comm {
		return rest, restWhy + ", as requested", nil
	}
	why := whyNotNCCL(deterministic, ranks)
	switch {
	case why == "":
		return NCCL, fmt.Sprintf("NCCL %v is on every rank", nccl.Version(ranks[0].Device.NCCL)), nil
	case wanted == NCCL:
		return "", "", fmt.Errorf("NCCL cannot be used: %s", why)
	}
	return rest, restWhy + "; NCCL cannot be used: " + why, nil
}

// whyNotNCCL returns the first reason against NCCL, "" if there is none.
func whyNotNCCL(deterministic bool, ranks []prepared) string {
	if deterministic {
		return "the order of reductions is not fixed (Options.Deterministic)"
	}
	type place struct{ boot, host, uuid string }
	at := map[place]string{}
	apart := onSeveralMachines(ranks)
	for _, r := range ranks {
		switch {
		case r.Device.NoNCCL != "":
			return fmt.Sprintf("worker %s: %s", r.Worker, r.Device.NoNCCL)
		case r.Device.NCCL == 0:
			return fmt.Sprintf("worker %s sent no NCCL version (older release)", r.Worker)
		case r.Device.NCCL/100 != ranks[0].Device.NCCL/100:
			return fmt.Sprintf("worker %s has version %v, worker %s version %v; install the same version",
				ranks[0].Worker, nccl.Version(ranks[0].Device.NCCL),
				r.Worker, nccl.Version(r.Device.NCCL))
		case apart && !r.Trusted:
			return fmt.Sprintf("the ranks are on several machines, and worker %s was not started with "+
				"--data-connections=trusted: NCCL does not encrypt", r.Worker)
		}
		p := place{r.Boot, r.Device.HostID, r.UUID}
		if other, ok := at[p]; ok {
			return fmt.Sprintf("workers %s and %s share a GPU (%s), which NCCL rejects unless their "+
				"NCCL_HOSTID variables differ; UCX is faster for them", other, r.Worker, r.UUID)
		}
		at[p] = r.Worker
	}
	return ""
}
