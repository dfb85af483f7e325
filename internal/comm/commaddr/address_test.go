package commaddr_test

import (
	"errors"
	"net"
	"strings"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
	_ "go.millstream.dev/internal/comm/tcp"
)

func TestParseAddress(t *testing.T) {
	for _, c := range []struct{ in, scheme, loc, normal string }{
		{"tcp://127.0.0.1", "tcp", "127.0.0.1", "tcp://127.0.0.1"},
		{"tls://[::1]:80", "tls", "[::1]:80", "tls://[::1]:80"},
		{"[::1]", "tcp", "[::1]", "tcp://[::1]"},
		{"localhost:8786", "tcp", "localhost:8786", "tcp://localhost:8786"},
		{"inproc://1.2.3.4/5/6", "inproc", "1.2.3.4/5/6", "inproc://1.2.3.4/5/6"},
		{"", "tcp", "", "tcp://"},
		{"a://b://c", "a://b", "c", "a://b://c"}, // as Dask's rpartition
	} {
		scheme, loc := commaddr.Parse(c.in)
		if scheme != c.scheme || loc != c.loc || commaddr.Normalize(c.in) != c.normal {
			t.Errorf("%q is %q and %q, normal %q", c.in, scheme, loc, commaddr.Normalize(c.in))
		}
	}
}

func TestHostPort(t *testing.T) {
	for _, c := range []struct {
		in   string
		host string
		port int
		back string
	}{
		{"localhost:8786", "localhost", 8786, "localhost:8786"},
		{"tcp://localhost:8786", "localhost", 8786, "localhost:8786"},
		{"[::1]:80", "::1", 80, "[::1]:80"},
		{"[fe80::1%eth0]:80", "fe80::1%eth0", 80, "[fe80::1%eth0]:80"},
		{"10.0.0.1", "10.0.0.1", 7, "10.0.0.1:7"},
		{"[::]", "::", 7, "[::]:7"},
		{"", "", 7, ":7"},
		{":0", "", 0, ":0"},
	} {
		host, port, err := commaddr.ParseHostPort(c.in, 7)
		if err != nil || host != c.host || port != c.port {
			t.Errorf("%q is %q, %d, %v", c.in, host, port, err)
		}
		if back := commaddr.UnparseHostPort(host, port); back != c.back {
			t.Errorf("%q back is %q", c.in, back)
		}
	}
	for _, in := range []string{"::1", "1:2:3:4", "[::1", "[::1]80", "[::1]:", "host:", "host:x", "host:65536",
		"host:-1", "host:1:2", "[::1]:1:2", "a:1:"} {
		_, _, err := commaddr.ParseHostPort(in, 7)
		var bad *comm.AddressError
		if !errors.As(err, &bad) || bad.Address != in {
			t.Errorf("%q: %v", in, err)
		}
	}
	if _, _, err := commaddr.ParseHostPort("host", commaddr.NoPort); err == nil ||
		!strings.Contains(err.Error(), "port") {
		t.Errorf("a missing port: %v", err)
	}
	if commaddr.UnparseHostPort("::1", commaddr.NoPort) != "[::1]" {
		t.Error("an address without a port")
	}
}

func TestPortRange(t *testing.T) {
	for _, c := range []struct {
		in, host string
		ports    commaddr.Ports
	}{
		{"0.0.0.0:8000:8100", "0.0.0.0", commaddr.Ports{First: 8000, Last: 8100}},
		{"[::1]:8000:8100", "::1", commaddr.Ports{First: 8000, Last: 8100}},
		{":8000", "", commaddr.Ports{First: 8000, Last: 8000}},
		{"host", "host", commaddr.Ports{First: 5, Last: 6}},
	} {
		host, ports, err := commaddr.ParsePortRange(c.in, commaddr.Ports{First: 5, Last: 6})
		if err != nil || host != c.host || ports != c.ports {
			t.Errorf("%q is %q, %v, %v", c.in, host, ports, err)
		}
	}
	for _, in := range []string{"h:8100:8000", "h:8000:8000", "h:1:x", "h:1:2:3", "h:1:70000"} {
		if _, _, err := commaddr.ParsePortRange(in, commaddr.Ports{}); err == nil {
			t.Errorf("%q is a range", in)
		}
	}
}

