package interop

import (
	"context"
	"encoding/hex"
	"errors"
	"testing"
	"time"

	"go.millstream.dev/mem"
	"go.millstream.dev/tests/interop/pypeer"
	"go.millstream.dev/ucx"
)

func TestActiveMessages(t *testing.T) {
	bothWays(t, func(l *link) {
		for i, n := range sizes {
			send := l.post("am_send", l.command(pypeer.Command{"data": pypeer.Data(n, i)}))
			m, err := l.ep.RecvAM(l.ctx)
			if err != nil {
				l.Fatalf("%d bytes to us: %v", n, err)
			}
			if m.Len != n || m.Kind != mem.Host || len(m.User) != 0 || m.From != l.ep.Endpoint() {
				l.Errorf("%d bytes to us: %+v", n, m)
			}
			if n > 1<<20 && !m.Rendezvous() {
				l.Errorf("%d bytes came eagerly", n)
			}
			b, err := m.Buffer(l.ctx, ucx.Allocators{})
			if err != nil {
				l.Fatal(err)
			}
			if err := check(b.Bytes(), n, i); err != nil {
				l.Error(err)
			}
			l.wait(send)

			recv := l.post("am_recv", l.command(nil))
			// UCXX's Python interface shows no user header; it must not mind one.
			opts := ucx.UCXXOptions{User: []byte("header")[:i%7]}
			if err := l.ep.SendAM(l.ctx, ucx.Bytes(pypeer.NewPattern(n, i+1)), opts); err != nil {
				l.Fatalf("%d bytes to the peer: %v", n, err)
			}
			if err := checkAnswer(l.wait(recv), n, i+1); err != nil {
				l.Error(err)
			}
		}
	})
}

