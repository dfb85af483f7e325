package topology

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
)

// NIC is a network interface such as eth0, or an InfiniBand or RoCE device such as mlx5_0.
type NIC struct {
	Name   string
	Device *Device // nil for interfaces that are not PCI devices, such as lo
	// InfiniBand devices have ports; interfaces have none.
	InfiniBand bool
	Ports      []Port
	// Interfaces are the network interfaces on an InfiniBand device's PCI device: the value of --interface if data is
	// sent over this device.
	Interfaces []string
	// Up reports whether an interface carries traffic (operstate), or an InfiniBand device has an active port.
	Up bool
}

// Port is a port of an InfiniBand device.
type Port struct {
	Number int
	State  string // such as "ACTIVE", "DOWN"
	Link   string // "InfiniBand" or "Ethernet"
	Rate   string // such as "400 Gb/sec (4X NDR)"
}

// Active reports whether the port carries traffic.
func (p Port) Active() bool { return p.State == "ACTIVE" }

func (m *Machine) readNICs(fs files) {
	for _, name := range fs.list("sys/class/infiniband") {
		dir := "sys/class/infiniband/" + name
		n := &NIC{Name: name, InfiniBand: true, Device: m.deviceOf(fs, dir+"/device"),
			Interfaces: fs.list(dir + "/device/net")}
		for _, port := range fs.list(dir + "/ports") {
			number, err := strconv.Atoi(port)
			if err != nil {
				continue
			}
			at := dir + "/ports/" + port
			p := Port{Number: number, State: fs.text(at + "/state"), Link: fs.text(at + "/link_layer"),
				Rate: fs.text(at + "/rate")}
			if _, word, ok := strings.Cut(p.State, ":"); ok { // "4: ACTIVE"
				p.State = strings.TrimSpace(word)
			}
			n.Up = n.Up || p.Active()
			n.Ports = append(n.Ports, p)
		}
		slices.SortFunc(n.Ports, func(a, b Port) int { return cmp.Compare(a.Number, b.Number) })
		m.NICs = append(m.NICs, n)
	}
	for _, name := range fs.list("sys/class/net") {
		dir := "sys/class/net/" + name
		if fs.text(dir+"/ifindex") == "" {
			continue // a file such as bonding_masters
		}
		state := fs.text(dir + "/operstate")
		m.NICs = append(m.NICs, &NIC{Name: name, Device: m.deviceOf(fs, dir+"/device"), Up: state == "up" ||
			state == "unknown"})
	}
}

// deviceOf returns the PCI device that a link refers to, or nil. Virtual functions and the like are below it.
func (m *Machine) deviceOf(fs files, link string) *Device {
	target, err := fs.target(link)
	if err != nil {
		return nil
	}
	for ; target != "." && target != "/"; target = path.Dir(target) {
		if d, ok := m.devices[path.Base(target)]; ok {
			return d
		}
	}
	return nil
}

// NIC returns the network interface or InfiniBand device with a name.
func (m *Machine) NIC(name string) (*NIC, bool) {
	for _, n := range m.NICs {
		if n.Name == name {
			return n, true
		}
	}
	return nil, false
}

// ClosestInfiniBand returns the InfiniBand device closest to a GPU among those with an active port, and its first
// active port in UCX's form: "mlx5_0:1". Among equally close devices GPUs alternate by their index, so that two GPUs
// with two devices use both. Without an active port the error names the devices that were skipped.
func (m *Machine) ClosestInfiniBand(g *GPU) (nic *NIC, netDevice string, err error) {
	var best []*NIC
	var distance Distance
	var passed []string
	for _, n := range m.NICs {
		if !n.InfiniBand {
			continue
		}
		if !n.Up {
			for _, p := range n.Ports {
				passed = append(passed, fmt.Sprintf("%s:%d (%s)", n.Name, p.Number, p.State))
			}
			continue
		}
		switch d := Between(g.Device, n.Device); {
		case len(best) == 0 || d.Less(distance):
			best, distance = []*NIC{n}, d
		case d == distance:
			best = append(best, n)
		}
	}
	if len(best) == 0 {
		if len(passed) == 0 {
			return nil, "", fmt.Errorf("topology: no InfiniBand device for %v: /sys/class/infiniband is empty; load "+
				"its driver, or specify a network device", g)
		}
		return nil, "", fmt.Errorf("topology: no active InfiniBand port for %v among %s; bring one up, or "+
			"specify a network device", g, strings.Join(passed, ", "))
	}
	nic = best[m.turn(g, distance)%len(best)]
	for _, p := range nic.Ports {
		if p.Active() {
			return nic, fmt.Sprintf("%s:%d", nic.Name, p.Number), nil
		}
	}
	return nil, "", fmt.Errorf("topology: %s has no active port", nic.Name) // unreachable: Up implies an active port
}

// turn returns the position of g among the GPUs with the same InfiniBand devices at the same distance.
func (m *Machine) turn(g *GPU, distance Distance) int {
	turn := 0
	for _, other := range m.GPUs {
		if other == g {
			break
		}
		same := true
		for _, n := range m.NICs {
			if n.InfiniBand && n.Up && Between(g.Device, n.Device) == distance &&
				Between(other.Device, n.Device) != distance {
				same = false
			}
		}
		if same {
			turn++
		}
	}
	return turn
}

// CheckInterface returns a warning if the interface of control messages does not belong to the InfiniBand device, with
// the right interface, or "".
func (m *Machine) CheckInterface(nic *NIC, name string) string {
	if name == "" || slices.Contains(nic.Interfaces, name) {
		return ""
	}
	right := "the device has no network interface: load ib_ipoib or leave --interface out"
	if len(nic.Interfaces) > 0 {
		right = "use --interface " + strings.Join(nic.Interfaces, " or ")
	}
	return fmt.Sprintf("network device %s is not behind --interface %s: connections may be made over another network "+
		"than the data; %s", nic.Name, name, right)
}
