package pypeer

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// pair is two peers of the same kind that talk to each other: it shows that the
// peers work before anything of ours is tested against them.
type pair struct {
	*testing.T
	ctx  context.Context
	a, b *Peer
}

func newPair(t *testing.T, program string, args ...string) *pair {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	p := &pair{T: t, ctx: ctx}
	for _, side := range []**Peer{&p.a, &p.b} {
		log := new(strings.Builder)
		peer, err := Start(ctx, log, nil, program, args...)
		if err != nil {
			t.Fatal(err)
		}
		*side = peer
		t.Cleanup(func() {
			peer.Kill()
			if t.Failed() {
				t.Logf("log of a peer:\n%s", log)
			}
		})
	}
	return p
}

func (p *pair) do(peer *Peer, op string, c Command) Answer {
	p.Helper()
	a, err := peer.Do(p.ctx, op, c)
	if err != nil {
		p.Fatal(err)
	}
	return a
}

func (p *pair) post(peer *Peer, op string, c Command) *Pending {
	p.Helper()
	w, err := peer.Post(op, c)
	if err != nil {
		p.Fatal(err)
	}
	return w
}

func (p *pair) wait(w *Pending) Answer {
	p.Helper()
	a, err := w.Wait(p.ctx)
	if err != nil {
		p.Fatal(err)
	}
	return a
}

// move posts a receive, sends, and checks what came.
func (p *pair) move(from, to *Peer, send, recv string, sendArgs, recvArgs Command, size, seed int) {
	p.Helper()
	sendArgs["data"] = Data(size, seed)
	r := p.post(to, recv, recvArgs)
	p.do(from, send, sendArgs)
	if a := p.wait(r); a.Size != int64(size) || a.SHA256 != Sum(NewPattern(size, seed)) {
		p.Errorf("%s of %d bytes: got %d bytes, or other ones", send, size, a.Size)
	}
}

func (p *pair) moveFrames(from, to *Peer, send, recv string, sendArgs, recvArgs Command, sizes []int) {
	p.Helper()
	var frames []map[string]int
	for i, n := range sizes {
		frames = append(frames, Data(n, i))
	}
	sendArgs["frames"] = frames
	r := p.post(to, recv, recvArgs)
	p.do(from, send, sendArgs)
	got := p.wait(r).Frames
	if len(got) != len(sizes) {
		p.Fatalf("sent %d frames, got %d", len(sizes), len(got))
	}
	for i, n := range sizes {
		if got[i].Size != int64(n) || got[i].SHA256 != Sum(NewPattern(n, i)) {
			p.Errorf("frame %d of %d: got %d bytes, want %d, or other ones", i, len(sizes), got[i].Size, n)
		}
	}
}

func frameSizes(n int) []int {
	sizes := make([]int, n)
	for i := range sizes {
		if i%5 != 0 {
			sizes[i] = i * 37 % 5000
		}
	}
	sizes[n-1] = 100_000 // above the rendezvous threshold
	return sizes
}

func TestAsyncPeers(t *testing.T) {
	for _, args := range [][]string{
		{"--progress-mode", "polling"}, {"--progress-mode", "blocking"},
		{"--progress-mode", "thread"}, {"--progress-mode", "thread", "--python-future"},
	} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			p := newPair(t, Async, args...)
			if a := p.do(p.a, "info", nil); !strings.HasPrefix(a.UCXX, "0.52") || a.Progress != args[1] {
				t.Errorf("info: %+v", a)
			}
			port := p.do(p.a, "listen", nil).Port
			client := p.do(p.b, "connect", Command{"host": "127.0.0.1", "port": port})
			server, err := p.a.Event(p.ctx, "accepted")
			if err != nil {
				t.Fatal(err)
			}
			if client.SendTag == 0 || client.SendTag != server.RecvTag || client.RecvTag != server.SendTag {
				t.Errorf("tags of client %+v, of server %+v", client, server)
			}
			s, c := server.EP, client.EP
			for _, size := range []int{0, 1, 8, 8191, 8192, 8193, 1 << 20} {
				p.move(p.b, p.a, "send", "recv", Command{"ep": c}, Command{"ep": s, "size": size}, size, 1)
				p.move(p.a, p.b, "send", "recv", Command{"ep": s, "tag": 7, "kind": "bytearray"},
					Command{"ep": c, "tag": 7, "size": size, "kind": "bytearray"}, size, 2)
				p.move(p.b, p.a, "send", "recv", Command{"ep": c, "tag": 1 << 60, "force_tag": true},
					Command{"ep": s, "tag": 1 << 60, "force_tag": true, "size": size}, size, 3)
				p.move(p.a, p.b, "am_send", "am_recv", Command{"ep": s}, Command{"ep": c}, size, 4)
			}
			p.move(p.b, p.a, "send_obj", "recv_obj", Command{"ep": c}, Command{"ep": s}, 12345, 5)
			for _, n := range []int{1, 2, 99, 100, 101, 250} {
				p.moveFrames(p.b, p.a, "send_multi", "recv_multi", Command{"ep": c},
					Command{"ep": s, "careful": n > 100}, frameSizes(n))
			}
			address := p.do(p.a, "address", nil).Address
			direct := p.do(p.b, "connect_address", Command{"address": address}).EP
			p.move(p.b, p.a, "send", "worker_recv", Command{"ep": direct, "tag": 99, "force_tag": true},
				Command{"tag": 99, "size": 50}, 50, 6)

			closed := p.post(p.a, "wait_closed", Command{"ep": s})
			p.do(p.b, "close", Command{"ep": c})
			if !p.wait(closed).Closed {
				t.Error("the server did not see the close")
			}
			var failed *Failed
			if _, err := p.a.Do(p.ctx, "send", Command{"ep": s, "data": Data(1, 0)}); !errors.As(err, &failed) ||
				failed.Exception != "UCXXConnectionResetError" {
				t.Errorf("send after the peer's close: %v", err)
			}
		})
	}
}

