package ucx

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// UCX's tcp devices speak one address family each: the first of UCX_TCP_AF_PRIO that the
// network interface has an address of. A connection that comes by a socket address of the
// other family makes UCX copy an IPv6 address into the room of an IPv4 one, over its own
// heap, or wait for ever. So such addresses are refused here.

// checkFamily says why UCX must not be given a socket address to listen on, or to connect
// to, coming from the address local if that is valid.
func (c *Context) checkFamily(ctx context.Context, a netip.AddrPort, local netip.Addr, listen bool) error {
	switch {
	case listen:
		local = a.Addr()
	case !local.IsValid():
		if local = routeTo(ctx, a); !local.IsValid() {
			return nil // UCX will not find a way either, and say so
		}
	}
	return familyError(a.Addr(), interfaceWith(local), c.familyOrder(), c.lanes, c.lib.Version)
}

// familyOrder is the order in which UCX looks for addresses of a device; only "inet" for
// releases whose IPv6 connections do not come about whatever is set.
func (c *Context) familyOrder() []string {
	if !c.lib.AtLeast(1, 14) {
		return []string{"inet"}
	}
	order, set := os.LookupEnv("UCX_TCP_AF_PRIO")
	for _, name := range []string{"TCP_AF_PRIO", "UCX_TCP_AF_PRIO"} {
		if v, ok := c.cfg.Options[name]; ok && !set && c.lib.AtLeast(1, 18) { // older ones look at the variable only
			order = v
		}
	}
	var out []string
	for name := range strings.SplitSeq(order, ",") {
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, name)
		}
	}
	if out == nil {
		return []string{"inet", "inet6"} // UCX's default
	}
	return out
}

// familyInterface is what decides the family of UCX's device on a network interface.
type familyInterface struct {
	name       string
	has4, has6 bool
}

// familyError compares the family of a with the one that UCX uses on the interface. An
// interface without a name is one that is not known, such as that of a wildcard address.
func familyError(a netip.Addr, ifc familyInterface, order, lanes []string, version string) error {
	if ifc.name != "" && !slices.Contains(lanes, "tcp/"+ifc.name) {
		return nil // not a device of UCX's tcp: another transport makes the connection, or UCX says that none does
	}
	want := "inet6"
	if a.Unmap().Is4() {
		want = "inet"
	}
	used := ""
	for _, f := range order {
		if ifc.name == "" || f == "inet" && ifc.has4 || f == "inet6" && ifc.has6 {
			used = f
			break
		}
	}
	if used == want || used == "" && want == "inet" {
		return nil
	}
	where := ""
	if ifc.name != "" {
		where = " on " + ifc.name
	}
	if want == "inet" {
		return fmt.Errorf("ucx: UCX's tcp transport uses IPv6%s and cannot connect by the IPv4 address %s: give an IPv6 address, or set UCX_TCP_AF_PRIO=inet,inet6: %w", where, a, ErrUnsupported)
	}
	fix := "set UCX_TCP_AF_PRIO=inet6,inet on both sides"
	if !slices.Contains(order, "inet6") {
		fix = "use UCX 1.14 or newer (this is " + version + ") with UCX_TCP_AF_PRIO=inet6,inet"
	}
	return fmt.Errorf("ucx: UCX's tcp transport uses IPv4%s and cannot connect by the IPv6 address %s: give an IPv4 address, meet with Dial and Listen instead, or %s: %w", where, a, fix, ErrUnsupported)
}

// routeTo returns the local address that packets to a leave from; none are sent.
func routeTo(ctx context.Context, a netip.AddrPort) netip.Addr {
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

// interfaceWith finds the network interface that has an address.
func interfaceWith(a netip.Addr) familyInterface {
	ifs, err := net.Interfaces()
	if err != nil || !a.IsValid() || a.IsUnspecified() {
		return familyInterface{}
	}
	a = a.Unmap().WithZone("")
	for _, i := range ifs {
		out, found := familyInterface{name: i.Name}, false
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
			out.has4 = out.has4 || ip.Is4()
			out.has6 = out.has6 || ip.Is6() && !ip.IsLinkLocalUnicast()
		}
		if found {
			return out
		}
	}
	// 127.0.0.0/8 is the loopback's as a whole.
	if a.IsLoopback() && a.Is4() && a != netip.AddrFrom4([4]byte{127, 0, 0, 1}) {
		return interfaceWith(netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	}
	return familyInterface{}
}
