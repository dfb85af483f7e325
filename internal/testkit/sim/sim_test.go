package sim

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

func text(s string) *wire.Message {
	return &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte(s))}}
}

// pair connects host a to host b.
func pair(t *testing.T, n *Network) (a, b comm.Comm) {
	t.Helper()
	l, err := n.Host("b").Listen(t.Context(), "sim://b:0", comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return connect(t, n, "a", l)
}

func connect(t *testing.T, n *Network, from string, l comm.Listener) (a, b comm.Comm) {
	t.Helper()
	a, err := n.Host(from).Dial(t.Context(), l.ContactAddr(), comm.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	b, err = l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return a, b
}

func mustWrite(t *testing.T, c comm.Comm, s string) {
	t.Helper()
	if err := c.Write(t.Context(), text(s)); err != nil {
		t.Fatal(err)
	}
}

func mustRead(t *testing.T, c comm.Comm, want string) {
	t.Helper()
	m, err := c.Read(t.Context())
	if err != nil {
		t.Fatalf("read of %q: %v", want, err)
	}
	defer m.Release()
	if got := string(m.Body()); got != want {
		t.Fatalf("read %q, want %q", got, want)
	}
}

func wantClosed(t *testing.T, c comm.Comm) {
	t.Helper()
	<-c.Done()
	if err := c.Err(); !errors.Is(err, comm.ErrClosed) {
		t.Fatalf("Err is %v, want comm.ErrClosed in it", err)
	}
	if _, err := c.Read(t.Context()); !errors.Is(err, comm.ErrClosed) {
		t.Fatalf("Read after the end: %v, want comm.ErrClosed in it", err)
	}
	if err := c.Write(t.Context(), text("x")); !errors.Is(err, comm.ErrClosed) {
		t.Fatalf("Write after the end: %v, want comm.ErrClosed in it", err)
	}
}

// bubble runs a test in virtual time on a network, in both modes.
func bubble(t *testing.T, cfg Config, f func(*testing.T, *Network)) {
	for _, deterministic := range []bool{false, true} {
		t.Run(fmt.Sprintf("deterministic=%v", deterministic), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := cfg
				c.Deterministic = deterministic
				n := New(c)
				f(t, n)
				if t.Failed() {
					t.Log("\n" + n.Trace())
				}
			})
		})
	}
}

func TestOrderBothWays(t *testing.T) {
	bubble(t, Config{Link: Link{Latency: time.Millisecond, Jitter: 5 * time.Millisecond}, Seed: 3},
		func(t *testing.T, n *Network) {
			a, b := pair(t, n)
			for i := range 50 {
				mustWrite(t, a, fmt.Sprint("a", i))
				mustWrite(t, b, fmt.Sprint("b", i))
			}
			for i := range 50 {
				mustRead(t, b, fmt.Sprint("a", i))
				mustRead(t, a, fmt.Sprint("b", i))
			}
			if a.LocalAddr() != b.PeerAddr() || a.PeerAddr() != b.LocalAddr() ||
				!strings.HasPrefix(a.PeerAddr(), "sim://b:") {
				t.Errorf("addresses %s %s %s %s", a.LocalAddr(), a.PeerAddr(), b.LocalAddr(), b.PeerAddr())
			}
			mustWrite(t, a, "last")
			if err := a.Close(); err != nil {
				t.Fatal(err)
			}
			mustRead(t, b, "last") // sent before the close
			wantClosed(t, b)
			wantClosed(t, a)
			if err := a.Close(); err != nil {
				t.Error(err)
			}
			if n.Comms() != 0 {
				t.Errorf("%d connections left", n.Comms())
			}
		})
}

func TestNoCopyAndReferences(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New(Config{})
		a, b := pair(t, n)
		data := []byte("the same bytes")
		freed := 0
		buffer := func() *mem.Buffer {
			return mem.NewRegion(mem.RegionConfig{Heap: data, Free: func() { freed++ }}).Buffer()
		}
		m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte{0xc0}), wire.BufferFrame(buffer())}}
		if err := a.Write(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		m.Release()
		got, err := b.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if &got.Frames[1].Bytes()[0] != &data[0] {
			t.Error("the frame was copied")
		}
		if freed != 0 {
			t.Error("freed while the reader has it")
		}
		got.Release()
		if freed != 1 {
			t.Errorf("freed %d times, want once", freed)
		}
		// What is lost is given back too.
		m = &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte{0xc0}), wire.BufferFrame(buffer())}}
		if err := a.Write(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		m.Release()
		n.Drop("a", "b")
		b.Abort()
		if freed != 2 {
			t.Errorf("freed %d times, want twice", freed)
		}
	})
}

