package ucx

import (
	"bytes"
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"time"
)

// soon is how long a canceled call may take to return. UCX gives memory back within a
// millisecond of a forced close; the bound only tells that it does not hang.
const soon = 5 * time.Second

// canceled runs a blocking operation, lets its context end while it is in flight, and
// checks that it returns soon with the context's error. hold runs before the context ends.
func (s *scene) canceled(name string, hold func(), op func(context.Context) error) {
	s.t.Helper()
	ctx, cancel := context.WithCancelCause(s.ctx)
	done := make(chan error, 1)
	go func() { done <- op(ctx) }()
	if hold != nil {
		hold()
	} else {
		time.Sleep(30 * time.Millisecond)
	}
	select {
	case err := <-done:
		s.t.Fatalf("%s ended by itself: %v", name, err)
	default:
	}
	begin := time.Now()
	cause := errors.New("changed my mind")
	cancel(cause)
	select {
	case err := <-done:
		took := time.Since(begin)
		var oe *OpError
		if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) || !errors.As(err, &oe) {
			s.t.Errorf("%s: %v", name, err)
		}
		if took > soon {
			s.t.Errorf("%s returned %v after its context had ended", name, took)
		}
		s.t.Logf("%s returned %v after the cancel", name, took)
	case <-time.After(15 * time.Second):
		s.t.Fatalf("%s does not return", name)
	}
}

// canary watches memory that a canceled operation has given back.
type canary struct {
	mem []byte
	was []byte
}

// newCanary fills the memory and remembers it; any later write shows.
func newCanary(mem []byte) *canary {
	fillPattern(mem)
	return &canary{mem, bytes.Clone(mem)}
}

// fillPattern is quick also under the race detector.
func fillPattern(mem []byte) {
	if len(mem) == 0 {
		return
	}
	mem[0] = 0x5c
	for n := 1; n < len(mem); n *= 2 {
		copy(mem[n:], mem[:n])
		if mem[n]++; n+1 < len(mem) {
			mem[n+1] ^= byte(n)
		}
	}
}

func (s *scene) untouched(name string, c *canary) {
	s.t.Helper()
	if !bytes.Equal(c.mem, c.was) {
		s.t.Errorf("%s: the memory was written after the call had returned", name)
	}
}

// forced checks that the endpoint was closed by force, says why, and that the peer heard.
func (s *scene) forced() {
	s.t.Helper()
	select {
	case <-s.ep.Done():
	case <-time.After(soon):
		s.t.Fatal("the endpoint is still open")
	}
	if !errors.Is(s.ep.Err(), context.Canceled) {
		s.t.Errorf("the endpoint's error is %v", s.ep.Err())
	}
	s.unaffected("after the forced close")
	if err := s.ep.Close(); err != nil {
		s.t.Errorf("Close: %v", err)
	}
	s.noSlots()
}

// usable checks that the endpoint survived.
func (s *scene) usable(tag int) {
	s.t.Helper()
	if err := s.ep.Err(); err != nil {
		s.t.Fatalf("the endpoint failed: %v", err)
	}
	s.victim.ask("ok", "send %d 64", tag)
	if _, err := s.ep.Recv(s.ctx, Bytes(make([]byte, 64)), uint64(tag), FullMask); err != nil {
		s.t.Errorf("the endpoint is not usable: %v", err)
	}
	s.victim.ask("ok", "recv %d 64", tag)
	if err := s.ep.Send(s.ctx, Bytes(make([]byte, 64)), uint64(tag)); err != nil {
		s.t.Errorf("the endpoint is not usable: %v", err)
	}
	s.unaffected("after the cancel")
}

// TestCancel ends the context of every operation in every state that it can be in.
func TestCancel(t *testing.T) {
	eachScene(t, map[string]func(*scene){
		"unmatched receive": cancelUnmatched, "small": cancelSmall, "unmatched send": cancelUnmatchedSend,
		"mid send": cancelMidSend, "mid receive": cancelMidReceive, "mid message": cancelMidMessage,
		"message send": cancelMessageSend, "flush": cancelFlush, "request": cancelRequest,
	})
}

