package netif

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
)

func testInterface(name string, addrs ...string) netInterface {
	i := netInterface{name: name, up: true, running: true, loopback: name == "lo"}
	for _, a := range addrs {
		i.addrs = append(i.addrs, netip.MustParseAddr(a))
	}
	return i
}

func down(i netInterface) netInterface {
	i.up, i.running = false, false
	return i
}

func noCarrier(i netInterface) netInterface {
	i.running = false
	return i
}

func TestAddress(t *testing.T) {
	lo := testInterface("lo", "127.0.0.1", "::1")
	docker := testInterface("docker0", "172.17.0.1")
	veth := testInterface("veth12ab", "169.254.3.4")
	eth0 := testInterface("eth0", "fe80::1", "10.0.0.5", "2001:db8::5")
	eth1 := testInterface("eth1", "10.0.1.5")
	en := testInterface("enp3s0", "10.0.2.5")
	ib0 := testInterface("ib0", "10.9.0.5")
	wl := testInterface("wlan0", "192.168.1.5")
	v6 := testInterface("eth0", "fe80::1", "2001:db8::5")
	bare := testInterface("eth0", "fe80::1")

	for _, c := range []struct {
		name   string
		ifname string
		env    map[string]string
		ifs    []netInterface
		want   string
		errHas []string
	}{
		{name: "named", ifname: "eth1", ifs: []netInterface{lo, eth0, eth1}, want: "10.0.1.5"},
		{name: "named beats both variables", ifname: "eth1", ifs: []netInterface{lo, eth0, eth1},
			env: map[string]string{envIfname: "eth0", envIfnameUCXPy: "lo"}, want: "10.0.1.5"},
		{name: "our variable first", ifs: []netInterface{lo, eth0, eth1},
			env: map[string]string{envIfname: "eth1", envIfnameUCXPy: "lo"}, want: "10.0.1.5"},
		{name: "then UCX-Py's", ifs: []netInterface{lo, eth0, eth1},
			env: map[string]string{envIfname: "", envIfnameUCXPy: "lo"}, want: "127.0.0.1"},
		{name: "named container interface", ifname: "docker0", ifs: []netInterface{lo, docker}, want: "172.17.0.1"},
		{name: "named without carrier", ifname: "eth1", ifs: []netInterface{noCarrier(eth1)}, want: "10.0.1.5"},
		{name: "IPv4 before IPv6", ifname: "eth0", ifs: []netInterface{eth0}, want: "10.0.0.5"},
		{name: "IPv6 when only that", ifname: "eth0", ifs: []netInterface{v6}, want: "2001:db8::5"},
		{name: "link-local with zone", ifname: "eth0", ifs: []netInterface{bare}, want: "fe80::1%eth0"},

		{name: "ib first", ifs: []netInterface{lo, wl, en, eth0, ib0}, want: "10.9.0.5"},
		{name: "eth before en", ifs: []netInterface{lo, wl, en, eth0}, want: "10.0.0.5"},
		{name: "en before others", ifs: []netInterface{lo, wl, en}, want: "10.0.2.5"},
		{name: "others before lo", ifs: []netInterface{lo, docker, wl}, want: "192.168.1.5"},
		{name: "by name", ifs: []netInterface{eth1, eth0}, want: "10.0.0.5"},
		{name: "down is skipped", ifs: []netInterface{down(ib0), lo, eth1}, want: "10.0.1.5"},
		{name: "no carrier is skipped", ifs: []netInterface{noCarrier(ib0), lo, eth1}, want: "10.0.1.5"},
		{name: "no address is skipped", ifs: []netInterface{testInterface("ib0"), lo, eth1}, want: "10.0.1.5"},
		{name: "link-local does not beat configured", ifs: []netInterface{lo, bare, wl}, want: "192.168.1.5"},
		{name: "link-local beats loopback", ifs: []netInterface{lo, bare}, want: "fe80::1%eth0"},
		{name: "global IPv6 wins its class", ifs: []netInterface{v6, en}, want: "2001:db8::5"},
		{name: "loopback last", ifs: []netInterface{docker, veth, down(eth0), lo}, want: "127.0.0.1"},
		{name: "IPv6 loopback", ifs: []netInterface{testInterface("lo", "::1")}, want: "::1"},

		{name: "no such interface", ifname: "ib7", ifs: []netInterface{lo, down(eth0), testInterface("eth1")},
			errHas: []string{`"ib7"`, "argument", "lo (127.0.0.1)", "eth0 (down)", "eth1 (no address)"}},
		{name: "error names the variable", env: map[string]string{envIfnameUCXPy: "ib7"}, ifs: []netInterface{lo},
			errHas: []string{`"ib7"`, envIfnameUCXPy}},
		{name: "named is down", ifname: "eth0", ifs: []netInterface{lo, down(eth0)},
			errHas: []string{"is down", "lo (127.0.0.1)"}},
		{name: "named has no address", ifname: "eth1", ifs: []netInterface{testInterface("eth1")},
			errHas: []string{"no IP address"}},
		{name: "nothing at all", errHas: []string{"this host has none"}},
		{name: "nothing usable", ifs: []netInterface{down(lo), docker},
			errHas: []string{"lo (down)", "docker0 (172.17.0.1)"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := chooseAddress(c.ifname, func(k string) string { return c.env[k] },
				func() ([]netInterface, error) { return c.ifs, nil })
			if len(c.errHas) == 0 {
				if err != nil || got.String() != c.want {
					t.Fatalf("got %v, %v, want %s", got, err, c.want)
				}
				return
			}
			if err == nil {
				t.Fatalf("got %v, want an error", got)
			}
			for _, s := range c.errHas {
				if !strings.Contains(err.Error(), s) {
					t.Errorf("error %q does not contain %q", err, s)
				}
			}
		})
	}
}

func TestAddressListError(t *testing.T) {
	broken := errors.New("netlink is gone")
	_, err := chooseAddress("", func(string) string { return "" },
		func() ([]netInterface, error) { return nil, broken })
	if !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
}

// The variables are read at each call, and the real interface list has a loopback.
func TestAddressOfThisHost(t *testing.T) {
	t.Setenv(envIfname, "")
	t.Setenv(envIfnameUCXPy, "")
	auto, err := Address("")
	if err != nil {
		t.Fatal(err)
	}
	if !auto.IsValid() || auto.IsUnspecified() {
		t.Errorf("Address of this host is %v", auto)
	}
	t.Setenv(envIfname, "lo")
	if got, err := Address(""); err != nil || !got.IsLoopback() {
		t.Errorf("with %s=lo: %v, %v", envIfname, got, err)
	}
	t.Setenv(envIfname, "nosuchif0")
	if got, err := Address(""); err == nil || !strings.Contains(err.Error(), "nosuchif0") {
		t.Errorf("with a wrong %s: %v, %v", envIfname, got, err)
	}
}
