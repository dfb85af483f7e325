package netif

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"syscall"
)

// PutSockaddr writes an address as sockaddr_in or sockaddr_in6 and returns its length.
func PutSockaddr(b []byte, a netip.AddrPort) int {
	ip := a.Addr().Unmap()
	clear(b[:28])
	if ip.Is4() {
		binary.NativeEndian.PutUint16(b, syscall.AF_INET)
		binary.BigEndian.PutUint16(b[2:], a.Port())
		v := ip.As4()
		copy(b[4:], v[:])
		return 16
	}
	binary.NativeEndian.PutUint16(b, syscall.AF_INET6)
	binary.BigEndian.PutUint16(b[2:], a.Port())
	v := ip.As16()
	copy(b[8:], v[:])
	if zone := ip.Zone(); zone != "" {
		if ifi, err := net.InterfaceByName(zone); err == nil {
			binary.NativeEndian.PutUint32(b[24:], uint32(ifi.Index))
		}
	}
	return 28
}

// ParseSockaddr parses a sockaddr_storage.
func ParseSockaddr(b []byte) (netip.AddrPort, error) {
	if len(b) < 28 {
		return netip.AddrPort{}, fmt.Errorf("ucx: socket address of %d bytes", len(b))
	}
	port := binary.BigEndian.Uint16(b[2:])
	switch f := binary.NativeEndian.Uint16(b); f {
	case syscall.AF_INET:
		return netip.AddrPortFrom(netip.AddrFrom4([4]byte(b[4:8])), port), nil
	case syscall.AF_INET6:
		return netip.AddrPortFrom(netip.AddrFrom16([16]byte(b[8:24])), port), nil
	default:
		return netip.AddrPort{}, fmt.Errorf("ucx: socket address of family %d", f)
	}
}

// Resolve resolves "host:port" to addresses, IPv4 first.
func Resolve(ctx context.Context, hostport string) ([]netip.AddrPort, error) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, fmt.Errorf("ucx: %q is not host:port: %w", hostport, err)
	}
	p, err := net.DefaultResolver.LookupPort(ctx, "tcp", port)
	if err != nil {
		return nil, err
	}
	if host == "" {
		return []netip.AddrPort{netip.AddrPortFrom(netip.IPv4Unspecified(), uint16(p))}, nil
	}
	if ip, err := netip.ParseAddr(host); err == nil { // the resolver returns two addresses for "::"
		return []netip.AddrPort{netip.AddrPortFrom(ip.Unmap(), uint16(p))}, nil
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	var v4, v6 []netip.AddrPort
	for _, ip := range ips {
		a := netip.AddrPortFrom(ip.Unmap(), uint16(p))
		if a.Addr().Is4() {
			v4 = append(v4, a)
		} else {
			v6 = append(v6, a)
		}
	}
	return append(v4, v6...), nil
}
