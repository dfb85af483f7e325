// Package netif has functions for network interfaces: the address to listen on, the family that UCX uses on an
// interface, and socket addresses in C layout.
package netif

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// Environment variables that name the interface of Address when its argument is empty, in order of precedence.
const (
	envIfname      = "MILLSTREAM_IFNAME"
	envIfnameUCXPy = "UCXPY_IFNAME"
)

// Address returns the IP address of a network interface; see ucx.Address.
func Address(ifname string) (netip.Addr, error) {
	return chooseAddress(ifname, os.Getenv, systemInterfaces)
}

// netInterface is the description of an interface for chooseAddress.
type netInterface struct {
	name     string
	up       bool // administratively up
	running  bool // up and with carrier
	loopback bool
	addrs    []netip.Addr
}

func systemInterfaces() ([]netInterface, error) {
	all, err := net.Interfaces()
	if err != nil {
		return nil, err
	}
	out := make([]netInterface, 0, len(all))
	for _, i := range all {
		ni := netInterface{
			name:     i.Name,
			up:       i.Flags&net.FlagUp != 0,
			running:  i.Flags&net.FlagRunning != 0,
			loopback: i.Flags&net.FlagLoopback != 0,
		}
		addrs, err := i.Addrs()
		if err != nil {
			// The interface disappeared between the two calls.
			continue
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok {
				if ip, ok := netip.AddrFromSlice(n.IP); ok {
					ni.addrs = append(ni.addrs, ip.Unmap())
				}
			}
		}
		out = append(out, ni)
	}
	return out, nil
}

func chooseAddress(ifname string, getenv func(string) string, list func() ([]netInterface, error)) (netip.Addr, error) {
	source := "argument"
	for _, env := range []string{envIfname, envIfnameUCXPy} {
		if ifname == "" {
			ifname, source = getenv(env), env
		}
	}
	ifs, err := list()
	if err != nil {
		return netip.Addr{}, fmt.Errorf("ucx: address: list the network interfaces: %w", err)
	}
	if ifname != "" {
		return namedAddress(ifname, source, ifs)
	}
	return firstAddress(ifs)
}

func namedAddress(ifname, source string, ifs []netInterface) (netip.Addr, error) {
	at := slices.IndexFunc(ifs, func(i netInterface) bool { return i.name == ifname })
	if at < 0 {
		return netip.Addr{}, fmt.Errorf("ucx: address: no interface %q (from %s); this host has %s", ifname, source,
			describe(ifs))
	}
	i := ifs[at]
	if !i.up {
		return netip.Addr{}, fmt.Errorf("ucx: address: interface %q (from %s) is down; bring it up or choose another "+
			"of %s", ifname, source, describe(ifs))
	}
	ip, _ := i.best()
	if !ip.IsValid() {
		return netip.Addr{}, fmt.Errorf("ucx: address: interface %q (from %s) has no IP address; assign one or choose "+
			"another of %s", ifname, source, describe(ifs))
	}
	return ip, nil
}

func firstAddress(ifs []netInterface) (netip.Addr, error) {
	sorted := slices.Clone(ifs)
	// By name within a class, as UCX-Py sorts them.
	slices.SortStableFunc(sorted, func(a, b netInterface) int {
		return cmp.Or(cmp.Compare(a.class(), b.class()), cmp.Compare(a.name, b.name))
	})
	var linkLocal netip.Addr
	for _, i := range sorted {
		if !i.up || !i.running || i.class() == classContainer {
			continue
		}
		ip, routable := i.best()
		if routable {
			if i.loopback && linkLocal.IsValid() {
				break
			}
			return ip, nil
		}
		if !linkLocal.IsValid() {
			// An unconfigured interface still has a link-local address; it must not be preferred to a configured one,
			// only to the loopback.
			linkLocal = ip
		}
	}
	if linkLocal.IsValid() {
		return linkLocal, nil
	}
	return netip.Addr{}, errors.New("ucx: address: no interface is up and has an IP address; this host has " +
		describe(ifs))
}

// Classes of interfaces in the order of preference of firstAddress.
const (
	classInfiniBand = iota
	classEth
	classEn
	classOther
	classLoopback
	classContainer // never chosen: other hosts cannot reach its addresses
)

func (i netInterface) class() int {
	if i.loopback {
		return classLoopback
	}
	for _, p := range []struct {
		prefix string
		class  int
	}{
		{"ib", classInfiniBand}, {"eth", classEth}, {"en", classEn},
		{"docker", classContainer}, {"veth", classContainer}, {"br-", classContainer},
		{"virbr", classContainer}, {"cni", classContainer}, {"podman", classContainer},
		{"lxcbr", classContainer}, {"lxdbr", classContainer},
	} {
		if strings.HasPrefix(i.name, p.prefix) {
			return p.class
		}
	}
	return classOther
}

// best returns the preferred address of the interface, or the zero Addr, and whether it is more than a link-local one.
func (i netInterface) best() (ip netip.Addr, routable bool) {
	rank := func(a netip.Addr) int {
		switch {
		case a.Is4() && !a.IsLinkLocalUnicast():
			return 0
		case a.Is6() && !a.IsLinkLocalUnicast():
			return 1
		case a.Is4():
			return 2
		default:
			return 3
		}
	}
	for _, a := range i.addrs {
		if a.IsValid() && !a.IsMulticast() && (!ip.IsValid() || rank(a) < rank(ip)) {
			ip = a
		}
	}
	if !ip.IsValid() {
		return ip, false
	}
	routable = rank(ip) < 2
	if ip.Is6() && ip.IsLinkLocalUnicast() {
		ip = ip.WithZone(i.name)
	}
	return ip, routable
}

// describe lists the interfaces for an error message.
func describe(ifs []netInterface) string {
	if len(ifs) == 0 {
		return "none"
	}
	parts := make([]string, len(ifs))
	for n, i := range ifs {
		ip, _ := i.best()
		switch {
		case !i.up:
			parts[n] = i.name + " (down)"
		case !ip.IsValid():
			parts[n] = i.name + " (no address)"
		default:
			parts[n] = i.name + " (" + ip.String() + ")"
		}
	}
	return strings.Join(parts, ", ")
}
