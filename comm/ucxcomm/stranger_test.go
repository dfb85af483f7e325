//go:build cgo

package ucxcomm

import (
	"context"
	"errors"
	"math"
	"net"
	"runtime"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/comm/handshake"
	"go.millstream.dev/mem"
	"go.millstream.dev/ucx"
)

// stranger is a UCX program that says what it likes to a listener of ours.
type stranger struct {
	*testing.T
	ctx context.Context
	l   comm.Listener
	ep  *ucx.UCXXEndpoint
}

func meetStranger(t *testing.T, cfg comm.ListenConfig) *stranger {
	t.Helper()
	s := &stranger{T: t, ctx: testContext(t)}
	l, err := newBackend("ucxx", Settings{}).Listen(s.ctx, "127.0.0.1:0", cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	s.l = l
	c, err := ucx.NewContext(ucx.Config{PlainTransports: true})
	if err != nil {
		t.Fatal(err)
	}
	w, err := c.NewWorker(ucx.WorkerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for { // what it was told and did not read; UCX would list it
			m, err := w.ProbeRemove(0, ucx.AnyTag)
			if err != nil || m == nil {
				break
			}
			_ = m.StartRecv(ucx.Bytes(make([]byte, 1<<10))).Wait(context.Background())
		}
		w.Close()
		c.Close()
	})
	_, loc := commaddr.Parse(l.ContactAddr())
	if s.ep, err = w.DialUCXX(s.ctx, loc); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stranger) send(parts ...[]byte) {
	s.Helper()
	for _, p := range parts {
		if err := s.ep.Send(s.ctx, ucx.Bytes(p), ucx.DefaultTag); err != nil {
			s.Fatal(err)
		}
	}
}

// strangerMessage is what distributed-ucxx sends for the frames.
func strangerMessage(device bool, frames ...[]byte) [][]byte {
	var first [leadSize]byte
	lead{frames: uint64(len(frames))}.put(&first)
	var parts []part
	for _, f := range frames {
		parts = append(parts, part{int64(len(f)), device})
	}
	out := [][]byte{first[:], appendTable(nil, parts)}
	for _, f := range frames {
		if len(f) > 0 {
			out = append(out, f)
		}
	}
	return out
}

// greet is a hello of Python's.
func (s *stranger) greet() {
	s.Helper()
	h := handshake.Hello{PickleProtocol: 5, Python: []int{3, 11, 0}}
	s.send(strangerMessage(false, h.Append(nil))...)
}

// refused waits for the listener to hang up, and checks that others are still served.
func (s *stranger) refused() {
	s.Helper()
	select {
	case <-s.ep.Done():
	case <-s.ctx.Done():
		s.Fatal("the stranger is still connected")
	}
	s.served()
}

func (s *stranger) served() {
	s.Helper()
	_, loc := commaddr.Parse(s.l.ContactAddr())
	c, err := newBackend("ucxx", Settings{}).Dial(s.ctx, loc, comm.DialConfig{})
	if err != nil {
		s.Fatalf("nobody else is served: %v", err)
	}
	defer c.Close()
	a, err := s.l.Accept(s.ctx)
	if err != nil {
		s.Fatal(err)
	}
	a.Close()
}

func rawLead(n uint64) []byte {
	var b [leadSize]byte
	lead{frames: n}.put(&b)
	return b[:]
}

