package interop

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"go.millstream.dev/comm"
	_ "go.millstream.dev/internal/comm/tcp"
	"go.millstream.dev/tests/interop/pypeer"
	"go.millstream.dev/wire"
)

// commRig is one Python process with distributed.comm.
type commRig struct {
	*testing.T
	ctx  context.Context
	peer *pypeer.Peer
	tls  *commTLS // certificates for both sides, nil for tcp://
	host string   // to listen on, 127.0.0.1 if empty
}

// commTLS is what both sides need for tls://.
type commTLS struct {
	dial   comm.DialConfig
	listen comm.ListenConfig
	python map[string]string // arguments of Security
}

func newCommRig(t *testing.T, env ...string) *commRig {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	log := new(lockedBuffer)
	peer, err := pypeer.Start(ctx, log, env, "comm_peer.py")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		peer.Kill()
		if t.Failed() {
			t.Logf("log of the peer:\n%s", log)
		}
	})
	return &commRig{T: t, ctx: ctx, peer: peer}
}

func (r *commRig) sub(t *testing.T, tls *commTLS) *commRig {
	return &commRig{T: t, ctx: r.ctx, peer: r.peer, tls: tls}
}

func (r *commRig) do(op string, c pypeer.Command) pypeer.Answer {
	r.Helper()
	a, err := r.peer.Do(r.ctx, op, r.withTLS(c))
	if err != nil {
		r.Fatal(err)
	}
	return a
}

func (r *commRig) withTLS(c pypeer.Command) pypeer.Command {
	out := pypeer.Command{}
	for k, v := range c {
		out[k] = v
	}
	if r.tls != nil {
		out["tls"] = r.tls.python
	}
	return out
}

// address is what either side listens on.
func (r *commRig) address() string {
	scheme, host := "tcp", "127.0.0.1"
	if r.tls != nil {
		scheme = "tls"
	}
	if r.host != "" {
		host = r.host
	}
	return scheme + "://" + host + ":0"
}

func (r *commRig) configs() (comm.DialConfig, comm.ListenConfig) {
	if r.tls != nil {
		return r.tls.dial, r.tls.listen
	}
	return comm.DialConfig{}, comm.ListenConfig{}
}

// commLink is one comm: our end, and the name and peer address of Python's.
type commLink struct {
	*commRig
	c     comm.Comm
	name  string
	their string // our address as Python sees it, or its own local one
}

// client connects us to a Python listener.
func (r *commRig) client() *commLink {
	r.Helper()
	at := r.do("listen", pypeer.Command{"address": r.address()}).Address
	cfg, _ := r.configs()
	c, err := comm.Dial(r.ctx, at, cfg)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { c.Close() })
	a, err := r.peer.Event(r.ctx, "accepted")
	if err != nil {
		r.Fatal(err)
	}
	if a.Address != c.LocalAddr() || c.PeerAddr() != at {
		r.Errorf("Python sees us as %s and listens at %s; we say %s and %s", a.Address, at, c.LocalAddr(), c.PeerAddr())
	}
	return &commLink{commRig: r, c: c, name: a.EP, their: a.Address}
}

// server lets Python connect to us.
func (r *commRig) server() *commLink {
	r.Helper()
	_, cfg := r.configs()
	l, err := comm.Listen(r.ctx, r.address(), cfg)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { l.Close() })
	p, err := r.peer.Post("connect", r.withTLS(pypeer.Command{"address": l.ContactAddr()}))
	if err != nil {
		r.Fatal(err)
	}
	c, err := l.Accept(r.ctx)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { c.Close() })
	a, err := p.Wait(r.ctx)
	if err != nil {
		r.Fatal(err)
	}
	if a.Address != c.PeerAddr() || c.LocalAddr() != l.ContactAddr() {
		r.Errorf("Python is at %s and dialed %s; we say %s and %s", a.Address, l.ContactAddr(), c.PeerAddr(),
			c.LocalAddr())
	}
	return &commLink{commRig: r, c: c, name: a.EP, their: a.Address}
}

func (r *commRig) link(way string) *commLink {
	r.Helper()
	if way == "client" {
		return r.client()
	}
	return r.server()
}

// handshake is what Python says about it.
type handshake struct {
	Options struct {
		Compression *string `json:"compression"`
		Pickle      int     `json:"pickle-protocol"`
	} `json:"options"`
	Remote struct {
		Millstream map[string]any `json:"millstream"`
		Python     []int          `json:"python"`
	} `json:"remote"`
	SameHost bool  `json:"same_host"`
	Cipher   []any `json:"cipher"`
}

func (l *commLink) handshake() (h handshake) {
	l.Helper()
	text := l.do("info", pypeer.Command{"ep": l.name}).Message
	if err := json.Unmarshal([]byte(text), &h); err != nil {
		l.Fatalf("%v in %s", err, text)
	}
	return h
}

// echo sends count messages back as they come, without looking into them.
func (l *commLink) echo(count int) <-chan error {
	return async(func() error {
		for range count {
			m, err := l.c.Read(l.ctx)
			if err != nil {
				return err
			}
			if err := l.c.Write(l.ctx, m); err != nil {
				return err
			}
			m.Release()
		}
		return nil
	})
}

func body(text string) *wire.Message {
	return &wire.Message{Frames: []wire.Frame{wire.HeapFrame([]byte(text))}}
}
