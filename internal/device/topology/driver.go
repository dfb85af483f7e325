package topology

import (
	"fmt"
	"strings"
)

// Driver provides information of NVIDIA's driver about GPUs that the kernel does not have; package nvml reads it.
type Driver interface {
	// GPUs returns the GPUs that the driver shows to this process.
	GPUs() ([]DriverGPU, error)
}

// DriverGPU is a GPU as seen by a Driver.
type DriverGPU struct {
	Address string // on the PCI bus; a domain of 8 digits is fine
	UUID    string
	Model   string
	Memory  int64 // bytes
	NVLinks int   // that are up; -1 if unknown
	// MIG are the instances of the GPU; MIGEnabled without instances means that nothing can run on it.
	MIGEnabled bool
	MIG        []MIG
}

// MIG is an instance of a GPU that programs see as a separate GPU.
type MIG struct {
	UUID string // "MIG-…", for CUDA_VISIBLE_DEVICES
	Name string // such as "NVIDIA A100-SXM4-40GB MIG 3g.20gb"
	// Index is the index among the instances of the GPU; the instances are the driver's numbers.
	Index, GPUInstance, ComputeInstance int
	Memory                              int64 // bytes
}

// ask adds the information of a driver to the GPUs of the kernel. A GPU that only the driver shows (in a container
// without its sysfs) is added with an unknown location.
func (m *Machine) ask(d Driver) error {
	list, err := d.GPUs()
	if err != nil {
		return fmt.Errorf("topology: GPUs of the driver: %w", err)
	}
	for _, known := range list {
		g, ok := m.GPU(known.Address)
		if !ok {
			g = &GPU{Device: &Device{Address: shortAddress(known.Address), Vendor: nvidia, Node: -1, CPUs: m.Online,
				Path: []string{shortAddress(known.Address)}}, Index: len(m.GPUs)}
			m.GPUs = append(m.GPUs, g)
		}
		g.UUID, g.Model, g.Memory, g.NVLinks = known.UUID, known.Model, known.Memory, known.NVLinks
		g.MIGEnabled, g.MIG = known.MIGEnabled, known.MIG
	}
	return nil
}

// FindMIG returns the instance with a UUID, or with the older name "MIG-GPU-…/<GPU instance>/<compute instance>", and
// its GPU.
func (m *Machine) FindMIG(name string) (*GPU, *MIG, bool) {
	for _, g := range m.GPUs {
		for i := range g.MIG {
			p := &g.MIG[i]
			if name != "" && name == p.UUID || strings.TrimPrefix(name, "MIG-") == fmt.Sprintf("%s/%d/%d", g.UUID,
				p.GPUInstance, p.ComputeInstance) {
				return g, p, true
			}
		}
	}
	return nil, nil, false
}
