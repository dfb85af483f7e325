//go:build cgo

package ucxcomm

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/wire"
)

// A writer of small messages stops when the reader is a window behind, and goes on when
// it reads: UCX itself would take in anything.
func TestCredits(t *testing.T) {
	a, z := pair(t, backends["data"])
	ctx := testContext(t)
	m := msg(make([]byte, 5000))
	written := 0
	for {
		short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		err := a.Write(short, m)
		cancel()
		if err != nil {
			if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, comm.ErrClosed) {
				t.Fatal(err)
			}
			break
		}
		if written++; written*5000 > dataWindow {
			t.Fatalf("%d bytes were written and nothing was read", written*5000)
		}
	}
	if written*5000 < dataWindow/2 {
		t.Errorf("the writer stopped after %d bytes", written*5000)
	}
	// A message longer than the window waits for half of it.
	large := make(chan error, 1)
	go func() { large <- a.Write(ctx, msg(make([]byte, 2*dataWindow))) }()
	for i := range written {
		r, err := z.Read(ctx)
		if err != nil || r.Size() != 5000 {
			t.Fatalf("message %d of %d: %v", i, written, err)
		}
	}
	if r, err := z.Read(ctx); err != nil || r.Size() != 2*dataWindow {
		t.Fatalf("the large message: %v", err)
	}
	if err := <-large; err != nil {
		t.Fatal(err)
	}
}

