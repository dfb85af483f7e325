package ucx

import (
	"errors"
	"io"
	"net"
	"syscall"
	"testing"
	"time"
)

// deathBound is when a death must have been reported; UCX's own keepalive takes 20 s. What
// was measured is logged (on one host: milliseconds).
const deathBound = 2 * time.Second

const bigMessage = 64 << 20

// died kills the victim and checks that everything pending ended with an error soon.
// What mayFinish can also have succeeded in the last moment.
func (s *scene) died(p *pendingOps, mayFinish bool) {
	s.t.Helper()
	seen := make(chan time.Time, 1)
	go func() {
		<-s.ep.Done()
		seen <- time.Now()
	}()
	killed := time.Now()
	s.victim.kill()
	var noticed time.Duration
	select {
	case at := <-seen:
		noticed = at.Sub(killed)
	case <-time.After(10 * time.Second):
		s.t.Fatal("the endpoint does not notice the death of its peer")
	}
	p.wait(s.t, 10*time.Second)
	if last := p.last.Sub(killed); last > deathBound || noticed > deathBound {
		s.t.Errorf("noticed after %v, last operation ended after %v; bound %v", noticed, last, deathBound)
	} else {
		s.t.Logf("noticed after %v, last of %d operations ended after %v", noticed, len(p.names), last)
	}
	for _, name := range p.names {
		err := p.errs[name]
		var oe *OpError
		switch {
		case err == nil && mayFinish:
		case err == nil:
			s.t.Errorf("%s succeeded", name)
		case !errors.As(err, &oe) || oe.Peer != s.ep.Peer():
			s.t.Errorf("%s: %v does not name the peer", name, err)
		case !errors.Is(err, net.ErrClosed) && !errors.Is(err, errEndpointTimeout) && !errors.Is(err, errIO):
			s.t.Errorf("%s: %v", name, err)
		}
	}
	if err := s.ep.Err(); err == nil || errors.Is(err, io.EOF) {
		s.t.Errorf("the endpoint's error is %v", err)
	}
	s.unaffected("after the death")
	if err := s.ep.Send(s.ctx, Bytes([]byte("x")), 1); !errors.Is(err, net.ErrClosed) &&
		!errors.Is(err, errEndpointTimeout) {
		s.t.Errorf("a send to the dead: %v", err)
	}
	if err := s.ep.Close(); err != nil {
		s.t.Errorf("Close after the death: %v", err)
	}
	s.noSlots()
}

// TestDeath kills a peer in each state that operations with it can be in.
func TestDeath(t *testing.T) {
	eachScene(t, map[string]func(*scene){
		"unmatched": deathUnmatched, "mid send": deathMidSend, "mid receive": deathMidReceive,
		"mid message": deathMidMessage, "after arrival": deathAfterArrival,
	})
}

// deathUnmatched kills a peer that had matched nothing yet.
func deathUnmatched(s *scene) {
	var p pendingOps
	ctx := s.ctx
	for i, n := range []int{8, 2000, bigMessage} {
		v := Bytes(make([]byte, n))
		name := []string{"small", "medium", "big"}[i]
		p.request(ctx, name+" receive", s.ep.StartRecv(v, 100, FullMask))
		p.add(name+" blocking receive", func() error {
			_, err := s.ep.Recv(ctx, Bytes(make([]byte, n)), 101,
				FullMask)
			return err
		})
		p.request(ctx, name+" sync send", s.ep.StartSendSync(Bytes(make([]byte, n)), 102))
		p.add(name+" blocking sync send", func() error { return s.ep.SendSync(ctx, Bytes(make([]byte, n)), 103) })
	}
	p.request(ctx, "big send", s.ep.StartSend(Bytes(make([]byte, bigMessage)), 104))
	p.add("big blocking send", func() error { return s.ep.Send(ctx, Bytes(make([]byte, bigMessage)), 105) })
	p.request(ctx, "message", s.ep.StartSendAM(1, []byte("h"), AMOptions{Rendezvous: true},
		Bytes(make([]byte, bigMessage))))
	p.add("blocking message", func() error {
		return s.ep.SendAM(ctx, 1, []byte("h"), AMOptions{Rendezvous: true}, Bytes(make([]byte, bigMessage)))
	})
	p.request(ctx, "stream receive", s.ep.StartRecvStream(Bytes(make([]byte, 5000)), true))
	time.Sleep(50 * time.Millisecond)
	s.died(&p, false)
}

