//go:build cgo

package ucxcomm

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/ucx"
)

// listenAt listens and connects once, to what the listener announces.
func listenAt(t *testing.T, loc string, cfg comm.ListenConfig) (listen, contact, peer, local string) {
	t.Helper()
	ctx := testContext(t)
	b := newBackend("ucx", Settings{})
	l, err := b.Listen(ctx, loc, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, loc = commaddr.Parse(l.ContactAddr())
	c, err := b.Dial(ctx, loc, comm.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a, err := l.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if a.PeerAddr() != c.LocalAddr() {
		t.Errorf("the dialler is %s for itself and %s for the listener", c.LocalAddr(), a.PeerAddr())
	}
	return l.ListenAddr(), l.ContactAddr(), c.PeerAddr(), a.LocalAddr()
}

// Listeners are bound to the host given, and announce an address that others can use.
func TestListenAddresses(t *testing.T) {
	own := commaddr.ConcreteHost("0.0.0.0")
	for _, c := range []struct {
		loc             string
		iface           string
		listen, contact string // hosts
	}{
		{"127.0.0.1:0", "", "127.0.0.1", "127.0.0.1"},
		{"127.0.0.1", "", "127.0.0.1", "127.0.0.1"},
		{"0.0.0.0:0", "", "0.0.0.0", own},
		{":0", "", "0.0.0.0", own},
		{"", "lo", "127.0.0.1", "127.0.0.1"},
		{"0.0.0.0:0", "lo", "0.0.0.0", "127.0.0.1"},
	} {
		t.Run(c.loc+" "+c.iface, func(t *testing.T) {
			listen, contact, peer, local := listenAt(t, c.loc, comm.ListenConfig{Interface: c.iface})
			if !strings.HasPrefix(listen, "ucx://"+c.listen+":") ||
				!strings.HasPrefix(contact, "ucx://"+c.contact+":") {
				t.Errorf("bound to %s, announced as %s", listen, contact)
			}
			if peer != contact || local != contact {
				t.Errorf("announced as %s, dialed %s, accepted on %s", contact, peer, local)
			}
		})
	}
	// Another address of the same port is not served: the host given is no wildcard.
	ctx := testContext(t)
	l, err := newBackend("ucx", Settings{}).Listen(ctx, "127.0.0.1:0", comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(l.ListenAddr(), "ucx://"))
	if c, err := net.Dial("tcp", "127.0.0.2:"+port); err == nil {
		c.Close()
		t.Error("the listener for 127.0.0.1 serves 127.0.0.2")
	}
}

// IPv6 works where UCX can (from 1.18 on; tests/interop has such a release); where it
// cannot, that is said.
func TestIPv6(t *testing.T) {
	lib, err := ucx.Library()
	if err != nil {
		t.Fatal(err)
	}
	if lib.AtLeast(1, 18) {
		listen, contact, _, _ := listenAt(t, "[::1]:0", comm.ListenConfig{})
		if !strings.HasPrefix(listen, "ucx://[::1]:") || listen != contact {
			t.Errorf("bound to %s, announced as %s", listen, contact)
		}
		return
	}
	for _, loc := range []string{"[::1]:0", "[::]:0"} {
		if _, err := newBackend("ucx", Settings{}).Listen(testContext(t), loc, comm.ListenConfig{}); err == nil ||
			!strings.Contains(err.Error(), "IPv6") {
			t.Errorf("%s with UCX %s: %v", loc, lib.Version, err)
		}
	}
}

func TestListenRefuses(t *testing.T) {
	ctx := testContext(t)
	b := newBackend("ucx", Settings{})
	if _, err := b.Listen(ctx, "127.0.0.1:0", comm.ListenConfig{Interface: "nosuch0"}); err == nil ||
		!strings.Contains(err.Error(), "nosuch0") {
		t.Errorf("an interface that does not exist: %v", err)
	}
	if _, err := b.Listen(ctx, "::1", comm.ListenConfig{}); err == nil {
		t.Error("an IPv6 address without brackets was taken")
	}
	if _, err := b.Listen(ctx, "192.0.2.1:0", comm.ListenConfig{}); err == nil ||
		!strings.Contains(err.Error(), "192.0.2.1") {
		t.Errorf("an address of another host: %v", err)
	}
	if _, err := b.Dial(ctx, "127.0.0.1", comm.DialConfig{}); err == nil || !strings.Contains(err.Error(), "port") {
		t.Errorf("no port: %v", err)
	}
	if _, err := newBackend("ucx", Settings{Options: map[string]string{"NO_SUCH_OPTION": "1"}}).Dial(ctx, "127.0.0.1:1",
		comm.DialConfig{}); err == nil {
		t.Error("an option that UCX does not have was taken")
	}
}

// A range of ports is searched for a free one.
func TestPortRange(t *testing.T) {
	ctx := testContext(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	first := taken.Addr().(*net.TCPAddr).Port
	l, err := newBackend("ucx", Settings{}).Listen(ctx, fmt.Sprintf("127.0.0.1:%d:%d", first, min(first+50, 65535)),
		comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, err := comm.AddressHostPort(l.ContactAddr())
	if err != nil || port <= first || port > first+50 {
		t.Errorf("the port is %d, %v", port, err)
	}
	if _, err := newBackend("ucx", Settings{}).Listen(ctx, fmt.Sprintf("127.0.0.1:%d", first),
		comm.ListenConfig{}); err == nil {
		t.Error("a port that is taken was served")
	}
}

// The registered schemes answer package comm's questions about addresses.
func TestBackendAddresses(t *testing.T) {
	ctx := context.Background()
	for _, scheme := range []string{"ucx", "ucxx"} {
		if h, err := comm.AddressHost(scheme + "://10.0.0.1:5"); err != nil || h != "10.0.0.1" {
			t.Errorf("%s: host %q, %v", scheme, h, err)
		}
		if a, err := comm.ResolveAddress(ctx, scheme+"://localhost:5"); err != nil || a != scheme+"://127.0.0.1:5" {
			t.Errorf("%s: resolved %q, %v", scheme, a, err)
		}
		if a, err := comm.LocalAddressFor(ctx, scheme+"://127.0.0.1:5"); err != nil || a != scheme+"://127.0.0.1" {
			t.Errorf("%s: local address %q, %v", scheme, a, err)
		}
		b := newBackend(scheme, Settings{})
		if b.Encrypted() {
			t.Error("UCX does not encrypt")
		}
		for _, bad := range []string{"a:b:c:d", "[::1"} {
			if _, err := b.Host(bad); err == nil {
				t.Errorf("Host(%q)", bad)
			}
			if _, err := b.Resolve(ctx, bad); err == nil {
				t.Errorf("Resolve(%q)", bad)
			}
			if _, err := b.LocalFor(ctx, bad); err == nil {
				t.Errorf("LocalFor(%q)", bad)
			}
		}
	}
}