// Messages of several connections are queued for each by itself, on both sides.
func TestActiveMessageQueues(t *testing.T) {
	r := newRig(t, pypeer.Async)
	links := []*link{r.client(), r.server(), r.client()}
	for round := range 5 {
		for k, l := range links {
			l.do("am_send", l.command(pypeer.Command{"data": pypeer.Data(100+k, round)}))
			if err := l.ep.SendAM(l.ctx, ucx.Bytes(pypeer.NewPattern(200+k, round)), ucx.UCXXOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for k := len(links) - 1; k >= 0; k-- {
		l := links[k]
		for round := range 5 {
			m, err := l.ep.RecvAM(l.ctx)
			if err != nil {
				t.Fatal(err)
			}
			b, err := m.Bytes(l.ctx, 1000)
			if err != nil {
				t.Fatal(err)
			}
			if err := check(b, 100+k, round); err != nil {
				t.Errorf("connection %d, message %d: %v", k, round, err)
			}
			if err := checkAnswer(l.do("am_recv", l.command(nil)), 200+k, round); err != nil {
				t.Errorf("connection %d, message %d: %v", k, round, err)
			}
		}
	}
}

// Endpoints by worker address: no IP, no listener, no handshake.
func TestWorkerAddress(t *testing.T) {
	r := newRig(t, pypeer.Async)
	var addr ucx.WorkerAddress
	raw, err := hex.DecodeString(r.do("address", nil).Address)
	if err != nil {
		t.Fatal(err)
	}
	addr = ucx.WorkerAddress(raw)
	ep, err := r.w.Connect(addr, nil)
	if err != nil {
		t.Fatal(err)
	}
	e, err := ucx.NewUCXXEndpoint(ep)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range sizes {
		recv := r.post("worker_recv", pypeer.Command{"size": n, "tag": 99})
		if err := e.Send(r.ctx, ucx.Bytes(pypeer.NewPattern(n, 1)), ucx.ForceTag(99)); err != nil {
			t.Fatal(err)
		}
		if err := checkAnswer(r.wait(recv), n, 1); err != nil {
			t.Error(err)
		}
	}
	mine, err := r.w.Address()
	if err != nil {
		t.Fatal(err)
	}
	back := r.do("connect_address", pypeer.Command{"address": hex.EncodeToString(mine)}).EP
	for _, n := range sizes {
		send := r.post("send", pypeer.Command{"ep": back, "data": pypeer.Data(n, 2), "tag": 77, "force_tag": true})
		buf := make([]byte, n)
		if _, err := r.w.Recv(r.ctx, ucx.Bytes(buf), 77, ucx.FullMask); err != nil {
			t.Fatal(err)
		}
		if err := check(buf, n, 2); err != nil {
			t.Error(err)
		}
		r.wait(send)
	}
}

// UCXX's core interface: raw tags and masks, streams, active messages.
func TestCore(t *testing.T) {
	r := newRig(t, pypeer.Core)
	port := r.do("listen", nil).Port
	ep, err := r.w.DialSocket(r.ctx, "127.0.0.1:"+itoa(port), nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := r.peer.Event(r.ctx, "accepted")
	if err != nil {
		t.Fatal(err)
	}
	their := a.EP
	for _, n := range sizes[1:] {
		send := r.post("stream_send", pypeer.Command{"ep": their, "data": pypeer.Data(n, 1)})
		buf := make([]byte, n)
		if m, err := ep.RecvStream(r.ctx, ucx.Bytes(buf), true); err != nil || m != n {
			t.Fatalf("stream of %d bytes: %d, %v", n, m, err)
		}
		if err := check(buf, n, 1); err != nil {
			t.Error(err)
		}
		r.wait(send)
		recv := r.post("stream_recv", pypeer.Command{"ep": their, "size": n})
		if err := ep.SendStream(r.ctx, ucx.Bytes(pypeer.NewPattern(n, 2))); err != nil {
			t.Fatal(err)
		}
		if err := checkAnswer(r.wait(recv), n, 2); err != nil {
			t.Error(err)
		}
	}
	for _, n := range sizes {
		recv := r.post("tag_recv", pypeer.Command{"tag": 0x10, "mask": 0xf0, "size": n})
		if err := ep.SendSync(r.ctx, ucx.Bytes(pypeer.NewPattern(n, 3)), 0x1f); err != nil {
			t.Fatal(err)
		}
		if err := checkAnswer(r.wait(recv), n, 3); err != nil {
			t.Error(err)
		}
		send := r.post("tag_send", pypeer.Command{"ep": their, "tag": 0xabc, "data": pypeer.Data(n, 4)})
		b, info, err := r.w.RecvAlloc(r.ctx, 0xa00, 0xf00, 8<<20)
		if err != nil || info.Tag != 0xabc {
			t.Fatalf("%d bytes of unknown length: %+v, %v", n, info, err)
		}
		if err := check(b, n, 4); err != nil {
			t.Error(err)
		}
		r.wait(send)
	}
	// The handshake, spelt out.
	tag := async(func() error {
		e, err := ucx.NewUCXXEndpoint(ep)
		if err != nil {
			return err
		}
		m, err := e.RecvAM(r.ctx)
		if err != nil {
			return err
		}
		b, err := m.Bytes(r.ctx, 1<<20)
		if err != nil {
			return err
		}
		return e.SendAM(r.ctx, ucx.Bytes(b), ucx.UCXXOptions{})
	})
	time.Sleep(50 * time.Millisecond) // UCX drops active messages that nobody has asked for yet
	back := r.post("am_recv", pypeer.Command{"ep": their})
	r.do("am_send", pypeer.Command{"ep": their, "data": pypeer.Data(70_000, 5)})
	if err := <-tag; err != nil {
		t.Fatal(err)
	}
	if err := checkAnswer(r.wait(back), 70_000, 5); err != nil {
		t.Error(err)
	}
}

// A peer that does not take part in the handshake is refused in time.
func TestHandshakeRefused(t *testing.T) {
	r := newRig(t, pypeer.Core)
	port := r.do("listen", nil).Port
	short, cancel := context.WithTimeout(r.ctx, time.Second)
	defer cancel()
	if _, err := r.w.DialUCXX(short, "127.0.0.1:"+itoa(port)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a listener that says nothing: %v", err)
	}
	a, err := r.peer.Event(r.ctx, "accepted")
	if err != nil {
		t.Fatal(err)
	}
	dialed := async(func() error { _, err := r.w.DialUCXX(r.ctx, "127.0.0.1:"+itoa(port)); return err })
	if a, err = r.peer.Event(r.ctx, "accepted"); err != nil {
		t.Fatal(err)
	}
	r.do("stream_send", pypeer.Command{"ep": a.EP, "data": pypeer.Data(16, 9)})
	if err := <-dialed; err == nil {
		t.Error("a wrong peer info was accepted")
	}
}
