package ucx

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/ucx/internal/netif"
)

// acceptor is what the two kinds of listeners have in common.
type acceptor interface {
	Accept(context.Context) (*Endpoint, error)
	Addr() net.Addr
	Close() error
}

// meeting is one of the ways in which two workers find each other at an address.
type meeting struct {
	name   string
	listen func(context.Context, *Worker, string) (acceptor, error)
	dial   func(context.Context, *Worker, string) (*Endpoint, error)
}

var meetings = []meeting{
	{"lifeline",
		func(ctx context.Context, w *Worker, addr string) (acceptor, error) { return w.Listen(ctx, addr) },
		func(ctx context.Context, w *Worker, addr string) (*Endpoint, error) { return w.Dial(ctx, addr) }},
	{"socket",
		func(ctx context.Context, w *Worker, addr string) (acceptor, error) { return w.ListenSocket(ctx, addr) },
		func(ctx context.Context, w *Worker, addr string) (*Endpoint, error) {
			return w.DialSocket(ctx, addr, nil)
		}},
}

// meet listens at an address and dials it; "" dials what the listener says.
func (m meeting) meet(t *testing.T, wa, wb *Worker, at, dial string) (a, b *Endpoint) {
	t.Helper()
	ctx := testContext(t)
	l, err := m.listen(ctx, wb, at)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if dial == "" {
		dial = l.Addr().String()
	} else {
		_, port, _ := net.SplitHostPort(l.Addr().String())
		dial = net.JoinHostPort(dial, port)
	}
	if err := both(func() (err error) { a, err = m.dial(ctx, wa, dial); return err },
		func() (err error) { b, err = l.Accept(ctx); return err }); err != nil {
		t.Fatal(err)
	}
	return a, b
}

// exchangeOne moves one message each way.
func exchangeOne(ctx context.Context, a, b *Endpoint) error {
	x, y := make([]byte, 4), make([]byte, 4)
	err := both(func() error {
		_, err := a.Recv(ctx, Bytes(x), 2, FullMask)
		return errors.Join(a.Send(ctx, Bytes([]byte("ping")), 1), err)
	}, func() error {
		err := b.Send(ctx, Bytes([]byte("pong")), 2)
		_, rerr := b.Recv(ctx, Bytes(y), 1, FullMask)
		return errors.Join(err, rerr)
	})
	if err == nil && (string(x) != "pong" || string(y) != "ping") {
		err = errors.New("the messages differ: " + string(x) + string(y))
	}
	return err
}

// A listener says at which IP address and port it can be met; port 0 takes a free one.
func TestListenerAddress(t *testing.T) {
	lib, err := Library()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range meetings {
		for _, c := range []struct {
			at, dial, ip string
		}{
			{"127.0.0.1:0", "", "127.0.0.1"},
			{"localhost:0", "localhost", "127.0.0.1"},
			{"[::1]:0", "", "::1"},
		} {
			if c.ip == "::1" && m.name == "socket" && !lib.AtLeast(1, 14) {
				continue // see TestSocketFamilyRefused
			}
			t.Run(m.name+" "+c.at, func(t *testing.T) {
				if c.ip == "::1" {
					t.Setenv("UCX_TCP_AF_PRIO", "inet6,inet")
				}
				ctx := testContext(t)
				wa, wb := newWorker(t, Config{}, WorkerConfig{}), newWorker(t, Config{}, WorkerConfig{})
				a, b := m.meet(t, wa, wb, c.at, c.dial)
				if err := exchangeOne(ctx, a, b); err != nil {
					t.Fatal(err)
				}
				// Each side knows both addresses, and they agree.
				for _, p := range [][2]net.Addr{{a.RemoteAddr(), b.LocalAddr()}, {a.LocalAddr(), b.RemoteAddr()}} {
					if p[0] == nil || p[1] == nil || p[0].String() != p[1].String() {
						t.Errorf("the two sides say %v and %v", p[0], p[1])
						continue
					}
					if ap, err := netip.ParseAddrPort(p[0].String()); err != nil ||
						ap.Addr().Unmap().String() != c.ip || ap.Port() == 0 {
						t.Errorf("address %v, want %s and a port", p[0], c.ip)
					}
				}
			})
		}
	}
}

