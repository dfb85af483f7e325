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

// examineGPUs adds what the CUDA driver and the libraries on it say of themselves. No context is
// made on any GPU.
func examineGPUs(h *doctor.Host) {
	h.CUDA, h.CUDAError = askCUDA()
	h.NCCL, h.NVRTC = askNCCL(), askNVRTC()
	h.PoolSize, h.PoolFrom = askedPool()
}

func askCUDA() (*doctor.CUDA, error) {
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
	machine, _ := readMachine() // what it adds is for people
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

func askNCCL() *doctor.Optional {
	o := &doctor.Optional{Chosen: chosen("MILLSTREAM_NCCL_LIBRARY")}
	lib, err := nccl.Library()
	if err != nil {
		o.Err = err
		return o
	}
	o.Path, o.Version = lib.Path, lib.Version.String()
	return o
}

func askNVRTC() *doctor.Optional {
	o := &doctor.Optional{Chosen: chosen("MILLSTREAM_NVRTC_LIBRARY")}
	o.Path, o.Version, o.Err = cuda.CompilerLibrary()
	return o
}

// chosen is the name of a variable that is set, else "".
func chosen(name string) string {
	if os.Getenv(name) == "" {
		return ""
	}
	return name
}

// askedPool is the pool that workers, schedulers and clients of this environment would make.
// What is wrong with the settings is told by `config check`.
func askedPool() (int64, string) {
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

// deviceSample is memory of the GPU of the worker that runs it, for doctor to have moved.
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

// measureDevice has one worker fetch device memory of another: twice, as the first transfer maps
// what is to be moved.
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
	x.told(ctx, &f)
	return f
}