// Before the handshake a peer can promise what it likes: nothing is allocated for it.
func TestHostileHello(t *testing.T) {
	for name, parts := range map[string][][]byte{
		"2^63 frames":       {rawLead(1 << 63)},
		"17 frames":         {rawLead(17)},
		"no frames":         {rawLead(0)},
		"a short lead":      {{1, 2, 3}},
		"a long lead":       {make([]byte, 1209)},
		"shutdown":          {{1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
		"4 GiB":             {rawLead(1), appendTable(nil, []part{{size: 4 << 30}})},
		"2^64-1 bytes":      {rawLead(1), appendTable(nil, []part{{size: -1}})},
		"65 KiB":            {rawLead(1), appendTable(nil, []part{{size: 65 << 10}})},
		"a short table":     {rawLead(2), make([]byte, 8)},
		"a short frame":     {rawLead(1), appendTable(nil, []part{{size: 100}}), make([]byte, 99)},
		"a long frame":      {rawLead(1), appendTable(nil, []part{{size: 100}}), make([]byte, 101)},
		"no msgpack":        strangerMessage(false, []byte{0xc1, 1, 2}),
		"two frames":        strangerMessage(false, []byte{0x80}, []byte("pickle")),
		"no pickle version": strangerMessage(false, []byte{0x80}),
	} {
		t.Run(name, func(t *testing.T) {
			s := meetStranger(t, comm.ListenConfig{})
			s.send(parts...)
			s.refused()
		})
	}
}

// A peer that says nothing is hung up on when its time is over.
func TestSilentStranger(t *testing.T) {
	s := meetStranger(t, comm.ListenConfig{Limits: comm.Limits{HandshakeTime: 200 * time.Millisecond}})
	s.refused()
}

// Limits hold after the handshake too.
func TestLimits(t *testing.T) {
	for name, parts := range map[string][][]byte{
		"frames":     {rawLead(11)},
		"bytes":      {rawLead(2), appendTable(nil, []part{{size: 600}, {size: 401}})},
		"max frames": {rawLead(math.MaxUint64)},
	} {
		t.Run(name, func(t *testing.T) {
			s := meetStranger(t, comm.ListenConfig{Limits: comm.Limits{Message: 1000, Frames: 10}})
			s.greet()
			c, err := s.l.Accept(s.ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Abort()
			s.send(strangerMessage(false, make([]byte, 600), make([]byte, 400))...)
			m, err := c.Read(s.ctx)
			if err != nil {
				t.Fatal(err)
			}
			m.Release()
			s.send(parts...)
			var limit *limitError
			if _, err := c.Read(s.ctx); !errors.As(err, &limit) || !errors.Is(err, comm.ErrClosed) {
				t.Errorf("the read ended with %v", err)
			}
			s.refused()
		})
	}
}

// Frames that the peer has on a GPU arrive in memory of the allocator given, or in host
// memory where there is none.
func TestDeviceFrames(t *testing.T) {
	for _, with := range []bool{false, true} {
		var cfg comm.ListenConfig
		if with {
			cfg.Device = mem.NewMmap(mem.MmapConfig{}) // memory of a kind that only the allocator gives
		}
		s := meetStranger(t, cfg)
		s.greet()
		c, err := s.l.Accept(s.ctx)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Abort()
		s.send(strangerMessage(true, []byte("on a device"))...)
		s.send(strangerMessage(false, []byte("on the host"))...)
		for i, want := range []string{"on a device", "on the host"} {
			m, err := c.Read(s.ctx)
			if err != nil {
				t.Fatal(err)
			}
			if string(m.Body()) != want {
				t.Errorf("got %q", m.Body())
			}
			if b := m.Frames[0].Buffer(); (b != nil) != (with && i == 0) {
				t.Errorf("allocator %v, frame %q: it lies in %v", with, want, b)
			}
			m.Release()
		}
	}
}

// Invitations are asked for before anything else: a peer without one, or with a wrong one, is
// hung up on; one with the right one is served, also over a data connection.
func TestInvitations(t *testing.T) {
	ctx := testContext(t)
	cfg := comm.ListenConfig{Admit: func(_ string, c []byte) bool { return string(c) == "secret" }}
	for name, b := range backends {
		t.Run(name, func(t *testing.T) {
			l, err := b.Listen(ctx, "127.0.0.1:0", cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			_, loc := commaddr.Parse(l.ContactAddr())
			for _, invitation := range []string{"", "wrong"} {
				c, err := b.Dial(ctx, loc, comm.DialConfig{Invitation: []byte(invitation)})
				if err == nil { // in Python's format the dialler learns of it from its first read
					_, err = c.Read(ctx)
					c.Abort()
				}
				if err == nil {
					t.Errorf("invitation %q was let in", invitation)
				}
			}
			c, err := b.Dial(ctx, loc, comm.DialConfig{Invitation: []byte("secret")})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			a, err := l.Accept(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer a.Close()
			if err := c.Write(ctx, msg([]byte("body"))); err != nil {
				t.Fatal(err)
			}
			m, err := a.Read(ctx)
			if err != nil || string(m.Body()) != "body" {
				t.Fatalf("%v, %v", m, err)
			}
		})
	}
	t.Run("Python", func(t *testing.T) {
		s := meetStranger(t, cfg)
		s.greet()
		select {
		case <-s.ep.Done():
		case <-ctx.Done():
			t.Fatal("a peer without an invitation is still connected")
		}
	})
}

// Many who hold connections and say nothing do not keep others out.
func TestCrowdOfStrangers(t *testing.T) {
	s := meetStranger(t, comm.ListenConfig{Limits: comm.Limits{Pending: 8}})
	w := s.ep.Endpoint().Worker()
	_, loc := commaddr.Parse(s.l.ContactAddr())
	for range 40 {
		if _, err := w.DialUCXX(s.ctx, loc); err != nil {
			t.Fatal(err)
		}
	}
	s.served()
	// Bytes that are not UCX's at all.
	for range 20 {
		c, err := net.Dial("tcp", loc)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, _ = c.Write([]byte("GET / HTTP/1.0\r\n\r\n"))
	}
	s.served()
}

// Frames that are announced and do not come cost their peer the connection, and are not
// allocated beyond the bound of its host.
func TestAnnouncedFrames(t *testing.T) {
	sizes := map[string][]part{
		"60 GiB":               {{size: 60 << 30}},
		"beyond the bound":     {{size: 8<<20 + 1}},
		"in two frames":        {{size: 5 << 20}, {size: 5 << 20}},
		"a million of nothing": make([]part, 1<<20),
	}
	for name, parts := range sizes {
		t.Run(name, func(t *testing.T) {
			s := meetStranger(t, comm.ListenConfig{Limits: comm.Limits{Announced: 8 << 20}})
			s.greet()
			c, err := s.l.Accept(s.ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Abort()
			sent := make(chan error, 1)
			go func() { // a long table waits for its reader
				err := s.ep.Send(s.ctx, ucx.Bytes(rawLead(uint64(len(parts)))), ucx.DefaultTag)
				if err == nil {
					err = s.ep.Send(s.ctx, ucx.Bytes(appendTable(nil, parts)), ucx.DefaultTag)
				}
				sent <- err
			}()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err = c.Read(s.ctx)
			runtime.ReadMemStats(&after)
			if !errors.Is(err, comm.ErrClosed) {
				t.Errorf("the read ended with %v, want ErrClosed", err)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > 64<<20 {
				t.Errorf("%d bytes were allocated, want at most 64 MiB", got)
			}
			if err := <-sent; err != nil {
				t.Logf("the table: %v", err)
			}
			s.refused()
			if total := announcedBytes(); total != 0 {
				t.Errorf("%d bytes are still counted as announced, want 0", total)
			}
		})
	}
}

func announcedBytes() int64 {
	announced.mu.Lock()
	defer announced.mu.Unlock()
	return announced.total
}

// Comms of one host share its bound: a frame waits until others have arrived.
func TestAnnouncedShare(t *testing.T) {
	l := ledger{hosts: map[string]int64{}, changed: make(chan struct{})}
	if wait := l.take("a", 5, 8); wait != nil {
		t.Fatal("the first frame waits")
	}
	wait := l.take("a", 5, 8)
	if wait == nil {
		t.Fatal("10 bytes of one host, want at most 8")
	}
	if l.take("b", 5, 8) != nil {
		t.Error("the frame of another host waits")
	}
	l.give("a", 5)
	<-wait
	if l.take("a", 5, 8) != nil {
		t.Error("the frame waits after the first has arrived")
	}
	l.give("a", 5)
	l.give("b", 5)
	if l.total != 0 || len(l.hosts) != 0 {
		t.Errorf("%d bytes of %v are left, want none", l.total, l.hosts)
	}
}
