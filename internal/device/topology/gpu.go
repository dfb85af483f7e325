package topology

import (
	"strings"
)

// GPU is a graphics processor that the kernel shows. The driver need not be loaded.
type GPU struct {
	*Device
	Index int    // position in the order of PCI addresses
	UUID  string // "GPU-…", empty without NVIDIA's driver
	Model string // such as "NVIDIA H200", empty without the driver
	// The rest is only set with Config.Driver.
	Memory     int64 // bytes, 0 if not known
	NVLinks    int   // that are up, -1 if not known
	MIGEnabled bool
	MIG        []MIG // the parts that it is cut into
}

const nvidia = 0x10de

// readGPUs finds NVIDIA's display and 3D controllers. Their names and UUIDs are in the driver's part of proc.
func (m *Machine) readGPUs(fs files) {
	for _, address := range fs.list("sys/bus/pci/devices") { // in the order of addresses
		d, ok := m.devices[address]
		if !ok || d.Vendor != nvidia || d.Class>>8 != 0x0300 && d.Class>>8 != 0x0302 {
			continue
		}
		g := &GPU{Device: d, Index: len(m.GPUs), NVLinks: -1}
		for line := range strings.Lines(fs.text("proc/driver/nvidia/gpus/" + address + "/information")) {
			name, value, _ := strings.Cut(line, ":")
			switch value = strings.TrimSpace(value); strings.TrimSpace(name) {
			case "GPU UUID":
				if !strings.Contains(value, "?") { // the driver has not queried the GPU yet
					g.UUID = value
				}
			case "Model":
				g.Model = value
			}
		}
		m.GPUs = append(m.GPUs, g)
	}
}

// GPU returns the GPU with a PCI address, a UUID or an unambiguous prefix of a UUID, as in CUDA_VISIBLE_DEVICES.
func (m *Machine) GPU(name string) (*GPU, bool) {
	var found *GPU
	for _, g := range m.GPUs {
		switch {
		case shortAddress(name) == g.Address || name == g.UUID:
			return g, true
		case strings.HasPrefix(name, "GPU-") && strings.HasPrefix(g.UUID, name):
			if found != nil {
				return nil, false
			}
			found = g
		}
	}
	return found, found != nil
}

// Affinity returns the processors next to a GPU that this process may use. If it may use none of them it returns all
// that it may use: a worker far from its GPU works, one without a processor does not.
func (m *Machine) Affinity(g *GPU) CPUSet {
	if near := g.CPUs.And(m.Allowed); near.Len() > 0 {
		return near
	}
	return m.Allowed
}

// String returns a description of the GPU for display.
func (g *GPU) String() string {
	name := "GPU " + g.Address
	if g.Model != "" {
		name = g.Model + " " + g.Address
	}
	return name
}