// deathMidSend kills a peer that was receiving 64 MiB.
func deathMidSend(s *scene) {
	t := s.t
	var p pendingOps
	// Several, so that one is under way whenever the stop comes.
	for i := range 6 {
		s.victim.ask("ok", "recv %d %d", 200+i, bigMessage)
	}
	big := make([]byte, bigMessage)
	var reqs []*Request
	for i := range 6 {
		reqs = append(reqs, s.ep.StartSend(Bytes(big), uint64(200+i)))
	}
	s.stopMidway(reqs)
	for i, r := range reqs {
		select {
		case <-r.Done():
		default:
			p.request(s.ctx, "send "+string(rune('0'+i)), r)
		}
	}
	if len(p.names) == 0 {
		t.Fatal("all sends were over before the peer could be stopped")
	}
	s.died(&p, false)
}

// deathMidReceive kills a peer that was sending 64 MiB.
func deathMidReceive(s *scene) {
	t := s.t
	var p pendingOps
	var reqs []*Request
	for i := range 6 {
		reqs = append(reqs, s.ep.StartRecv(Bytes(make([]byte, bigMessage)), uint64(300+i), FullMask))
	}
	for i := range 6 {
		s.victim.ask("ok", "send %d %d", 300+i, bigMessage)
	}
	// Over shared memory the receiver may read the sender's memory itself: a stopped
	// sender does not hold it up.
	reads := s.transport.tls == "default"
	if !reads {
		s.stopMidway(reqs)
	}
	for i, r := range reqs {
		select {
		case <-r.Done():
		default:
			p.request(s.ctx, "receive "+string(rune('0'+i)), r)
		}
	}
	if len(p.names) == 0 {
		t.Fatal("all receives were over before the peer could be stopped")
	}
	s.died(&p, reads)
}

// stopMidway stops the victim when the first transfer is over, or has had a moment.
func (s *scene) stopMidway(reqs []*Request) {
	s.t.Helper()
	select {
	case <-reqs[0].Done():
	case <-time.After(20 * time.Millisecond):
	}
	s.victim.signal(syscall.SIGSTOP)
	time.Sleep(20 * time.Millisecond)
}

// deathMidMessage kills the sender of an active message whose data is being received,
// and one whose data nobody has asked for yet.
func deathMidMessage(s *scene) {
	t := s.t
	var p pendingOps
	for range 2 {
		s.victim.ask("ok", "am %d", bigMessage)
	}
	first, err := s.w.RecvAM(s.ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.w.RecvAM(s.ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	if !first.Rendezvous() || first.Len != bigMessage || first.ReplyTo != s.ep {
		t.Fatalf("message: %d bytes, rendezvous %v, from %v", first.Len, first.Rendezvous(), first.ReplyTo)
	}
	s.victim.signal(syscall.SIGSTOP)
	buf := make([]byte, bigMessage)
	r := first.StartRecv(Bytes(buf))
	time.Sleep(100 * time.Millisecond)
	select {
	case <-r.Done(): // copied out of the sender's memory, which needs nobody's help: cma
		if err := r.Err(); err != nil {
			t.Error(err)
		}
	default:
		p.request(s.ctx, "message receive", r)
	}
	p.request(s.ctx, "receive", s.ep.StartRecv(Bytes(make([]byte, 8)), 100, FullMask))
	s.died(&p, false)
	// What was announced and never came is an error, not a wait.
	done := make(chan error, 1)
	go func() { done <- second.Recv(s.ctx, Bytes(buf)) }()
	select {
	case err := <-done:
		if err == nil {
			t.Error("data of a dead sender was received")
		}
	case <-time.After(10 * time.Second):
		t.Error("the receive of a dead sender's data hangs")
	}
	s.noSlots()
}

// What has arrived before the death can be received after it; what was announced only is
// an error.
func deathAfterArrival(s *scene) {
	t := s.t
	s.victim.ask("ok", "send 400 100")
	s.victim.ask("ok", "send 401 %d", bigMessage)
	m := &opRun{ctx: s.ctx, b: s.ep, tag: 401}
	if _, err := m.awaitMessage(); err != nil {
		t.Fatal(err)
	}
	var p pendingOps
	p.request(s.ctx, "receive", s.ep.StartRecv(Bytes(make([]byte, 8)), 499, FullMask))
	s.died(&p, false)
	if info, err := s.ep.Recv(s.ctx, Bytes(make([]byte, 100)), 400, FullMask); err != nil || info.Len != 100 {
		t.Errorf("message that had arrived: %+v, %v", info, err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := s.ep.Recv(s.ctx, Bytes(make([]byte, bigMessage)), 401, FullMask)
		done <- err
	}()
	select {
	case err := <-done:
		if err == nil {
			t.Error("data of a dead sender was received")
		}
	case <-time.After(10 * time.Second):
		t.Error("the receive of a dead sender's data hangs")
	}
	s.noSlots()
}
