package commaddr

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"
)

// InterfaceIP returns the IP address of a network interface (ib0, eth0): its IPv4 one, or
// the first global IPv6 one.
func InterfaceIP(name string) (string, error) {
	ifs, err := net.Interfaces()
	if err != nil {
		return "", fmt.Errorf("comm: list network interfaces: %w", err)
	}
	var names []string
	for _, i := range ifs {
		names = append(names, i.Name)
	}
	at := slices.Index(names, name)
	if at < 0 {
		return "", fmt.Errorf("comm: %q is not a network interface of this host; there are: %s", name,
			strings.Join(names, ", "))
	}
	addrs, err := ifs[at].Addrs()
	if err != nil {
		return "", fmt.Errorf("comm: addresses of interface %s: %w", name, err)
	}
	var v6 string
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err != nil {
			continue
		}
		ip := p.Addr().Unmap()
		if ip.Is4() {
			return ip.String(), nil
		}
		if v6 == "" && !ip.IsLinkLocalUnicast() {
			v6 = ip.String()
		}
	}
	if v6 == "" {
		return "", fmt.Errorf("comm: interface %s has no IPv4 and no global IPv6 address", name)
	}
	return v6, nil
}

// Without a host, the route to a well-known public address is looked up, as in Dask. Nothing is sent to it.
const (
	anyHost4 = "8.8.8.8"
	anyHost6 = "2001:4860:4860::8888"
)

// LocalIP returns the local address on the route to an IP address, or on the default route if it is empty. Nothing is
// sent, except that without a route the host's own name is looked up, for two seconds at most.
func LocalIP(ip string) string {
	if ip == "" {
		ip = anyHost4
	}
	network, fallback := "udp4", "127.0.0.1"
	if a, err := netip.ParseAddr(ip); err == nil && a.Unmap().Is6() {
		network, fallback = "udp6", "::1"
	}
	// Connecting a UDP socket only selects the route.
	if c, err := net.Dial(network, net.JoinHostPort(ip, "80")); err == nil {
		defer c.Close()
		if a, ok := c.LocalAddr().(*net.UDPAddr); ok && !a.IP.IsUnspecified() {
			return a.AddrPort().Addr().Unmap().String()
		}
	}
	// No route, as on a machine without a network: try the host's own name.
	if name, err := os.Hostname(); err == nil {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		defer cancel()
		ips, _ := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		for _, ip := range ips {
			if ip = ip.Unmap(); ip.Is4() == (network == "udp4") && !ip.IsUnspecified() {
				return ip.String()
			}
		}
	}
	return fallback
}

// ConcreteHost returns host, or this host's own address if host is a wildcard.
func ConcreteHost(host string) string {
	switch host {
	case "", "0.0.0.0":
		return LocalIP(anyHost4)
	case "::":
		return LocalIP(anyHost6)
	}
	return host
}

// ResolveHost returns the IP address of a host, IPv4 if it has one.
func ResolveHost(ctx context.Context, host string) (string, error) {
	if a, err := netip.ParseAddr(host); err == nil {
		return a.String(), nil
	}
	if host == "" {
		return "", &Error{host, "the host is missing"}
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return "", fmt.Errorf("comm: resolve host %q: %w", host, err)
	}
	for _, ip := range ips {
		if ip.Unmap().Is4() {
			return ip.Unmap().String(), nil
		}
	}
	if len(ips) == 0 {
		return "", fmt.Errorf("comm: host %q has no IP address", host)
	}
	return ips[0].String(), nil
}

// IsLoopback reports whether a host is on the loopback interface.
func IsLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	a, err := netip.ParseAddr(host)
	return err == nil && a.IsLoopback()
}
