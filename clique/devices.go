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

// devices is what a session has for the memory of GPUs.
type devices struct {
	by      Backend   // NCCL, UCX or Comm
	ordinal int       // the rank's GPU, -1 without one
	pool    *ncclPool // of NCCL
}

// ncclLane is the number of the lane of a lane on which NCCL's carrier talks while its turn is
// taken.
const ncclLane = 0

// newDevices makes it, with all ranks: what NCCL needs is made at once, so that a clique that was
// formed works.
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

// equip gives a lane of the session's group, or a sub-group, what carries its device memory.
func (d *devices) equip(g *collective.Group, sub bool) {
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

// equipped is the engine on host memory with what it has for devices.
type equipped struct {
	*collective.Group
	d *devices
}

func (e *equipped) Lane(n uint64) (*collective.Group, error) {
	g, err := e.Group.Lane(n)
	if err == nil {
		e.d.equip(g, false)
	}
	return g, err
}

func (e *equipped) Devices() *devices { return e.d }

func (e *equipped) Close() error {
	e.d.close()
	return e.Group.Close()
}

// gpu is what a worker tells about its GPU when a clique is formed.
type gpu struct {
	// Ordinal is its number in the worker's process, -1 without one.
	Ordinal int `json:"ordinal"`
	// NCCL is the version of its libnccl; without one NoNCCL says why.
	NCCL   int    `json:"nccl,omitempty"`
	NoNCCL string `json:"no_nccl,omitempty"`
	// HostID is the worker's NCCL_HOSTID: NCCL takes ranks that differ in it for ones of
	// different machines.
	HostID string `json:"hostid,omitempty"`
}

// lookForGPU describes the worker's GPU. A worker that was started without one is asked only if
// NCCL is wanted by name: looking starts the driver.
func lookForGPU(h *task.Host, m *Member, wanted Backend) gpu {
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
		g.NoNCCL = "it was not asked for"
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

// chooseDevices is what carries device memory among ranks whose host memory goes by host, and
// why. An error names the rank for which NCCL, asked for by name, cannot be.
func chooseDevices(wanted, host Backend, deterministic bool, ranks []prepared) (Backend, string, error) {
	const kernels = "kernels work on the ranks' memory by CUDA IPC where all can reach it, else it goes through " +
		"pinned memory "
	rest, restWhy := Comm, kernels+"and connections like those of the workers"
	if host == UCX {
		rest, restWhy = UCX, kernels+"and UCX"
	}
	if wanted == UCX || wanted == Comm {
		return rest, restWhy + ", as it was asked for", nil
	}
	why := whyNotNCCL(deterministic, ranks)
	switch {
	case why == "":
		return NCCL, fmt.Sprintf("NCCL %v is on every rank", nccl.Version(ranks[0].Device.NCCL)), nil
	case wanted == NCCL:
		return "", "", fmt.Errorf("no NCCL: %s", why)
	}
	return rest, restWhy + ": no NCCL, as " + why, nil
}

// whyNotNCCL is the first reason, "" if there is none.
func whyNotNCCL(deterministic bool, ranks []prepared) string {
	if deterministic {
		return "its reductions have an order of their own (Options.Deterministic)"
	}
	type place struct{ boot, host, uuid string }
	at := map[place]string{}
	apart := onSeveralMachines(ranks)
	for _, r := range ranks {
		switch {
		case r.Device.NoNCCL != "":
			return fmt.Sprintf("worker %s has none: %s", r.Worker, r.Device.NoNCCL)
		case r.Device.NCCL == 0:
			return fmt.Sprintf("worker %s does not say that it has it: it is of an older release", r.Worker)
		case r.Device.NCCL/100 != ranks[0].Device.NCCL/100:
			return fmt.Sprintf("worker %s has version %v and worker %s version %v: install the same on all",
				ranks[0].Worker, nccl.Version(ranks[0].Device.NCCL),
				r.Worker, nccl.Version(r.Device.NCCL))
		case apart && !r.Trusted:
			return fmt.Sprintf("the ranks are on several machines, and worker %s was not started with "+
				"--lanes=trusted: NCCL does not encrypt", r.Worker)
		}
		p := place{r.Boot, r.Device.HostID, r.UUID}
		if other, ok := at[p]; ok {
			return fmt.Sprintf("workers %s and %s share a GPU (%s), which NCCL refuses unless each has an "+
				"NCCL_HOSTID of its own in its environment; UCX serves them better", other, r.Worker, r.UUID)
		}
		at[p] = r.Worker
	}
	return ""
}