// UCX overwrites its own heap when a socket address is of another family than its tcp
// devices; such addresses never reach it.
func TestSocketFamilyRefused(t *testing.T) {
	ctx := testContext(t)
	w := newWorker(t, Config{}, WorkerConfig{})
	for _, bad := range []string{"[::1]:0", "[::]:0"} {
		l, err := w.ListenSocket(ctx, bad)
		if err == nil {
			l.Close()
		}
		if !errors.Is(err, errUnsupported) || !strings.Contains(err.Error(), "TCP_AF_PRIO=inet6,inet") {
			t.Errorf("listen at %s: %v", bad, err)
		}
	}
	if _, err := w.DialSocket(ctx, "[::1]:1", nil); !errors.Is(err, errUnsupported) ||
		!strings.Contains(err.Error(), "TCP_AF_PRIO") {
		t.Errorf("connect: %v", err)
	}
	if _, err := w.DialSocket(ctx, "127.0.0.1:1", &EndpointConfig{Local: "::1"}); err == nil {
		t.Error("connected from ::1 to 127.0.0.1")
	}
	lo := netif.Interface{Name: "lo", Has4: true, Has6: true}
	eth := netif.Interface{Name: "eth0", Has4: true, Has6: false}
	old := netif.Interface{Name: "eth1", Has4: false, Has6: true}
	both, four, six, wide6 := []string{"inet",
		"inet6"}, netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1"), []string{"inet6", "inet"}
	transports := []string{"tcp/lo", "tcp/eth0", "tcp/eth1", "self/memory"}
	for _, c := range []struct {
		a     netip.Addr
		ifc   netif.Interface
		order []string
		fix   string // what the error advises; "" for none
	}{
		{four, lo, both, ""}, {six, lo, both, "=inet6,inet"}, {four, lo, wide6, "=inet,inet6"}, {six, lo, wide6, ""},
		{four, eth, wide6, ""}, {six, old, both, ""}, {six, old, []string{"inet"}, "UCX 1.14"}, {four, eth,
			[]string{"inet"}, ""},
		{netip.MustParseAddr("::ffff:192.0.2.1"), lo, both, ""},
		{netip.IPv4Unspecified(), netif.Interface{}, both, ""}, {netip.IPv6Unspecified(), netif.Interface{}, both,
			"=inet6,inet"},
		{netip.IPv6Unspecified(), netif.Interface{}, wide6, ""},
		{six, netif.Interface{Name: "ib0", Has4: true, Has6: true}, both, ""}, // no device of tcp
	} {
		err := netif.FamilyError(c.a, c.ifc, c.order, transports, "1.13.1")
		if (err == nil) != (c.fix == "") || err != nil && !strings.Contains(err.Error(), c.fix) {
			t.Errorf("%s on %+v, order %v: %v, want advice %q", c.a, c.ifc, c.order, err, c.fix)
		}
	}
}

