package netif

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// Each of UCX's tcp devices uses one address family: the first of UCX_TCP_AF_PRIO for which the network interface has
// an address. A connection by a socket address of the other family makes UCX copy an IPv6 address into the space of an
// IPv4 one, overwriting its heap, or wait forever. So such addresses are rejected here.

// Interface has the properties that determine the family of UCX's device on a network interface.
type Interface struct {
	Name       string
	Has4, Has6 bool // it has an address of the family
}

// FamilyError compares the family of a with the one that UCX uses on the interface. An interface without a name is
// unknown, such as that of a wildcard address.
func FamilyError(a netip.Addr, ifc Interface, order, transports []string, version string) error {
	if ifc.Name != "" && !slices.Contains(transports, "tcp/"+ifc.Name) {
		return nil // not a device of UCX's tcp: another transport connects, or UCX reports an error
	}
	want := "inet6"
	if a.Unmap().Is4() {
		want = "inet"
	}
	used := ""
	for _, f := range order {
		if ifc.Name == "" || f == "inet" && ifc.Has4 || f == "inet6" && ifc.Has6 {
			used = f
			break
		}
	}
	if used == want || used == "" && want == "inet" {
		return nil
	}
	where := ""
	if ifc.Name != "" {
		where = " on " + ifc.Name
	}
	if want == "inet" {
		return fmt.Errorf("ucx: UCX's tcp transport uses IPv6%s and cannot connect by the IPv4 address %s: give an "+
			"IPv6 address, or set UCX_TCP_AF_PRIO=inet,inet6", where, a)
	}
	fix := "set UCX_TCP_AF_PRIO=inet6,inet on both sides"
	if !slices.Contains(order, "inet6") {
		fix = "use UCX 1.14 or newer (this is " + version + ") with UCX_TCP_AF_PRIO=inet6,inet"
	}
	return fmt.Errorf("ucx: UCX's tcp transport uses IPv4%s and cannot connect by the IPv6 address %s: give an IPv4 "+
		"address, use Dial and Listen instead, or %s", where, a, fix)
}

// RouteTo returns the local address from which packets to a are sent; it sends none.
func RouteTo(ctx context.Context, a netip.AddrPort) netip.Addr {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "udp", a.String())
	if err != nil {
		return netip.Addr{}
	}
	defer conn.Close()
	if u, ok := conn.LocalAddr().(*net.UDPAddr); ok {
		return u.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// InterfaceWith returns the network interface that has an address.
func InterfaceWith(a netip.Addr) Interface {
	ifs, err := net.Interfaces()
	if err != nil || !a.IsValid() || a.IsUnspecified() {
		return Interface{}
	}
	a = a.Unmap().WithZone("")
	for _, i := range ifs {
		out, found := Interface{Name: i.Name}, false
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, ia := range addrs {
			n, ok := ia.(*net.IPNet)
			if !ok {
				continue
			}
			ip, _ := netip.AddrFromSlice(n.IP)
			ip = ip.Unmap()
			found = found || ip == a
			out.Has4 = out.Has4 || ip.Is4()
			out.Has6 = out.Has6 || ip.Is6() && !ip.IsLinkLocalUnicast()
		}
		if found {
			return out
		}
	}
	// 127.0.0.0/8 belongs to the loopback interface as a whole.
	if a.IsLoopback() && a.Is4() && a != netip.AddrFrom4([4]byte{127, 0, 0, 1}) {
		return InterfaceWith(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	}
	return Interface{}
}