// Both writers far ahead of their readers is no deadlock once one reads.
func TestCreditsBothWays(t *testing.T) {
	a, z := pair(t, backends["data"])
	ctx := testContext(t)
	const n = 3 * dataWindow / 100_000
	done := make(chan error, 4)
	for _, c := range []comm.Comm{a, z} {
		go func() {
			for range n {
				if err := c.Write(ctx, msg(make([]byte, 100_000))); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
		go func() {
			for i := range n {
				m, err := c.Read(ctx)
				if err != nil || m.Size() != 100_000 {
					done <- fmt.Errorf("message %d: %w", i, err)
					return
				}
			}
			done <- nil
		}()
	}
	for range 4 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
}

// Messages of more frames than ucx sends as one, and those that begin with nothing,
// travel in pieces.
func TestPieces(t *testing.T) {
	a, z := pair(t, backends["data"])
	ctx := testContext(t)
	for _, n := range []int{dataFrames - 2, dataFrames - 1, dataFrames, dataFrames + 1, 2*dataFrames + 17} {
		for _, first := range []int{0, 1} {
			frames := make([][]byte, n)
			for i := range frames {
				frames[i] = make([]byte, i%3)
			}
			frames[0] = make([]byte, first)
			sent := make(chan error, 1)
			go func() { sent <- a.Write(ctx, msg(frames...)) }()
			m, err := z.Read(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if err := <-sent; err != nil {
				t.Fatal(err)
			}
			if len(m.Frames) != n {
				t.Fatalf("%d frames instead of %d", len(m.Frames), n)
			}
			for i, f := range m.Frames {
				if f.Len() != len(frames[i]) {
					t.Fatalf("frame %d of %d has %d bytes", i, n, f.Len())
				}
			}
		}
	}
}

// Limits hold on a data connection as well, for whole messages and for those in pieces.
func TestDataLimits(t *testing.T) {
	for name, frames := range map[string]int{"one frame too many": 11, "pieces": dataFrames + 5, "bytes": 2} {
		t.Run(name, func(t *testing.T) {
			ctx := testContext(t)
			limits := comm.Limits{Frames: 10, Message: 1000}
			if name == "pieces" {
				limits = comm.Limits{Frames: dataFrames + 2}
			}
			b := backends["data"]
			l, err := b.Listen(ctx, "127.0.0.1:0", comm.ListenConfig{Limits: limits})
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			_, loc := commaddr.Parse(l.ContactAddr())
			c, err := b.Dial(ctx, loc, comm.DialConfig{})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Abort()
			z, err := l.Accept(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer z.Abort()
			m := &wire.Message{}
			for range frames {
				m.Frames = append(m.Frames, wire.HeapFrame(make([]byte, 501)))
			}
			if name == "pieces" {
				for i := range m.Frames {
					m.Frames[i] = wire.HeapFrame([]byte{1})
				}
			}
			go c.Write(ctx, m)
			if _, err := z.Read(ctx); !errors.Is(err, comm.ErrClosed) {
				t.Errorf("the read ended with %v", err)
			}
			<-c.Done()
		})
	}
}

// A side that cannot have a data connection, or whose half of one is not made, leaves the comm as it
// was: distributed-ucxx's format works in any case.
func TestFallback(t *testing.T) {
	ctx := testContext(t)
	here := newBackend("ucxx", Settings{Options: map[string]string{"TLS": "tcp,self,sm"}}) // an engine of its own
	listening := func(b *backend) (comm.Listener, string) {
		l, err := b.Listen(ctx, "127.0.0.1:0", comm.ListenConfig{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		_, loc := commaddr.Parse(l.ContactAddr())
		return l, loc
	}
	talk := func(t *testing.T, l comm.Listener, b *backend, loc string, want bool) {
		t.Helper()
		c, err := b.Dial(ctx, loc, comm.DialConfig{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		z, err := l.Accept(ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer z.Close()
		for _, x := range []comm.Comm{c, z} {
			if got := x.(*conn).data != nil; got != want {
				t.Errorf("there is a data connection: %v", got)
			}
		}
		if err := c.Write(ctx, msg([]byte("there"))); err != nil {
			t.Fatal(err)
		}
		if m, err := z.Read(ctx); err != nil || string(m.Body()) != "there" {
			t.Fatal(err)
		}
		if err := z.Write(ctx, msg([]byte("back"))); err != nil {
			t.Fatal(err)
		}
		if m, err := c.Read(ctx); err != nil || string(m.Body()) != "back" {
			t.Fatal(err)
		}
	}
	l, loc := listening(here)
	t.Run("the peer wants none", func(t *testing.T) { talk(t, l, backends["plain"], loc, false) })
	t.Run("both have one", func(t *testing.T) { talk(t, l, backends["data"], loc, true) })
	e, err := openEngine(ctx, here.settings.forHost("127.0.0.1"))
	if err != nil {
		t.Fatal(err)
	}
	defer e.release()
	w, err := e.dataUCX()
	if err != nil {
		t.Fatal(err)
	}
	w.Close() // from now on each data connection of this engine fails in the making
	t.Run("the listener's is not made", func(t *testing.T) { talk(t, l, backends["data"], loc, false) })
	other, at := listening(backends["data"])
	t.Run("the dialler's is not made", func(t *testing.T) { talk(t, other, here, at, false) })
	e.data.err = errors.New("no memory for a worker")
	t.Run("the listener has none", func(t *testing.T) { talk(t, l, backends["data"], loc, false) })
	t.Run("the dialler has none", func(t *testing.T) { talk(t, other, here, at, false) })
	e.data.err = nil
}

// With Settings.Polling a wait for a message on a data connection never sleeps.
func TestPolling(t *testing.T) {
	ctx := testContext(t)
	s := Settings{Polling: true}
	a, z := pair(t, newBackend("ucxx", s))
	for range 100 {
		if err := a.Write(ctx, msg([]byte("body"))); err != nil {
			t.Fatal(err)
		}
		m, err := z.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		m.Release()
	}
	used := s.forHost("127.0.0.1")
	engines.mu.Lock()
	e := engines.m[used.key()]
	engines.mu.Unlock()
	data, err := e.dataUCX()
	if err != nil {
		t.Fatal(err)
	}
	read := make(chan error, 1)
	go func() {
		_, err := z.Read(ctx)
		read <- err
	}()
	for before := data.Stats().Progress; data.Stats().Progress < before+10_000; time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("a data connection was looked at %d times while a reader waits", data.Stats().Progress-before)
		}
	}
	if err := a.Write(ctx, msg([]byte("last"))); err != nil {
		t.Fatal(err)
	}
	if err := <-read; err != nil {
		t.Fatal(err)
	}
	if (&Settings{}).key() == s.key() {
		t.Error("comms that poll share an engine with those that do not")
	}
}