func TestCorePeers(t *testing.T) {
	p := newPair(t, Core)
	toB := p.do(p.a, "connect_address", Command{"address": p.do(p.b, "address", nil).Address}).EP
	toA := p.do(p.b, "connect_address", Command{"address": p.do(p.a, "address", nil).Address}).EP
	for _, size := range []int{0, 1, 8, 5000, 1 << 20} {
		p.move(p.a, p.b, "tag_send", "tag_recv", Command{"ep": toB, "tag": uint64(0xff00000000000001)},
			Command{"tag": uint64(0xff00000000000001), "size": size}, size, 1)
		p.move(p.b, p.a, "tag_send", "tag_recv", Command{"ep": toA, "tag": 0x1f},
			Command{"ep": toB, "tag": 0x10, "mask": 0xf0, "size": size}, size, 2)
		p.move(p.b, p.a, "tag_send", "tag_recv", Command{"ep": toA, "tag": 777},
			Command{"tag": 0, "mask": 0, "size": size}, size, 3)
		p.move(p.a, p.b, "am_send", "am_recv", Command{"ep": toB}, Command{"ep": toA}, size, 4)
	}
	for _, n := range []int{1, 100, 101} {
		p.moveFrames(p.a, p.b, "tag_send_multi", "tag_recv_multi", Command{"ep": toB, "tag": 4},
			Command{"ep": toA, "tag": 4}, frameSizes(n))
	}

	client := p.do(p.b, "connect", Command{"host": "127.0.0.1", "port": p.do(p.a, "listen", nil).Port}).EP
	info := p.post(p.b, "peer_info", Command{"ep": client, "tag": 22, "listener": false})
	accepted, err := p.a.Event(p.ctx, "accepted")
	if err != nil {
		t.Fatal(err)
	}
	server := accepted.EP
	if got := p.do(p.a, "peer_info", Command{"ep": server, "tag": 11, "listener": true}).Tag; got != 22 {
		t.Errorf("the listener was told tag %d", got)
	}
	if got := p.wait(info).Tag; got != 11 {
		t.Errorf("the client was told tag %d", got)
	}
	for _, size := range []int{1, 8, 70_000, 1 << 20} {
		p.move(p.b, p.a, "stream_send", "stream_recv", Command{"ep": client}, Command{"ep": server, "size": size}, size,
			5)
	}
	p.do(p.b, "tag_send", Command{"ep": client, "tag": 5, "data": Data(9, 6)})
	var found Answer
	for !found.Matched && p.ctx.Err() == nil {
		found = p.do(p.a, "tag_probe", Command{"tag": 5, "remove": true})
	}
	if found.Length != 9 || found.From != 5 {
		t.Errorf("probe: %+v", found)
	}
	if got := p.do(p.a, "tag_recv_probed", nil); got.SHA256 != Sum(NewPattern(9, 6)) {
		t.Errorf("probed message: %+v", got)
	}
	p.do(p.b, "close", Command{"ep": client})
	if closed, err := p.a.Event(p.ctx, "closed"); err != nil || closed.EP != server {
		t.Errorf("closed: %+v, %v", closed, err)
	}
	for _, peer := range []*Peer{p.a, p.b} {
		if err := peer.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestPeerErrors(t *testing.T) {
	p := newPair(t, Core)
	var failed *Failed
	if _, err := p.a.Do(p.ctx, "nosuch", nil); !errors.As(err, &failed) || failed.Op != "nosuch" ||
		failed.Exception != "AttributeError" {
		t.Errorf("unknown operation: %v", err)
	}
	if _, err := p.a.Do(p.ctx, "alive", Command{"ep": "ep7"}); !errors.As(err, &failed) ||
		failed.Exception != "KeyError" {
		t.Errorf("unknown endpoint: %v", err)
	}
	never := p.post(p.a, "tag_recv", Command{"tag": 1, "size": 1})
	short, cancel := context.WithTimeout(p.ctx, 50*time.Millisecond)
	defer cancel()
	if _, err := never.Wait(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("wait with a deadline: %v", err)
	}
	p.a.Kill()
	if _, err := never.Wait(p.ctx); err == nil || !strings.Contains(err.Error(), "ended") {
		t.Errorf("wait on a killed peer: %v", err)
	}
	if _, err := p.a.Event(p.ctx, "closed"); err == nil || !strings.Contains(err.Error(), "ended") {
		t.Errorf("event of a killed peer: %v", err)
	}
	if _, err := p.a.Do(p.ctx, "info", nil); err == nil {
		t.Error("a killed peer answered")
	}

	t.Setenv("MILLSTREAM_PEER_PYTHON", "/nowhere/python")
	if _, err := Start(p.ctx, nil, nil, Core); err == nil || !strings.Contains(err.Error(), "scripts/setup peers") {
		t.Errorf("without Python: %v", err)
	}
}