func TestListenAddress(t *testing.T) {
	lo := loopback(t)
	for _, c := range []struct {
		scheme, host, ports, iface string
		want                       string
	}{
		{"", "", "", "", "tcp://:8786"},
		{"", "10.0.0.1", "", "", "tcp://10.0.0.1:8786"},
		{"tls", "10.0.0.1:5", "", "", "tls://10.0.0.1:5"},
		{"tls://", "10.0.0.1", "7", "", "tls://10.0.0.1:7"},
		{"", "ucxx://10.0.0.1", "7", "", "ucxx://10.0.0.1:7"},
		{"", "::1", "0", "", "tcp://[::1]:0"},
		{"", "[::1]:3", "3", "", "tcp://[::1]:3"},
		{"", "h", "8000:8100", "", "tcp://h:8000:8100"},
		{"", "h:8000:8100", "", "", "tcp://h:8000:8100"},
		{"", "", "", lo, "tcp://127.0.0.1:8786"},
		{"inproc", "", "", "", "inproc://"},
		{"", "ucx-file:///run/scheduler", "", "", "ucx-file:///run/scheduler"},
		{"ucx-file", "/run/", "", "", "ucx-file:///run/"},
	} {
		got, err := commaddr.ForListener(c.scheme, c.host, c.ports, c.iface, 8786)
		if err != nil || got != c.want {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
	for _, c := range [][4]string{
		{"", "h:5", "6", ""}, {"", "h", "", lo}, {"inproc", "h", "", ""}, {"tls", "tcp://h", "", ""},
		{"", "", "", "no-such-interface"}, {"", "h", "x", ""}, {"", "h:y", "", ""},
		{"ucx-file", "here", "", ""}, {"ucx-file", "/run/x", "7", ""},
	} {
		if got, err := commaddr.ForListener(c[0], c[1], c[2], c[3], 8786); err == nil {
			t.Errorf("%q became %s", c, got)
		}
	}
}

// loopback is the name of the loopback interface.
func loopback(t *testing.T) string {
	t.Helper()
	ifs, err := net.Interfaces()
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range ifs {
		if i.Flags&net.FlagLoopback != 0 {
			return i.Name
		}
	}
	t.Fatal("there is no loopback interface")
	return ""
}

func TestLocal(t *testing.T) {
	if ip, err := commaddr.InterfaceIP(loopback(t)); err != nil || ip != "127.0.0.1" {
		t.Errorf("the loopback interface is %s, %v", ip, err)
	}
	if _, err := commaddr.InterfaceIP("no-such-interface"); err == nil || !strings.Contains(err.Error(), loopback(t)) {
		t.Errorf("the error must name the interfaces there are: %v", err)
	}
	for in, want := range map[string]string{"127.0.0.1": "127.0.0.1", "::1": "::1"} {
		if got := commaddr.LocalIP(in); got != want {
			t.Errorf("the way to %s is from %s", in, got)
		}
	}
	for in, want := range map[string]string{"10.1.2.3": "10.1.2.3", "host": "host", "::1": "::1"} {
		if got := commaddr.ConcreteHost(in); got != want {
			t.Errorf("%q is %q", in, got)
		}
	}
	for _, in := range []string{"", "0.0.0.0", "::"} {
		if ip := net.ParseIP(commaddr.ConcreteHost(in)); ip == nil || ip.IsUnspecified() {
			t.Errorf("%q is %v", in, ip)
		}
	}
}

func FuzzAddress(f *testing.F) {
	for _, s := range []string{"tcp://127.0.0.1:80", "[::1]:8000:8100", "a://b://c", ":", "[", "[]:", "1:2:3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got := commaddr.Normalize(commaddr.Normalize(s)); got != commaddr.Normalize(s) {
			t.Errorf("%q normalized twice is %q", s, got)
		}
		host, port, err := commaddr.ParseHostPort(s, 1)
		if err != nil || strings.ContainsAny(host, "[]/") {
			return
		}
		if h, p, err := commaddr.ParseHostPort(commaddr.UnparseHostPort(host, port), 1); err != nil || h != host ||
			p != port {
			t.Errorf("%q is %q, %d and then %q, %d, %v", s, host, port, h, p, err)
		}
		_, _, _ = commaddr.ParsePortRange(s, commaddr.Ports{})
	})
}
