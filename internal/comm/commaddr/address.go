// Package commaddr parses the addresses of comms, such as tcp://10.0.0.1:8786, and finds those of this host.
package commaddr

import (
	"fmt"
	"strings"
)

// DefaultScheme is the scheme of addresses that have none (distributed.comm.default-scheme).
const DefaultScheme = "tcp"

// Parse splits an address into its scheme and the rest, whose form depends on the scheme: tcp://10.0.0.1:8786 is "tcp"
// and "10.0.0.1:8786". The default is DefaultScheme.
func Parse(address string) (scheme, loc string) {
	i := strings.LastIndex(address, "://")
	if i < 0 {
		return DefaultScheme, address
	}
	return address[:i], address[i+len("://"):]
}

// Unparse reverses Parse.
func Unparse(scheme, loc string) string { return scheme + "://" + loc }

// Normalize adds the default scheme if there is none.
func Normalize(address string) string { return Unparse(Parse(address)) }

// Error is returned for an address that cannot be used.
type Error struct {
	Address, Reason string
}

// Error returns the address and the reason.
func (e *Error) Error() string {
	return fmt.Sprintf("comm: address %q: %s", e.Address, e.Reason)
}

// ForListener returns an address to listen on from the values of flags, each of which may be empty. A port in host and
// another in ports is an error, and so are host and iface together.
func ForListener(scheme, host, ports, iface string, defaultPort int) (string, error) {
	scheme = strings.TrimSuffix(scheme, "://")
	if scheme == "inproc" {
		if host != "" || ports != "" || iface != "" {
			return "", &Error{"inproc://", "host, port and interface do not apply within one process"}
		}
		return "inproc://", nil
	}
	if iface != "" {
		if host != "" {
			return "", &Error{host, fmt.Sprintf("use a host or an interface (%s), not both", iface)}
		}
		ip, err := InterfaceIP(iface)
		if err != nil {
			return "", err
		}
		host = ip
	}
	if own, loc := Parse(host); strings.Contains(host, "://") {
		if scheme != "" && scheme != own {
			return "", &Error{host, fmt.Sprintf("scheme is not %s", scheme)}
		}
		scheme, host = own, loc
	}
	if scheme == "ucx-file" {
		if ports != "" || !strings.HasPrefix(host, "/") {
			return "", &Error{scheme + "://" + host, "want an absolute path of a file, without a port"}
		}
		return Unparse(scheme, host), nil
	}
	if scheme == "" {
		scheme = DefaultScheme
	}
	// An IPv6 address from a flag or an interface may have no brackets.
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
			return "", &Error{host, err.Error()}
		}
	}
	h, got, err := ParsePortRange(host, want)
	if err != nil {
		return "", err
	}
	if ports != "" && got != want {
		return "", &Error{host, fmt.Sprintf("the port is given twice: %s and %s", got, want)}
	}
	return Unparse(scheme, UnparseHostPort(h, -1)+":"+got.String()), nil
}
