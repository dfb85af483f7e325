//go:build cgo

package ucxcomm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/device/staging"
	"go.millstream.dev/mem"
)

// onTCP is a backend whose comms have no transport but tcp, also within one process.
var onTCP = newBackend("ucxx", Settings{Options: map[string]string{"TLS": "tcp"}})

// tcpPair returns the two ends of a comm of onTCP with up to n stripes, and its listener.
func tcpPair(t *testing.T, n int, dial comm.DialConfig, listen comm.ListenConfig) (a, z *conn, l *listener) {
	t.Helper()
	ctx := testContext(t)
	dial.Staged.Stripes, listen.Staged.Stripes = n, max(n, 2)
	ln, err := onTCP.Listen(ctx, "127.0.0.1:0", listen)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	_, loc := commaddr.Parse(ln.ContactAddr())
	dialed, err := onTCP.Dial(ctx, loc, dial)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(dialed.Abort)
	accepted, err := ln.Accept(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(accepted.Abort)
	return dialed.(*conn), accepted.(*conn), ln.(*listener)
}

// openStripes sends a large frame, which UCX carries, and waits for the stripes of both ends.
func openStripes(t *testing.T, from, to *conn) {
	t.Helper()
	carried(t, from, to, msg([]byte("body"), make([]byte, stripedFrom))).Release()
	for _, c := range []*conn{from, to} {
		select {
		case <-c.data.large.decided:
		case <-testContext(t).Done():
			t.Fatal("the stripes are not decided")
		}
		if !c.data.large.isOpen() {
			t.Fatal("the stripes are not open")
		}
	}
}

// stripesOf returns the connections of the stripes of c, which other goroutines may be opening.
func stripesOf(c *conn) []net.Conn {
	h := c.data.large
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.conns)
}

// deliveriesOf returns the numbers of striped messages that c has sent, and that its peer has received.
func deliveriesOf(c *conn) (sent, delivered uint64) {
	h := c.data.large
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.sent, h.delivered
}

// doorOf returns the open port for the stripes of a listener, nil if there is none.
func doorOf(l *listener) *staging.Listener {
	l.door.mu.Lock()
	defer l.door.mu.Unlock()
	return l.door.door
}

// setDoorHost changes the host at which a listener opens its port for stripes.
func setDoorHost(l *listener, host string) {
	l.door.mu.Lock()
	defer l.door.mu.Unlock()
	l.door.host = host
}

func random(n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(uint64(n), 1))
	for i := 0; i+8 <= n; i += 8 {
		v := r.Uint64()
		for k := range 8 {
			b[i+k] = byte(v >> (8 * k))
		}
	}
	return b
}

// TestStriped: large frames among others arrive whole and in order, in both directions, whichever side was first.
func TestStriped(t *testing.T) {
	for _, n := range []int{2, 3, 5} {
		for _, listenerFirst := range []bool{false, true} {
			t.Run(fmt.Sprint(n, listenerFirst), func(t *testing.T) {
				a, z, _ := tcpPair(t, n, comm.DialConfig{}, comm.ListenConfig{})
				if listenerFirst {
					openStripes(t, z, a)
				} else {
					openStripes(t, a, z)
				}
				if got := len(stripesOf(z)); got != n {
					t.Errorf("got %d stripes, want %d", got, n)
				}
				if got := a.Transports(); !slices.Equal(got, []string{"stripes", "tcp"}) {
					t.Errorf("transports: got %v, want stripes and tcp", got)
				}
				checkStriped(t, a, z)
				if sent, delivered := deliveriesOf(a); sent == 0 || delivered != sent {
					t.Errorf("striped messages: got %d sent, %d delivered", sent, delivered)
				}
			})
		}
	}
}

