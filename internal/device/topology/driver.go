package topology

import (
	"fmt"
	"strings"
)

// Driver is what NVIDIA's driver knows of GPUs beyond the kernel: package topology/nvml has
// one.
type Driver interface {
	// GPUs lists the GPUs that the driver shows to this process.
	GPUs() ([]DriverGPU, error)
}

// DriverGPU is a GPU as a Driver sees it.
type DriverGPU struct {
	Address string // on the PCI bus; a domain of 8 digits is fine
	UUID    string
	Model   string
	Memory  int64 // bytes
	NVLinks int   // that are up; -1 if the driver does not say
	// MIG are the parts that the GPU is cut into; MIGEnabled with none of them means that
	// nothing can run on it.
	MIGEnabled bool
	MIG        []MIG
}

// MIG is a part of a GPU that programs see as a GPU of its own.
type MIG struct {
	UUID string // "MIG-…", for CUDA_VISIBLE_DEVICES
	Name string // such as "NVIDIA A100-SXM4-40GB MIG 3g.20gb"
	// Index is its place among the parts of the GPU, the instances are the driver's numbers.
	Index, GPUInstance, ComputeInstance int
	Memory                              int64 // bytes
}

// ask adds what a driver knows to the GPUs that the kernel shows. One that only the driver
// knows (in a container without its sysfs) is added: nobody knows where it is.
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

// FindMIG returns the part of a GPU with a UUID, or with the older name
// "MIG-GPU-…/<GPU instance>/<compute instance>", and the GPU that it is a part of.
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
