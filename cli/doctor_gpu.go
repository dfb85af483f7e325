package cli

import (
	"context"
	"os"
	"strings"
	"time"

	"go.millstream.dev/cli/internal/doctor"
	"go.millstream.dev/client"
	"go.millstream.dev/config"
	"go.millstream.dev/cuda"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/nccl"
	"go.millstream.dev/wire"
)

// examineGPUs adds information of the CUDA driver, NCCL and NVRTC. It creates no context on a GPU.
func examineGPUs(h *doctor.Host) {
	h.CUDA, h.CUDAError = cudaInfo()
	h.NCCL, h.NVRTC = ncclInfo(), nvrtcInfo()
	h.PoolSize, h.PoolFrom = configuredPool()
}

func cudaInfo() (*doctor.CUDA, error) {
	if err := cuda.Available(); err != nil {
		return nil, err
	}
	devices, err := cuda.Devices()
	if err != nil {
		return nil, err
	}
	c := &doctor.CUDA{Library: cuda.Library()}
	if v, err := cuda.DriverVersion(); err == nil {
		c.Version = v.String()
	}
	machine, _ := readMachine() // optional information
	for i, d := range devices {
		dev := doctor.CUDADevice{Name: d.Name, UUID: d.UUID, Address: d.PCIBusID, Memory: d.TotalMemory, IPC: d.IPC,
			NVLinks: -1, Node: d.NUMANode}
		if machine != nil {
			if g, ok := machine.GPU(d.PCIBusID); ok {
				dev.NVLinks = g.NVLinks
				if g.Node >= 0 {
					dev.Node = g.Node
				}
			}
		}
		c.Devices = append(c.Devices, dev)
		row := make([]bool, len(devices))
		for j := range devices {
			reaches, err := cuda.CanAccessPeer(i, j)
			row[j] = i == j || err == nil && reaches
		}
		c.Peers = append(c.Peers, row)
	}
	return c, nil
}

func ncclInfo() *doctor.Optional {
	o := &doctor.Optional{Chosen: chosen("MILLSTREAM_NCCL_LIBRARY")}
	lib, err := nccl.Library()
	if err != nil {
		o.Err = err
		return o
	}
	o.Path, o.Version = lib.Path, lib.Version.String()
	return o
}

func nvrtcInfo() *doctor.Optional {
	o := &doctor.Optional{Chosen: chosen("MILLSTREAM_NVRTC_LIBRARY")}
	o.Path, o.Version, o.Err = cuda.CompilerLibrary()
	return o
}

// chosen returns the name of a variable if it is set, else "".
func chosen(name string) string {
	if os.Getenv(name) == "" {
		return ""
	}
	return name
}

// configuredPool returns the size and the source of the pool that processes in this environment create. `config check`
// reports invalid settings.
func configuredPool() (int64, string) {
	c, err := config.Default()
	if err != nil {
		return 0, ""
	}
	s, err := c.Settings(config.Overrides{})
	if err != nil || s.RMM.PoolSize == 0 {
		return 0, ""
	}
	for _, v := range s.Values {
		if strings.HasSuffix(v.Key, "rmm.pool-size") {
			return s.RMM.PoolSize, v.Source.String()
		}
	}
	return s.RMM.PoolSize, "the settings"
}

// deviceSample allocates memory on the GPU of the worker, for measurements.
var deviceSample = client.Func2("millstream.device-sample",
	func(ctx context.Context, n, _ int64) (*wire.DeviceArray, error) {
		d, err := task.CurrentDevice(ctx)
		if err != nil {
			return nil, err
		}
		b, err := d.Memory.Alloc(ctx, int(n))
		if err != nil {
			return nil, err
		}
		if _, err := cuda.StreamOf(d.Stream).Fill(b, 1); err != nil {
			b.Release()
			return nil, err
		}
		return wire.NewDeviceArray[uint8](b)
	})

// measureDevice lets one worker fetch device memory of another, twice, because the first transfer maps the memory.
func (x *clusterExam) measureDevice(ctx context.Context, from, to doctor.Member) doctor.Flow {
	f := doctor.Flow{From: from, To: to, Device: true}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for range 2 {
		future := deviceSample.Submit(ctx, x.cl, client.Val(x.size), client.Val(time.Now().UnixNano()),
			client.WithWorkers(from.Address))
		f.Err = client.Wait(ctx, []*client.Future[*wire.DeviceArray]{future})
		if f.Err == nil {
			start := time.Now()
			f.Err = x.cl.Replicate(ctx, 2, []string{from.Address, to.Address}, future)
			f.Rate = float64(x.size) / time.Since(start).Seconds()
		}
		future.Release()
		if f.Err != nil {
			return f
		}
	}
	x.addRecord(ctx, &f)
	return f
}