func TestLatencyAndBandwidth(t *testing.T) {
	bubble(t, Config{Link: Link{Latency: 10 * time.Millisecond, Bandwidth: 1 << 20}}, func(t *testing.T, n *Network) {
		a, b := pair(t, n)
		start := time.Now()
		big := &wire.Message{Frames: []wire.Frame{wire.HeapFrame(make([]byte, 1<<20))}}
		if err := a.Write(t.Context(), big); err != nil {
			t.Fatal(err)
		}
		m, err := b.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		m.Release()
		// Virtual time, so this is arithmetic and no measurement.
		if took := time.Since(start); took < time.Second+10*time.Millisecond || took > time.Second+11*time.Millisecond {
			t.Errorf("1 MiB at 1 MiB/s took %v", took)
		}
	})
}

func TestBackpressure(t *testing.T) {
	bubble(t, Config{Window: 1000}, func(t *testing.T, n *Network) {
		a, b := pair(t, n)
		block := strings.Repeat("x", 376) // 400 with its table
		mustWrite(t, a, block)
		mustWrite(t, a, block)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := a.Write(ctx, text(block)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("write into a full window: %v", err)
		}
		if a.Err() != nil {
			t.Fatalf("nothing was sent, and yet the comm has ended: %v", a.Err())
		}
		mustRead(t, b, block)
		mustWrite(t, a, block)
		mustRead(t, b, block)
		mustRead(t, b, block)

		// A message larger than the window waits for its reader.
		large := strings.Repeat("y", 5000)
		sent := make(chan error, 1)
		go func() { sent <- a.Write(t.Context(), text(large)) }()
		synctest.Wait()
		select {
		case err := <-sent:
			t.Fatalf("the large message was taken at once: %v", err)
		default:
		}
		mustRead(t, b, large)
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
		// And ends the comm when it is given up in the middle.
		ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := a.Write(ctx, text(large)); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		wantClosed(t, a)
		wantClosed(t, b)
	})
}

func TestReadContext(t *testing.T) {
	bubble(t, Config{Link: Link{Bandwidth: 100}}, func(t *testing.T, n *Network) {
		a, b := pair(t, n)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := b.Read(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		mustWrite(t, a, "still alive")
		mustRead(t, b, "still alive")
		mustWrite(t, a, strings.Repeat("slow", 100)) // four seconds
		ctx, cancel = context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if _, err := b.Read(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		wantClosed(t, b) // half a message had arrived
		wantClosed(t, a)
	})
}

func TestLimits(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, n *Network) {
		for _, c := range []struct {
			limits comm.Limits
			m      *wire.Message
			names  string
		}{
			{comm.Limits{Message: 100}, text(strings.Repeat("x", 200)), "Limits.Message"},
			{comm.Limits{Frames: 2}, &wire.Message{Frames: make([]wire.Frame, 3)}, "Limits.Frames"},
		} {
			l, err := n.Host("b").Listen(t.Context(), "sim://b:0", comm.ListenConfig{Limits: c.limits})
			if err != nil {
				t.Fatal(err)
			}
			a, b := connect(t, n, "a", l)
			mustWrite(t, a, "small")
			mustRead(t, b, "small")
			if err := a.Write(t.Context(), c.m); err != nil {
				t.Fatal(err)
			}
			_, err = b.Read(t.Context())
			if !errors.Is(err, comm.ErrClosed) || !strings.Contains(err.Error(), c.names) {
				t.Errorf("over the limit: %v, want %s named", err, c.names)
			}
			wantClosed(t, a)
			_ = l.Close()
		}
	})
}

func TestAbortIsHeard(t *testing.T) {
	bubble(t, Config{Link: Link{Latency: time.Millisecond}}, func(t *testing.T, n *Network) {
		a, b := pair(t, n)
		mustWrite(t, a, "lost with the abort")
		a.Abort()
		_, err := b.Read(t.Context())
		if !errors.Is(err, comm.ErrClosed) || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("read after the peer's abort: %v", err)
		}
		wantClosed(t, a)
	})
}
