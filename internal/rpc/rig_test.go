package rpc

import (
	"context"
	"io"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/testkit/sim"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	os.Exit(leak.Main(m))
}

// rig is a server on one host of a simulated network and a pool on another, in virtual
// time.
type rig struct {
	*testing.T
	net    *sim.Network
	server *Server
	pool   *Pool
	addr   string
	served chan error
}

// bubble runs a test with a rig and ends everything that it began.
func bubble(t *testing.T, cfg Config, pool PoolConfig, f func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		n := sim.New(sim.Config{Link: sim.Link{Latency: 100 * time.Microsecond}})
		l, err := n.Host("server").Listen(t.Context(), "sim://server:8786", comm.ListenConfig{})
		if err != nil {
			t.Fatal(err)
		}
		r := &rig{T: t, net: n, server: NewServer(cfg), addr: l.ContactAddr(), served: make(chan error, 1)}
		r.pool = NewPool(n.Host("client"), pool)
		go func() { r.served <- r.server.Serve(context.Background(), l) }()
		f(r)
		_ = r.pool.Close()
		_ = r.server.Close()
		synctest.Wait()
		time.Sleep(time.Minute)
		if t.Failed() {
			t.Log("\n" + n.Trace())
		}
	})
}

// dial connects from a host by hand.
func (r *rig) dial(host string) comm.Comm {
	r.Helper()
	c, err := r.net.Host(host).Dial(r.Context(), r.addr, comm.DialConfig{})
	if err != nil {
		r.Fatal(err)
	}
	return c
}

func raw(t testing.TB, v any) *wire.Message {
	t.Helper()
	b, err := msgpack.Append(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	return &wire.Message{Frames: []wire.Frame{wire.HeapFrame(b)}}
}

// say writes a value.
func (r *rig) say(c comm.Comm, v any) {
	r.Helper()
	if err := c.Write(r.Context(), raw(r, v)); err != nil {
		r.Fatal(err)
	}
}

// hear reads a value.
func (r *rig) hear(c comm.Comm) any {
	r.Helper()
	m, err := c.Read(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	defer m.Release()
	v, err := wire.Decode(m, wire.DecodeOptions{})
	if err != nil {
		r.Fatal(err)
	}
	return wire.Clone(v)
}

type obj = map[string]any