func TestListenerPort(t *testing.T) {
	ctx := testContext(t)
	w := newWorker(t, Config{}, WorkerConfig{})
	for _, m := range meetings {
		l, err := m.listen(ctx, w, "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		at := l.Addr().String()
		other, err := m.listen(ctx, w, at)
		if err == nil {
			t.Errorf("%s: two listeners at %s", m.name, other.Addr())
			other.Close()
		} else if !strings.Contains(err.Error(), at) {
			t.Errorf("%s: the error does not name the address: %v", m.name, err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		again, err := m.listen(ctx, w, at) // the port is free again, and can be asked for
		if err != nil {
			t.Errorf("%s: listen again: %v", m.name, err)
			continue
		}
		if again.Addr().String() != at {
			t.Errorf("%s: listens at %s, want %s", m.name, again.Addr(), at)
		}
		again.Close()
		for _, bad := range []string{"127.0.0.1", "127.0.0.1:no-such-port", "203.0.113.7:0", "no.such.host.invalid:1"} {
			if l, err := m.listen(ctx, w, bad); err == nil {
				t.Errorf("%s: listens at %q: %v", m.name, bad, l.Addr())
				l.Close()
			}
		}
	}
}

func TestListenUnix(t *testing.T) {
	ctx := testContext(t)
	path := filepath.Join(t.TempDir(), "door")
	for _, at := range []string{"unix://" + path, "unix:@millstream-parity-" + filepath.Base(filepath.Dir(path))} {
		wa, wb := newWorker(t, Config{}, WorkerConfig{}), newWorker(t, Config{}, WorkerConfig{})
		l, err := wb.Listen(ctx, at)
		if err != nil {
			t.Fatal(err)
		}
		var a, b *Endpoint
		if err := both(func() (err error) { a, err = wa.Dial(ctx, at); return err },
			func() (err error) { b, err = l.Accept(ctx); return err }); err != nil {
			t.Fatal(err)
		}
		if err := exchangeOne(ctx, a, b); err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if err := exchangeOne(ctx, a, b); err != nil {
			t.Errorf("after the listener's close: %v", err)
		}
	}
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the listener left its socket behind: %v", err)
	}
	w := newWorker(t, Config{}, WorkerConfig{})
	if _, err := w.Dial(ctx, "ftp://host"); err == nil || !strings.Contains(err.Error(), "unix://PATH") {
		t.Errorf("a scheme that is none: %v", err)
	}
}

// A peer that is refused hears of it, and the listener goes on.
func TestListenerReject(t *testing.T) {
	ctx := testContext(t)
	wa, wb := newWorker(t, Config{}, WorkerConfig{}), newWorker(t, Config{}, WorkerConfig{})
	l, err := wb.ListenSocket(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dial := func() <-chan error {
		done := make(chan error, 1)
		go func() {
			ep, err := wa.DialSocket(ctx, l.Addr().String(), nil)
			if err == nil {
				// UCX may tell of the refusal only with the first exchange.
				_, err = ep.Recv(ctx, Bytes(make([]byte, 1)), 1, FullMask)
			}
			done <- err
		}()
		return done
	}
	refused := dial()
	r, err := l.Next(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if a, ok := r.RemoteAddr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() || a.Port == 0 {
		t.Errorf("the peer's address is %v", r.RemoteAddr())
	}
	if err := r.Reject(); err != nil {
		t.Fatal(err)
	}
	if err := <-refused; err == nil {
		t.Error("the refused peer heard nothing")
	}
	if err := r.Reject(); !errors.Is(err, ErrClosed) {
		t.Errorf("second decision: %v", err)
	}
	if _, err := r.Accept(nil); !errors.Is(err, ErrClosed) {
		t.Errorf("accept after reject: %v", err)
	}
	taken := dial()
	if r, err = l.Next(ctx); err != nil {
		t.Fatal(err)
	}
	ep, err := r.Accept(&EndpointConfig{Name: "guest"})
	if err != nil || ep.Peer() != "guest" {
		t.Fatalf("%v, %v", ep, err)
	}
	if err := ep.Send(ctx, Bytes([]byte{1}), 1); err != nil {
		t.Error(err)
	}
	if err := <-taken; err != nil {
		t.Errorf("the accepted peer: %v", err)
	}
}

// Closing a listener, or the end of a context, ends a waiting Accept; endpoints that it
// made live on.
func TestListenerClose(t *testing.T) {
	for _, m := range meetings {
		t.Run(m.name, func(t *testing.T) {
			ctx := testContext(t)
			wa, wb := newWorker(t, Config{}, WorkerConfig{}), newWorker(t, Config{}, WorkerConfig{})
			l, err := m.listen(ctx, wb, "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var a, b *Endpoint
			if err := both(func() (err error) { a, err = m.dial(ctx, wa, l.Addr().String()); return err },
				func() (err error) { b, err = l.Accept(ctx); return err }); err != nil {
				t.Fatal(err)
			}
			short, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
			defer cancel()
			if _, err := l.Accept(short); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("accept with a deadline: %v", err)
			}
			waiting := make(chan error, 1)
			go func() { _, err := l.Accept(ctx); waiting <- err }()
			time.Sleep(10 * time.Millisecond)
			for range 2 {
				if err := l.Close(); err != nil {
					t.Error(err)
				}
			}
			if err := <-waiting; !errors.Is(err, ErrClosed) {
				t.Errorf("the waiting accept: %v", err)
			}
			if _, err := l.Accept(ctx); !errors.Is(err, ErrClosed) {
				t.Errorf("accept after close: %v", err)
			}
			if err := exchangeOne(ctx, a, b); err != nil {
				t.Errorf("the endpoints after their listener's end: %v", err)
			}
			if ep, err := m.dial(ctx, wa, l.Addr().String()); err == nil {
				t.Errorf("connected to a closed listener: %v", ep)
			}
		})
	}
}
