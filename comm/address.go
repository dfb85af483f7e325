package comm

import (
	"context"
	"fmt"
	"strings"
)

// DefaultScheme is the scheme of addresses that have none (distributed.comm.default-scheme).
const DefaultScheme = "tcp"

// ParseAddress splits an address into its scheme and the rest, whose form depends on the
// scheme: tcp://10.0.0.1:8786 is "tcp" and "10.0.0.1:8786". Without a scheme it is
// DefaultScheme.
func ParseAddress(address string) (scheme, loc string) {
	i := strings.LastIndex(address, "://")
	if i < 0 {
		return DefaultScheme, address
	}
	return address[:i], address[i+len("://"):]
}

// ParseAddressStrict is ParseAddress for addresses that must have a scheme.
func ParseAddressStrict(address string) (scheme, loc string, err error) {
	if !strings.Contains(address, "://") {
		return "", "", &AddressError{address, "it has no scheme: write it like tcp://localhost:8786"}
	}
	scheme, loc = ParseAddress(address)
	return scheme, loc, nil
}

// UnparseAddress undoes ParseAddress.
func UnparseAddress(scheme, loc string) string { return scheme + "://" + loc }

// NormalizeAddress adds the default scheme where there is none.
func NormalizeAddress(address string) string { return UnparseAddress(ParseAddress(address)) }

// AddressError is an address that cannot be used, and why.
type AddressError struct {
	Address, Reason string
}

// Error names the address and the reason.
func (e *AddressError) Error() string {
	return fmt.Sprintf("comm: address %q: %s", e.Address, e.Reason)
}

// AddressHost returns the host, normally an IP address, on which an address is located.
func AddressHost(address string) (string, error) {
	_, loc := ParseAddress(address)
	b, err := backendOf(address)
	if err != nil {
		return "", err
	}
	return b.Host(loc)
}

// AddressHostPort returns host and port of an address of an IP-based scheme.
func AddressHostPort(address string) (host string, port int, err error) {
	_, loc := ParseAddress(address)
	b, err := backendOf(address)
	if err != nil {
		return "", 0, err
	}
	hp, ok := b.(interface {
		HostPort(loc string) (string, int, error)
	})
	if !ok {
		return "", 0, &AddressError{address, "its scheme has no host and port"}
	}
	return hp.HostPort(loc)
}

// ResolveAddress replaces the names in an address by what they stand for, such as a host
// name by its IP address.
func ResolveAddress(ctx context.Context, address string) (string, error) {
	scheme, loc := ParseAddress(address)
	b, err := backendOf(address)
	if err != nil {
		return "", err
	}
	loc, err = b.Resolve(ctx, loc)
	if err != nil {
		return "", err
	}
	return UnparseAddress(scheme, loc), nil
}

// LocalAddressFor returns an address to listen on, without a port, at which a process
// that is reached by address can reach this one.
func LocalAddressFor(ctx context.Context, address string) (string, error) {
	scheme, loc := ParseAddress(address)
	b, err := backendOf(address)
	if err != nil {
		return "", err
	}
	loc, err = b.LocalFor(ctx, loc)
	if err != nil {
		return "", err
	}
	return UnparseAddress(scheme, loc), nil
}

// ListenAddress makes an address to listen on of what users say in flags: each may be
// empty. A port in host and another in ports is an error, and so are host and iface.
func ListenAddress(scheme, host, ports, iface string, defaultPort int) (string, error) {
	scheme = strings.TrimSuffix(scheme, "://")
	if scheme == "inproc" {
		if host != "" || ports != "" || iface != "" {
			return "", &AddressError{"inproc://", "a host, a port or an interface has no meaning in one process"}
		}
		return "inproc://", nil
	}
	if iface != "" {
		if host != "" {
			return "", &AddressError{host, fmt.Sprintf("give a host or an interface (%s), not both", iface)}
		}
		ip, err := InterfaceIP(iface)
		if err != nil {
			return "", err
		}
		host = ip
	}
	if own, loc := ParseAddress(host); strings.Contains(host, "://") {
		if scheme != "" && scheme != own {
			return "", &AddressError{host, fmt.Sprintf("its scheme is not %s", scheme)}
		}
		scheme, host = own, loc
	}
	if scheme == "ucx-file" {
		if ports != "" || !strings.HasPrefix(host, "/") {
			return "", &AddressError{scheme + "://" + host, "it is the path of a file from the root, without a port"}
		}
		return UnparseAddress(scheme, host), nil
	}
	if scheme == "" {
		scheme = DefaultScheme
	}
	// An IPv6 address from a flag or an interface needs no brackets there.
	if strings.Count(host, ":") > 1 && !strings.HasPrefix(host, "[") {
		if h, p, err := ParsePortRange(host, Ports{}); err != nil || p == (Ports{}) {
			host = UnparseHostPort(host, -1)
		} else {
			host = UnparseHostPort(h, -1) + ":" + p.String()
		}
	}
	want := Ports{defaultPort, defaultPort}
	if ports != "" {
		var err error
		if want, err = parsePorts(ports); err != nil {
			return "", &AddressError{host, err.Error()}
		}
	}
	h, got, err := ParsePortRange(host, want)
	if err != nil {
		return "", err
	}
	if ports != "" && got != want {
		return "", &AddressError{host, fmt.Sprintf("the port is given twice: %s and %s", got, want)}
	}
	return UnparseAddress(scheme, UnparseHostPort(h, -1)+":"+got.String()), nil
}