// An unmatched receive is taken back from UCX; nothing else happens.
func cancelUnmatched(s *scene) {
	for i, n := range []int{8, 1024, 5000, 1 << 20} {
		tag := 500 + i
		for _, c := range []struct {
			name string
			recv func(context.Context, View) error
		}{
			{"receive", func(ctx context.Context, v View) error {
				_, err := s.ep.Recv(ctx, v, uint64(tag), FullMask)
				return err
			}},
			{"worker receive", func(ctx context.Context, v View) error {
				_, err := s.w.Recv(ctx, v, uint64(tag), FullMask)
				return err
			}},
		} {
			buf := make([]byte, n)
			s.canceled(c.name, nil, func(ctx context.Context) error { return c.recv(ctx, Bytes(buf)) })
			can := newCanary(buf)
			// The message that comes later belongs to the next receive.
			s.victim.ask("ok", "send %d %d", tag, n)
			got := newCanary(make([]byte, n))
			if info, err := s.ep.Recv(s.ctx, Bytes(got.mem), uint64(tag), FullMask); err != nil || info.Len != n {
				s.t.Errorf("%s, %d bytes: the next receive got %+v, %v", c.name, n, info, err)
			}
			s.untouched(c.name, can)
		}
	}
	s.usable(590)
}

// Operations whose memory is not the caller's end without harm to the endpoint.
func cancelSmall(s *scene) {
	s.canceled("sync send", nil, func(ctx context.Context) error {
		return s.ep.SendSync(ctx, Bytes(make([]byte, 8)), 600)
	})
	s.canceled("message receive", nil, func(ctx context.Context) error { _, err := s.w.RecvAM(ctx, 2); return err })
	s.canceled("alloc receive", nil, func(ctx context.Context) error {
		_, _, err := s.w.RecvAlloc(ctx, 601, FullMask, 100)
		return err
	})
	s.canceled("accept", nil, func(ctx context.Context) error { _, err := s.accept(ctx); return err })
	short, cancel := context.WithTimeout(s.ctx, 20*time.Millisecond)
	defer cancel()
	_, err := s.ep.Recv(short, Bytes(make([]byte, 8)), 602, FullMask)
	var ne net.Error
	if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &ne) || !ne.Timeout() {
		s.t.Errorf("receive with a deadline: %v", err)
	}
	s.usable(690)
	s.victim.ask("ok", "recv 600 8") // the abandoned send ends when it is matched
	s.noSlots()
}

// A rendezvous send that the peer has not matched cannot be taken back: the endpoint ends.
func cancelUnmatchedSend(s *scene) {
	big := make([]byte, bigMessage)
	s.canceled("send", nil, func(ctx context.Context) error { return s.ep.Send(ctx, Bytes(big), 700) })
	s.forced()
}

func cancelMessageSend(s *scene) {
	big := make([]byte, bigMessage)
	s.canceled("message send", nil, func(ctx context.Context) error {
		return s.ep.SendAM(ctx, 2, []byte("h"), AMOptions{Rendezvous: true}, Bytes(big))
	})
	s.forced()
}

// cancelMidSend cancels while a stopped peer holds up the transfer.
func cancelMidSend(s *scene) {
	big := make([]byte, bigMessage)
	for i := range 4 {
		s.victim.ask("ok", "recv %d %d", 800+i, bigMessage)
	}
	for i := range 3 {
		s.ep.StartSend(Bytes(big), uint64(801+i))
	}
	s.canceled("send in flight", func() {
		time.Sleep(5 * time.Millisecond)
		s.victim.signal(syscall.SIGSTOP)
		time.Sleep(20 * time.Millisecond)
	}, func(ctx context.Context) error { return s.ep.SendSync(ctx, Bytes(big), 899) })
	s.forced()
	s.victim.signal(syscall.SIGCONT)
	s.peerHeard(4)
}

// peerHeard checks that the peer's own operations on the connection end.
func (s *scene) peerHeard(n int) {
	s.t.Helper()
	s.victim.say("wait")
	begin := time.Now()
	f := s.victim.hear("ended")
	s.t.Logf("the peer's %s operations ended, %s with an error, after %v", f[0], f[1], time.Since(begin))
}

