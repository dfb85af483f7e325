package peermem

import (
	"bytes"
	"context"
	"errors"
	"os"
	"sync/atomic"
	"syscall"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// peerComm is a comm of which only the peer is known.
type peerComm struct {
	comm.Comm
	address string
	info    comm.Info
}

func (c peerComm) PeerAddr() string { return c.address }
func (c peerComm) Info() comm.Info  { return c.info }

var millstreamPeer = peerComm{address: "tls://127.0.0.1:1", info: comm.Info{Millstream: &comm.PeerInfo{}}}

func newRequest(t *testing.T) *Request {
	t.Helper()
	q := new(Peers).Request("p", millstreamPeer)
	if q == nil {
		t.Fatal("got no request")
	}
	return q
}

// checkFrames compares a resolved reply with what the owner has.
func checkFrames(t *testing.T, m *wire.Message) {
	t.Helper()
	for k, n := range sizes {
		got := m.Frames[2+2*k].Bytes()
		if len(got) != n {
			t.Fatalf("frame %d: got %v bytes, want %d", k, len(got), n)
		}
		for i := range got {
			if got[i] != pattern(k, i) {
				t.Fatalf("frame %d, byte %d: got %d, want %d", k, i, got[i], pattern(k, i))
			}
		}
	}
}

// stepContext calls a function at the n-th time that its error is requested.
type stepContext struct {
	context.Context
	left atomic.Int64
	at   func()
}

func (c *stepContext) Err() error {
	if c.left.Add(-1) == 0 {
		c.at()
	}
	return c.Context.Err()
}

func TestRead(t *testing.T) {
	o := startOwner(t)
	for range 3 {
		q := newRequest(t)
		m := o.lend(t, q)
		n, err := q.Resolve(t.Context(), m)
		if want := int64(sizes[0] + sizes[2]); err != nil || n.Host != want {
			t.Fatalf("got %v bytes, %v, want %d", n, err, want)
		}
		checkFrames(t, m)
		if answer := o.ask(t, "return"); answer != "returned" {
			t.Fatalf("got %q, want returned", answer)
		}
	}
}

// A stopped owner does not delay a reader: the memory is there.
func TestStoppedOwner(t *testing.T) {
	o, q := startOwner(t), newRequest(t)
	m := o.lend(t, q)
	if err := o.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Resolve(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	checkFrames(t, m)
}

// An owner that dies, or ends the loan, before or in the middle of a read, makes the read fail. The memory of a loan
// that has ended has other content, which is not returned.
func TestLoanEnds(t *testing.T) {
	for name, end := range map[string]func(*testing.T, *owner){
		"killed": func(_ *testing.T, o *owner) {
			_ = o.cmd.Process.Kill()
			_, _ = o.cmd.Process.Wait()
		},
		"returned": func(t *testing.T, o *owner) { o.ask(t, "return") },
	} {
		t.Run(name, func(t *testing.T) {
			o, q := startOwner(t), newRequest(t)
			m := o.lend(t, q)
			end(t, o)
			if n, err := q.Resolve(t.Context(), m); !errors.Is(err, ErrRead) || n.Total() != 0 {
				t.Errorf("before the read: got %v bytes, %v, want %v", n, err, ErrRead)
			}
			o, q = startOwner(t), newRequest(t)
			m = o.lend(t, q)
			ctx := &stepContext{Context: t.Context(), at: func() { end(t, o) }}
			ctx.left.Store(2) // after the first chunk
			if n, err := q.Resolve(ctx, m); !errors.Is(err, ErrRead) || n.Total() != 0 {
				t.Errorf("in the middle: got %v bytes, %v, want %v", n, err, ErrRead)
			}
		})
	}
}

// A context that ends in the middle ends the read with its cause. Another read of the same loan is complete.
func TestReadCanceled(t *testing.T) {
	o, q := startOwner(t), newRequest(t)
	m := o.lend(t, q)
	body := bytes.Clone(m.Body())
	stop := errors.New("stop")
	inner, cancel := context.WithCancelCause(t.Context())
	ctx := &stepContext{Context: inner, at: func() { cancel(stop) }}
	ctx.left.Store(2)
	if _, err := q.Resolve(ctx, m); !errors.Is(err, stop) || errors.Is(err, ErrRead) {
		t.Errorf("got %v, want %v", err, stop)
	}
	again := reply()
	for i, f := range again.Frames {
		if f.Len() >= leastFrame {
			again.Frames[i] = wire.HeapFrame(nil)
		}
	}
	again.Frames[0] = wire.HeapFrame(body)
	if _, err := q.Resolve(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	checkFrames(t, again)
}

// Replies that are wrong, stale or that refer to another process are refused.
func TestRefused(t *testing.T) {
	o, q := startOwner(t), newRequest(t)
	lent := o.lend(t, q)
	good, ok, err := readLoan(lent.Body(), len(lent.Frames)-1)
	if err != nil || !ok {
		t.Fatalf("got %v, %v, want a loan", ok, err)
	}
	if _, _, err := readLoan(lent.Body(), len(good.parts)-1); !errors.Is(err, errFields) {
		t.Errorf("loan of more frames than the message has: got %v, want %v", err, errFields)
	}
	for name, change := range map[string]func(*offer){
		"other process":   func(l *offer) { l.pid = os.Getppid() },
		"this process":    func(l *offer) { l.pid, l.token = os.Getpid(), addressOf(q.token[:]) },
		"no process":      func(l *offer) { l.pid = -1 },
		"other address":   func(l *offer) { l.token += 8 },
		"no address":      func(l *offer) { l.token = 0 },
		"no memory":       func(l *offer) { l.parts[0].addr = 0 },
		"no frame":        func(l *offer) { l.parts[0].frame = 100 },
		"negative frame":  func(l *offer) { l.parts[0].frame = -1 },
		"body":            func(l *offer) { l.parts[0].frame = 0 },
		"frame that came": func(l *offer) { l.parts[0].frame = 1 },
		"frame twice":     func(l *offer) { l.parts[1].frame = l.parts[0].frame },
		"empty":           func(l *offer) { l.parts[0].size = 0 },
		"negative size":   func(l *offer) { l.parts[0].size = -1 },
		"too long":        func(l *offer) { l.parts[0].size = 1 << 60 },
	} {
		t.Run(name, func(t *testing.T) {
			l := good
			l.parts = append([]part(nil), good.parts...)
			change(&l)
			var parts []byte
			for _, p := range l.parts {
				parts = appendPart(parts, p)
			}
			m := reply()
			for i, f := range m.Frames {
				if f.Len() >= leastFrame {
					m.Frames[i] = wire.HeapFrame(nil)
				}
			}
			m.Frames[0] = wire.HeapFrame(appendLoan(m.Body(), l, parts, len(l.parts), nil, 0))
			if n, err := q.Resolve(t.Context(), m); !errors.Is(err, ErrRead) || n.Total() != 0 {
				t.Errorf("got %v bytes, %v, want %v", n, err, ErrRead)
			}
		})
	}
	t.Run("other token", func(t *testing.T) {
		m := o.lend(t, q)
		if _, err := newRequest(t).Resolve(t.Context(), m); !errors.Is(err, ErrRead) {
			t.Errorf("got %v, want %v", err, ErrRead)
		}
	})
}

// Only peers on this machine borrow, and only large frames of the Go heap are lent.
func TestLend(t *testing.T) {
	request := func(from string, token []byte) []byte {
		b := msgpack.AppendInt(msgpack.AppendString(msgpack.AppendArrayHeader(nil, 3), from), 1)
		return msgpack.AppendBytes(b, token)
	}
	token := make([]byte, tokenSize)
	inside := msgpack.AppendArrayHeader(nil, 3)
	inside = msgpack.AppendInt(msgpack.AppendString(inside, here()), int64(os.Getpid()))
	for name, field := range map[string][]byte{"other machine": request("elsewhere", token),
		"unknown machine": request("", token), "this process": msgpack.AppendBytes(inside, token)} {
		m := reply()
		if l, err := Lend(t.Context(), nil, field, nil, m); l != nil || err != nil || m.Frames[2].Len() != sizes[0] {
			t.Errorf("%s: got %v, %v and a frame of %d bytes, want no loan", name, l, err, m.Frames[2].Len())
		}
	}
	for name, field := range map[string][]byte{"short token": request(here(), token[1:]), "nil": {0xc0},
		"number": {1}, "nothing": nil} {
		if l, err := Lend(t.Context(), nil, field, nil, reply()); l != nil || err == nil {
			t.Errorf("%s: got %v, %v, want an error", name, l, err)
		}
	}
	m := reply()
	m.Frames = m.Frames[:5] // with a frame that is too short to be lent
	m.Frames[2] = wire.BufferFrame(mem.FromBytes(make([]byte, leastFrame)))
	if l, err := Lend(t.Context(), nil, request(here(), token), nil, m); l != nil || err != nil {
		t.Errorf("frames of a pool: got %v, %v, want no loan", l, err)
	}
	var none *Loan
	none.Return()
	if n := none.Bytes(); n.Total() != 0 {
		t.Errorf("no loan: got %v bytes, want 0", n)
	}
}

func TestPeers(t *testing.T) {
	var p Peers
	python, inside := millstreamPeer, millstreamPeer
	python.info = comm.Info{}
	inside.address = "inproc://127.0.0.1/1/1"
	if p.Request("p", python) != nil || p.Request("p", inside) != nil {
		t.Error("got a request to a Python peer or within the process, want none")
	}
	p.Deny("p", ErrRead)
	if p.Request("p", millstreamPeer) != nil || p.Request("q", millstreamPeer) == nil {
		t.Error("after Deny of p: want a request to q only")
	}
	p.Forget("p")
	a, b := p.Request("p", millstreamPeer), p.Request("p", millstreamPeer)
	if a == nil || b == nil || a.token == b.token {
		t.Errorf("after Forget: got %v and %v, want requests with different tokens", a, b)
	}
	var none *Request
	if got := none.Append(nil); len(got) != 0 || none.Fields() != 0 {
		t.Errorf("nil request: got %x, %d fields, want nothing", got, none.Fields())
	}
	if n, err := none.Resolve(t.Context(), reply()); n.Total() != 0 || err != nil {
		t.Errorf("nil request: got %v bytes, %v, want 0", n, err)
	}
	if n, err := a.Resolve(t.Context(), reply()); n.Total() != 0 || err != nil {
		t.Errorf("reply without a loan: got %v bytes, %v, want 0", n, err)
	}
}

// Any body is either no loan, refused or, never with a token of this test, accepted.
func FuzzResolve(f *testing.F) {
	l := offer{pid: 1, token: 2}
	body := reply().Body()
	f.Add(appendLoan(body, l, appendPart(nil, part{2, 4096, 10}), 1, nil, 0))
	f.Add(appendLoan(body, l, nil, 0, appendDevicePart(nil, devicePart{1, []byte("handle"), 5, 10, 20}), 1))
	f.Add(body)
	f.Add([]byte{0x81})
	f.Add([]byte("\x81" + string(msgpack.AppendString(nil, Field)) + "\x93\x01\x01\xdd\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, body []byte) {
		m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame(body), wire.HeapFrame(nil), wire.HeapFrame(nil)}}
		q := &Request{token: [tokenSize]byte{1, 2, 3}}
		if n, err := q.Resolve(t.Context(), m); n.Total() != 0 || err != nil && !errors.Is(err, ErrRead) {
			t.Errorf("got %v bytes, %v", n, err)
		}
		if from, err := readRequest(body); err == nil && len(from.machine) > len(body) {
			t.Errorf("got a machine of %d bytes from %d", len(from.machine), len(body))
		}
	})
}
