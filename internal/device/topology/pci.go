package topology

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Device is a device on the PCI bus.
type Device struct {
	Address string // such as 0000:3b:00.0
	Vendor  uint16 // 0x10de is NVIDIA, 0x15b3 Mellanox
	Product uint16
	Class   uint32 // such as 0x030200, a 3D controller
	Node    int    // NUMA node, or -1 if unknown and there are several
	// CPUs are the processors next to the device, as reported by the firmware; all if it reports none.
	CPUs CPUSet
	// Path is the path from the host bridge to the device: "pci0000:3a", bridges, and the device's own address last.
	Path []string
}

var pciAddress = regexp.MustCompile(`^[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

func (m *Machine) readDevices(fs files) error {
	for _, address := range fs.list("sys/bus/pci/devices") {
		if !pciAddress.MatchString(address) {
			continue
		}
		link := "sys/bus/pci/devices/" + address
		path, err := fs.target(link)
		if err != nil {
			return fmt.Errorf("topology: PCI device %s: %w", address, err)
		}
		d := &Device{
			Address: address, Node: int(fs.number(link+"/numa_node", -1)),
			Vendor: uint16(fs.number(link+"/vendor", 0)), Product: uint16(fs.number(link+"/device", 0)),
			Class: uint32(fs.number(link+"/class", 0)),
			Path:  pciPath(path),
		}
		if d.Node < 0 && len(m.Nodes) == 1 { // virtual machines do not report it, and there is only one
			d.Node = m.Nodes[0].ID
		}
		if d.CPUs, err = ParseCPUList(fs.text(link + "/local_cpulist")); err != nil {
			return fmt.Errorf("topology: processors of PCI device %s: %w", address, err)
		}
		if d.CPUs.Len() == 0 {
			d.CPUs = m.Online
			if n := m.node(d.Node); n != nil {
				d.CPUs = n.CPUs
			}
		}
		m.devices[address] = d
	}
	return nil
}

// pciPath returns the parts of a path in sys/devices that belong to the PCI bus.
func pciPath(path string) []string {
	var parts []string
	for part := range strings.SplitSeq(path, "/") {
		if strings.HasPrefix(part, "pci") && strings.Contains(part, ":") || pciAddress.MatchString(part) {
			parts = append(parts, part)
		}
	}
	return parts
}

// Device returns the PCI device with an address such as 0000:3b:00.0; letters may be upper case and the domain may have
// 8 digits, as in NVIDIA's tools.
func (m *Machine) Device(address string) (*Device, bool) {
	d, ok := m.devices[shortAddress(address)]
	return d, ok
}

// shortAddress returns the kernel's form of an address.
func shortAddress(address string) string {
	address = strings.ToLower(strings.TrimSpace(address))
	if domain, rest, ok := strings.Cut(address, ":"); ok && len(domain) == 8 && strings.HasPrefix(domain, "0000") {
		return domain[4:] + ":" + rest
	}
	return address
}

// Level is a class of distances, nearest first. The names in brackets are those of nvidia-smi.
type Level uint8

const (
	// SamePort is the level of functions of one device, and of the device itself.
	SamePort Level = iota
	// SameSwitch is the level of devices with at most one PCI switch between them (PIX).
	SameSwitch
	// ManySwitches is the level of devices with several switches, but not the host bridge, between them (PXB).
	ManySwitches
	// SameBridge is the level of devices below one host bridge, which is part of a processor (PHB).
	SameBridge
	// SameNode is the level of devices below different host bridges of one NUMA node (NODE).
	SameNode
	// System is the level of devices on different NUMA nodes, or on unknown ones (SYS).
	System
)

// String returns nvidia-smi's name of the level, "X" for SamePort.
func (l Level) String() string {
	return [...]string{"X", "PIX", "PXB", "PHB", "NODE", "SYS"}[min(l, System)]
}

// Distance is the distance of two devices.
type Distance struct {
	Level Level
	Hops  int // steps up from one and down to the other
}

// Less reports whether d is smaller than o.
func (d Distance) Less(o Distance) bool {
	return d.Level < o.Level || d.Level == o.Level && d.Hops < o.Hops
}

// Between returns the distance of two devices.
func Between(a, b *Device) Distance {
	if a == nil || b == nil || len(a.Path) == 0 || len(b.Path) == 0 {
		return Distance{Level: System, Hops: 1 << 10}
	}
	common := 0
	for common < min(len(a.Path), len(b.Path)) && a.Path[common] == b.Path[common] {
		common++
	}
	up, down := len(a.Path)-common, len(b.Path)-common
	d := Distance{Hops: up + down}
	switch {
	case up+down == 0 || sameSlot(a, b) && slices.Equal(a.Path[:len(a.Path)-1], b.Path[:len(b.Path)-1]):
		d.Level = SamePort
	case common >= 2 && up <= 2 && down <= 2: // a port of the switch and the device, on either side
		d.Level = SameSwitch
	case common >= 2:
		d.Level = ManySwitches
	case common == 1:
		d.Level = SameBridge
	case a.Node == b.Node && a.Node >= 0:
		d.Level = SameNode
	default:
		d.Level = System
	}
	return d
}

// sameSlot reports whether two addresses differ only in the function.
func sameSlot(a, b *Device) bool {
	x, _, _ := strings.Cut(a.Address, ".")
	y, _, _ := strings.Cut(b.Address, ".")
	return x == y
}