// cancelMidReceive cancels a receive that was matched, while the sender is stopped, and
// looks at the memory when the sender runs again.
func cancelMidReceive(s *scene) {
	reads := s.transport.tls == "default" // the receiver reads the sender's memory itself: nothing holds it up
	buf := make([]byte, bigMessage)
	s.victim.ask("ok", "send 900 %d", bigMessage)
	m := &opRun{ctx: s.ctx, b: s.ep, tag: 900}
	if _, err := m.awaitMessage(); err != nil {
		s.t.Fatal(err)
	}
	s.victim.signal(syscall.SIGSTOP)
	if reads {
		_, err := s.ep.Recv(s.ctx, Bytes(buf), 900, FullMask)
		if err != nil {
			s.t.Errorf("receive from a stopped peer: %v", err)
		}
		can := newCanary(buf)
		s.victim.signal(syscall.SIGCONT)
		s.usable(990)
		s.untouched("receive", can)
		return
	}
	s.canceled("matched receive", nil, func(ctx context.Context) error {
		_, err := s.ep.Recv(ctx, Bytes(buf), 900, FullMask)
		return err
	})
	can := newCanary(buf)
	s.forced()
	s.victim.signal(syscall.SIGCONT)
	s.peerHeard(1)
	time.Sleep(100 * time.Millisecond)
	s.untouched("matched receive", can)
}

// cancelMidMessage does the same with the data of an active message.
func cancelMidMessage(s *scene) {
	s.victim.ask("ok", "am %d", bigMessage)
	m, err := s.w.RecvAM(s.ctx, 1)
	if err != nil {
		s.t.Fatal(err)
	}
	s.victim.signal(syscall.SIGSTOP)
	buf := make([]byte, bigMessage)
	if s.transport.tls == "default" {
		if err := m.Recv(s.ctx, Bytes(buf)); err != nil {
			s.t.Errorf("receive from a stopped peer: %v", err)
		}
		can := newCanary(buf)
		s.victim.signal(syscall.SIGCONT)
		s.usable(1090)
		s.untouched("message", can)
		return
	}
	s.canceled("message receive", nil, func(ctx context.Context) error { return m.Recv(ctx, Bytes(buf)) })
	can := newCanary(buf)
	s.forced()
	s.victim.signal(syscall.SIGCONT)
	s.peerHeard(1)
	time.Sleep(100 * time.Millisecond)
	s.untouched("message receive", can)
}

// A flush that does not come back leaves the endpoint alone. Over shared memory there is
// nobody to wait for.
func cancelFlush(s *scene) {
	s.victim.signal(syscall.SIGSTOP)
	if s.transport.tls != "default" {
		if err := s.ep.Send(s.ctx, Bytes(make([]byte, 100)), 1100); err != nil {
			s.t.Fatal(err)
		}
		s.canceled("flush", nil, s.ep.Flush)
		s.canceled("worker flush", nil, s.w.Flush)
	}
	s.victim.signal(syscall.SIGCONT)
	s.usable(1190)
	s.noSlots()
}

// Wait only waits: the request goes on and keeps its memory.
func cancelRequest(s *scene) {
	buf := make([]byte, 5000)
	r := s.ep.StartRecv(Bytes(buf), 1200, FullMask)
	s.canceled("wait", nil, r.Wait)
	select {
	case <-r.Done():
		s.t.Fatalf("the request ended with the wait: %v", r.Err())
	default:
	}
	if r.Err() != nil || r.Info() != (RecvInfo{}) {
		s.t.Errorf("a request under way says %v, %+v", r.Err(), r.Info())
	}
	s.victim.ask("ok", "send 1200 5000")
	if err := r.Wait(s.ctx); err != nil || r.Info().Len != 5000 {
		s.t.Errorf("after the message: %v, %+v", err, r.Info())
	}
	r.Cancel() // too late, without effect

	r = s.ep.StartRecv(Bytes(buf), 1201, FullMask)
	r.Cancel()
	if err := r.Wait(s.ctx); !errors.Is(err, errCanceled) || !errors.Is(err, context.Canceled) {
		s.t.Errorf("a canceled request: %v", err)
	}
	can := newCanary(buf)
	s.victim.ask("ok", "send 1201 5000")
	if _, err := s.ep.Recv(s.ctx, Bytes(make([]byte, 5000)), 1201, FullMask); err != nil {
		s.t.Error(err)
	}
	s.untouched("canceled request", can)
	ended, cancel := context.WithCancel(s.ctx)
	cancel()
	if _, err := s.ep.Recv(ended, Bytes(buf), 1202, FullMask); !errors.Is(err, context.Canceled) {
		s.t.Errorf("receive with a context that had ended: %v", err)
	}
	if err := s.ep.Send(ended, Bytes(buf), 1202); !errors.Is(err, context.Canceled) {
		s.t.Errorf("send with a context that had ended: %v", err)
	}
	s.usable(1290)
	s.noSlots()
}
