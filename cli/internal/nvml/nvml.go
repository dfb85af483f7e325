//go:build nvml && cgo && linux

package nvml

import (
	"errors"
	"fmt"
	"sync"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"go.millstream.dev/internal/device/topology"
)

// Driver is the open library. It is safe for concurrent use.
type Driver struct {
	lib  nvml.Interface
	once sync.Once
	err  error // returned by Close
}

// Open loads the library.
func Open() (*Driver, error) { return New(nvml.New()) }

// New returns a Driver for a library.
func New(lib nvml.Interface) (*Driver, error) {
	if r := lib.Init(); r != nvml.SUCCESS {
		if r == nvml.ERROR_LIBRARY_NOT_FOUND {
			return nil, errors.New("topology/nvml: libnvidia-ml.so.1 not found; install the NVIDIA driver, or start " +
				"the container with --gpus")
		}
		return nil, failed("start", r)
	}
	return &Driver{lib: lib}, nil
}

// Close closes the library. It may be called twice.
func (d *Driver) Close() error {
	d.once.Do(func() {
		if r := d.lib.Shutdown(); r != nvml.SUCCESS {
			d.err = failed("shutdown", r)
		}
	})
	return d.err
}

func failed(op string, r nvml.Return) error {
	return fmt.Errorf("topology/nvml: %s: %w", op, r)
}

// GPUs returns the GPUs that the driver shows to this process. Lost GPUs are left out; it is an error if all are lost.
func (d *Driver) GPUs() ([]topology.DriverGPU, error) {
	n, r := d.lib.DeviceGetCount()
	if r != nvml.SUCCESS {
		return nil, failed("count GPUs", r)
	}
	var list []topology.DriverGPU
	var lost error
	for i := range n {
		dev, r := d.lib.DeviceGetHandleByIndex(i)
		if r != nvml.SUCCESS {
			lost = errors.Join(lost, failed(fmt.Sprintf("GPU %d", i), r))
			continue
		}
		g, err := describe(dev)
		if err != nil {
			lost = errors.Join(lost, fmt.Errorf("GPU %d: %w", i, err))
			continue
		}
		list = append(list, g)
	}
	if len(list) == 0 && lost != nil {
		return nil, lost
	}
	return list, nil
}

func describe(dev nvml.Device) (g topology.DriverGPU, err error) {
	pci, r := dev.GetPciInfo()
	if r != nvml.SUCCESS {
		return g, failed("PCI address", r)
	}
	g.Address = text(pci.BusId[:])
	if g.UUID, r = dev.GetUUID(); r != nvml.SUCCESS {
		return g, failed("UUID", r)
	}
	if g.Model, r = dev.GetName(); r != nvml.SUCCESS {
		g.Model = "" // the name is optional
	}
	g.Memory, g.NVLinks = memory(dev), links(dev)
	mode, _, r := dev.GetMigMode()
	if r != nvml.SUCCESS || mode != nvml.DEVICE_MIG_ENABLE { // old GPUs do not support it
		return g, nil
	}
	g.MIGEnabled = true
	n, r := dev.GetMaxMigDeviceCount()
	if r != nvml.SUCCESS {
		return g, failed("count MIG devices", r)
	}
	for i := range n {
		part, r := dev.GetMigDeviceHandleByIndex(i)
		if r == nvml.ERROR_NOT_FOUND || r == nvml.ERROR_INVALID_ARGUMENT {
			continue // indexes have gaps
		}
		if r != nvml.SUCCESS {
			return g, failed(fmt.Sprintf("MIG device %d", i), r)
		}
		p, err := describeMIG(part, i)
		if err != nil {
			return g, err
		}
		g.MIG = append(g.MIG, p)
	}
	return g, nil
}

func describeMIG(part nvml.Device, index int) (p topology.MIG, err error) {
	p.Index, p.Memory = index, memory(part)
	var r nvml.Return
	if p.UUID, r = part.GetUUID(); r != nvml.SUCCESS {
		return p, failed(fmt.Sprintf("UUID of MIG device %d", index), r)
	}
	if p.Name, r = part.GetName(); r != nvml.SUCCESS {
		p.Name = ""
	}
	if p.GPUInstance, r = part.GetGpuInstanceId(); r != nvml.SUCCESS {
		return p, failed("GPU instance of "+p.UUID, r)
	}
	if p.ComputeInstance, r = part.GetComputeInstanceId(); r != nvml.SUCCESS {
		return p, failed("compute instance of "+p.UUID, r)
	}
	return p, nil
}

// memory returns the size of the memory, 0 if the driver does not report it: a GPU that shares host memory.
func memory(dev nvml.Device) int64 {
	m, r := dev.GetMemoryInfo()
	if r != nvml.SUCCESS || m.Total > 1<<62 {
		return 0
	}
	return int64(m.Total)
}

// links returns the number of active NVLinks, -1 if the driver does not report it.
func links(dev nvml.Device) (up int) {
	for i := range nvml.NVLINK_MAX_LINKS {
		switch state, r := dev.GetNvLinkState(i); r {
		case nvml.SUCCESS:
			if state == nvml.FEATURE_ENABLED {
				up++
			}
		case nvml.ERROR_NOT_SUPPORTED, nvml.ERROR_INVALID_ARGUMENT:
			return up // no NVLink, or the last one
		default:
			return -1
		}
	}
	return up
}

// text converts a C string.
func text[T ~int8 | ~uint8](c []T) string {
	b := make([]byte, 0, len(c))
	for _, x := range c {
		if x == 0 {
			break
		}
		b = append(b, byte(x))
	}
	return string(b)
}
