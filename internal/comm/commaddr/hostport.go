package commaddr

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// NoPort means that an address must have a port.
const NoPort = -1

// ParseHostPort splits host:port, [ipv6]:port, host or [ipv6]. A scheme is ignored. The default port is defaultPort;
// NoPort makes a missing port an error.
func ParseHostPort(address string, defaultPort int) (host string, port int, err error) {
	host, ports, err := splitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	if ports == "" {
		if defaultPort == NoPort {
			return "", 0, &Error{address, "the port number is missing: write it like host:8786"}
		}
		return host, defaultPort, nil
	}
	if strings.Contains(ports, ":") {
		return "", 0, &Error{address, "a range of ports is for listeners; an IPv6 address needs " +
			"brackets like [::1]"}
	}
	port, err = parsePort(ports)
	if err != nil {
		return "", 0, &Error{address, err.Error()}
	}
	return host, port, nil
}

// UnparseHostPort reverses ParseHostPort; NoPort leaves the port out.
func UnparseHostPort(host string, port int) string {
	if strings.Contains(host, ":") && !strings.HasPrefix(host, "[") {
		host = "[" + host + "]"
	}
	if port == NoPort {
		return host
	}
	return host + ":" + strconv.Itoa(port)
}

// Ports is a range of ports, both ends included.
type Ports struct {
	First, Last int
}

// String returns the range in the form of ParsePortRange: 8000 or 8000:8100.
func (p Ports) String() string {
	if p.First == p.Last {
		return strconv.Itoa(p.First)
	}
	return strconv.Itoa(p.First) + ":" + strconv.Itoa(p.Last)
}

// ParsePortRange is ParseHostPort for listeners, which may have a range to choose from: host:8000:8100,
// [ipv6]:8000:8100.
func ParsePortRange(address string, defaultPorts Ports) (host string, ports Ports, err error) {
	host, text, err := splitHostPort(address)
	if err != nil {
		return "", Ports{}, err
	}
	if text == "" {
		return host, defaultPorts, nil
	}
	ports, err = parsePorts(text)
	if err != nil {
		return "", Ports{}, &Error{address, err.Error()}
	}
	return host, ports, nil
}

// splitHostPort returns the ports as written: "", "8786" or "8000:8100".
func splitHostPort(address string) (host, ports string, err error) {
	loc := address
	if strings.Contains(loc, "://") {
		_, loc = Parse(loc)
	}
	brackets := &Error{address, "not host:port; an IPv6 address needs brackets like [::1]"}
	if rest, ok := strings.CutPrefix(loc, "["); ok {
		host, tail, ok := strings.Cut(rest, "]")
		if !ok {
			return "", "", brackets
		}
		if tail == "" {
			return host, "", nil
		}
		ports, ok := strings.CutPrefix(tail, ":")
		if !ok || ports == "" || strings.Count(ports, ":") > 1 {
			return "", "", brackets
		}
		return host, ports, nil
	}
	switch parts := strings.Split(loc, ":"); len(parts) {
	case 1:
		return loc, "", nil
	case 2:
		if parts[1] == "" {
			return "", "", &Error{address, "the port number is missing after the colon"}
		}
		return parts[0], parts[1], nil
	case 3:
		if parts[1] == "" || parts[2] == "" {
			return "", "", brackets
		}
		return parts[0], parts[1] + ":" + parts[2], nil
	}
	return "", "", brackets
}

func parsePort(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if errors.Is(err, strconv.ErrRange) {
		return 0, fmt.Errorf("port %s is above 65535", text)
	}
	if err != nil {
		return 0, fmt.Errorf("port %q is not a number", text)
	}
	return int(n), nil
}

func parsePorts(text string) (Ports, error) {
	first, last, isRange := strings.Cut(text, ":")
	a, err := parsePort(first)
	if err != nil {
		return Ports{}, err
	}
	if !isRange {
		return Ports{a, a}, nil
	}
	b, err := parsePort(last)
	if err != nil {
		return Ports{}, err
	}
	if b <= a {
		return Ports{}, fmt.Errorf("port range %s must end above its start", text)
	}
	return Ports{a, b}, nil
}