func checkStriped(t *testing.T, a, z *conn) {
	t.Helper()
	small, big, odd, huge := random(100), random(stripedFrom), random(stripedFrom+3), random(3*stripeChunk*5+1)
	for _, want := range [][][]byte{
		{big},
		{small, big},
		{big, small, nil, odd, huge, small},
		{small, small},
		{nil, huge},
	} {
		there := carried(t, a, z, msg(want...))
		back := carried(t, z, a, there)
		there.Release()
		if len(back.Frames) != len(want) {
			t.Fatalf("got %d frames, want %d", len(back.Frames), len(want))
		}
		for i, f := range back.Frames {
			if !bytes.Equal(f.Bytes(), want[i]) {
				t.Errorf("frame %d of %d bytes differs", i, len(want[i]))
			}
		}
		back.Release()
	}
}

// Both directions may be in the middle of a striped frame at once.
func TestStripedBothWays(t *testing.T) {
	a, z, _ := tcpPair(t, 2, comm.DialConfig{}, comm.ListenConfig{})
	openStripes(t, a, z)
	ctx, data := testContext(t), random(8*stripeChunk+5)
	errs := make(chan error, 4)
	for _, c := range []*conn{a, z} {
		go func() {
			for range 5 {
				if err := c.Write(ctx, msg([]byte("body"), data)); err != nil {
					errs <- err
					return
				}
			}
			errs <- nil
		}()
		go func() {
			for range 5 {
				m, err := c.Read(ctx)
				if err != nil || !bytes.Equal(m.Frames[1].Bytes(), data) {
					errs <- errors.Join(err, errors.New("a frame differs or is missing"))
					return
				}
				m.Release()
			}
			errs <- nil
		}()
	}
	for range 4 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

// Received frames use the memory of Settings.Host, and a pool gets all of it back.
func TestStripedIntoPool(t *testing.T) {
	a, z, _ := tcpPair(t, 2, comm.DialConfig{}, comm.ListenConfig{})
	openStripes(t, a, z)
	pool, err := mem.NewPool(mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	z.data.host = hostMemory{pool}
	data := random(stripedFrom + 1)
	got := carried(t, a, z, msg([]byte("body"), data))
	if used := pool.Stats().InUse; used < stripedFrom {
		t.Errorf("pool has %d bytes in use, want at least %d", used, stripedFrom)
	}
	if !bytes.Equal(got.Frames[1].Bytes(), data) {
		t.Error("the frame differs")
	}
	got.Release()
	if used := pool.Stats().InUse; used != 0 {
		t.Errorf("pool has %d bytes in use after the release", used)
	}
}

// TestNoStripes: who does not want them, or has a better transport, gets none, and frames arrive all the same.
func TestNoStripes(t *testing.T) {
	off := comm.StagedConfig{Mode: comm.StagedOff}
	for _, tc := range []struct {
		about        string
		b            *backend
		dial, listen comm.StagedConfig
		feature      bool
	}{
		{"one stripe", onTCP, comm.StagedConfig{Stripes: 1}, comm.StagedConfig{Stripes: 2}, false},
		{"one stripe at the listener", onTCP, comm.StagedConfig{Stripes: 2}, comm.StagedConfig{Stripes: 1}, false},
		{"switched off", onTCP, off, comm.StagedConfig{Stripes: 2}, false},
		{"plain transports", backends["plain"], comm.StagedConfig{Stripes: 2}, comm.StagedConfig{Stripes: 2}, false},
		{"shared memory", backends["data"], comm.StagedConfig{Stripes: 2}, comm.StagedConfig{Stripes: 2}, true},
	} {
		t.Run(tc.about, func(t *testing.T) {
			ctx := testContext(t)
			l, err := tc.b.Listen(ctx, "127.0.0.1:0", comm.ListenConfig{Staged: tc.listen})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			_, loc := commaddr.Parse(l.ContactAddr())
			a, err := tc.b.Dial(ctx, loc, comm.DialConfig{Staged: tc.dial})
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			z, err := l.Accept(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer z.Close()
			for range 3 {
				carried(t, a, z, msg([]byte("body"), make([]byte, stripedFrom))).Release()
				carried(t, z, a, msg([]byte("body"), make([]byte, stripedFrom))).Release()
			}
			for _, c := range []*conn{a.(*conn), z.(*conn)} {
				has := c.data != nil && c.data.large != nil
				if has != tc.feature || has && c.data.large.isOpen() {
					t.Errorf("stripes: got %v, want %v and not open", has, tc.feature)
				}
			}
			if doorOf(l.(*listener)) != nil && !tc.feature {
				t.Error("the listener has opened a port")
			}
		})
	}
}

// A port that cannot be reached, or opened, leaves all frames to UCX.
func TestStripesThatCannotBeOpened(t *testing.T) {
	for about, spoil := range map[string]func(l *listener){
		"not reachable": func(l *listener) { setDoorHost(l, "127.0.0.77") },
		"not possible":  func(l *listener) { setDoorHost(l, "192.0.2.1") },
		"closed":        func(l *listener) { l.door.close() },
	} {
		for _, listenerFirst := range []bool{false, true} {
			t.Run(fmt.Sprint(about, listenerFirst), func(t *testing.T) {
				a, z, l := tcpPair(t, 2, comm.DialConfig{}, comm.ListenConfig{})
				spoil(l)
				if listenerFirst {
					a, z = z, a
				}
				data := random(stripedFrom + 7)
				for range 3 {
					got := carried(t, a, z, msg([]byte("body"), data))
					if !bytes.Equal(got.Frames[1].Bytes(), data) {
						t.Error("the frame differs")
					}
					got.Release()
				}
				for _, c := range []*conn{a, z} {
					select {
					case <-c.data.large.decided:
					case <-testContext(t).Done():
						t.Fatal("the stripes are not decided")
					}
					if c.data.large.isOpen() || c.Err() != nil {
						t.Errorf("stripes open: %v, comm: %v", c.data.large.isOpen(), c.Err())
					}
				}
				carried(t, z, a, msg([]byte("body"), data)).Release()
			})
		}
	}
}

// Memory for announced frames is bounded before it is allocated.
func TestStripedBeyondLimits(t *testing.T) {
	for about, limits := range map[string]comm.Limits{
		"message":   {Message: stripedFrom + 1000},
		"announced": {Announced: stripedFrom + 1000},
	} {
		t.Run(about, func(t *testing.T) {
			a, z, _ := tcpPair(t, 2, comm.DialConfig{}, comm.ListenConfig{Limits: limits})
			openStripes(t, a, z)
			ctx := testContext(t)
			sent := make(chan error, 1)
			go func() { sent <- a.Write(ctx, msg([]byte("body"), make([]byte, 4*stripedFrom))) }()
			m, err := z.Read(ctx)
			var limit *limitError
			if !errors.As(err, &limit) {
				t.Errorf("got %v, %v, want a limitError", m, err)
			}
			if err := <-sent; !errors.Is(err, comm.ErrClosed) {
				t.Errorf("write: got %v, want %v", err, comm.ErrClosed)
			}
		})
	}
}

// A context that ends before anything was sent leaves the comm as it is.
func TestStripedNotStarted(t *testing.T) {
	a, z, _ := tcpPair(t, 2, comm.DialConfig{}, comm.ListenConfig{})
	openStripes(t, a, z)
	ctx, cancel := context.WithCancel(testContext(t))
	cancel()
	if err := a.Write(ctx, msg([]byte("body"), make([]byte, stripedFrom))); !errors.Is(err, context.Canceled) {
		t.Errorf("write: got %v, want %v", err, context.Canceled)
	}
	if _, err := z.Read(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("read: got %v, want %v", err, context.Canceled)
	}
	checkStriped(t, a, z)
}

func TestHostStripeCount(t *testing.T) {
	for _, tc := range []struct {
		s    comm.StagedConfig
		want int
	}{
		{comm.StagedConfig{}, defaultHostStripes(runtime.GOMAXPROCS(0))},
		{comm.StagedConfig{Stripes: 3}, 3},
		{comm.StagedConfig{Stripes: 99}, comm.MaxStripes},
		{comm.StagedConfig{Mode: comm.StagedOff, Stripes: 3}, 1},
		{comm.StagedConfig{Mode: comm.StagedOff}, 1},
	} {
		if got := hostStripeCount(tc.s); got != tc.want {
			t.Errorf("%+v: got %d, want %d", tc.s, got, tc.want)
		}
	}
}
