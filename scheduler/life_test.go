package scheduler

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/wire"
)

// Schedulers that are started and closed repeatedly, with peers in every state, leave nothing.
func TestStartStop(t *testing.T) {
	leak.Check(t)
	for i := range 20 {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			s, err := Start(t.Context(), Config{Listen: []string{"tcp://127.0.0.1:0", "inproc://"},
				Dashboard: "127.0.0.1:0"})
			if err != nil {
				t.Fatal(err)
			}
			if len(s.Addresses()) != 2 || s.DashboardAddress() == "" || s.ID() == "" {
				t.Errorf("got addresses %v, dashboard %q, want two, one and an ID", s.Addresses(), s.DashboardAddress())
			}
			w := join(t, s, "a")
			c := connect(t, s, "client-1")
			c.submit([]node{{key: "x", spec: "hang"}})
			w.expectOp("compute-task")
			waiting := make(chan struct{})
			go func() { defer close(waiting); _, _ = c.try("event_wait", "name", "never") }()
			until(t, "a request waits", func() bool {
				ok, _ := loop.Ask(t.Context(), s.loop,
					func() (bool, error) { return s.prims.Counts().Events == 1, nil })
				return ok
			})
			for range 2 {
				if err := s.Close(); err != nil {
					t.Error(err)
				}
			}
			w.expectOp("close")
			c.waitClosed()
			<-waiting
			<-s.Done()
			if _, err := loop.Ask(t.Context(), s.loop, func() (int, error) { return 0, nil }); err == nil {
				t.Error("Ask after Close: got no error")
			}
			if err := s.Start(t.Context()); err == nil {
				t.Error("second Start: got no error")
			}
		})
	}
}

func TestIdleTimeout(t *testing.T) {
	s, err := Start(t.Context(), Config{Listen: []string{"tcp://127.0.0.1:0"}, IdleTimeout: 50 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Done():
	case <-time.After(patience):
		t.Fatal("Done: not closed")
	}
	if err := s.Err(); err != nil {
		t.Error(err)
	}
}

// A client that loses its connection and reconnects keeps its futures.
func TestClientComesBack(t *testing.T) {
	s := start(t, Config{})
	w := join(t, s, "a")
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "x", spec: "x"}})
	c.expectKey("key-in-memory", "x")
	c.comm.Abort()
	c.waitClosed()
	c = connect(t, s, "client-1")
	c.send(msgpack.MapOf("op", "client-desires-keys", "keys", names("x")))
	c.expectKey("key-in-memory", "x")
	if w.count("x") != 1 {
		t.Errorf("runs of x: got %d, want 1", w.count("x"))
	}
	// A client that has sent close-client does not reconnect.
	c.send(msgpack.MapOf("op", "close-client"), msgpack.MapOf("op", "close-stream"))
	c.waitClosed()
	until(t, "x is freed", func() bool { return !w.holds("x") })
}

// A client that does not reconnect is removed.
func TestClientStaysAway(t *testing.T) {
	s := start(t, Config{Forget: 30 * time.Millisecond})
	w := join(t, s, "a")
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "x", spec: "x"}})
	c.expectKey("key-in-memory", "x")
	c.comm.Abort()
	until(t, "x is freed", func() bool { return !w.holds("x") })
}

// Clients cannot use the names of parts of the scheduler.
func TestClientNames(t *testing.T) {
	s := start(t, Config{})
	for _, name := range []string{"", "variable-x", "queue-x", "published-x", "fire-and-forget"} {
		p := newPeer(t, s.Address())
		if err := rpc.Notify(t.Context(), p.comm, "register-client",
			msgpack.MapOf("client", name, "versions", nil)); err != nil {
			t.Fatal(err)
		}
		go p.read()
		if m := p.expectOp("stream-start"); !strings.Contains(m.GetString("error"), "invalid client name") {
			t.Errorf("name %q: got %v, want an error", name, m)
		}
		p.waitClosed()
	}
}

// Watchers receive added and removed workers.
func TestWorkerWatchers(t *testing.T) {
	s := start(t, Config{})
	p := newPeer(t, s.Address())
	if err := rpc.Notify(t.Context(), p.comm, "subscribe_worker_status", msgpack.Map{}); err != nil {
		t.Fatal(err)
	}
	var inbox []any
	next := func() any {
		t.Helper()
		for len(inbox) == 0 {
			m, err := p.comm.Read(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			v, err := wire.Decode(m, wire.DecodeOptions{Keep: true})
			if err != nil {
				t.Fatal(err)
			}
			list, ok := wire.Clone(v).([]any)
			if !ok {
				list = []any{wire.Clone(v)}
			}
			inbox = append(inbox, list...)
			m.Release()
		}
		v := inbox[0]
		inbox = inbox[1:]
		return v
	}
	if hello, ok := next().(msgpack.Map); !ok || hello.GetString("type") != "Scheduler" {
		t.Errorf("the first message: got %v, want the scheduler's identity", hello)
	}
	w := join(t, s, "a")
	came, _ := next().([]any)
	if len(came) != 2 || came[0] != "add" {
		t.Fatalf("a worker came: got %v, want [add, {workers: …}]", came)
	}
	about, _ := came[1].(msgpack.Map)
	workers, _ := about.Get("workers")
	if m, ok := workers.(msgpack.Map); !ok || !m.Has(w.address) {
		t.Errorf("a worker came: got %v, want {workers: {%s: …}}", about, w.address)
	}
	w.crash()
	if went, want := next(), []any{"remove", w.address}; !reflect.DeepEqual(went, want) {
		t.Errorf("a worker went: got %v, want %v", went, want)
	}
}

// A nanny receives plugins, and workers receive them when they register.
func TestPluginsAndNannies(t *testing.T) {
	s := start(t, Config{})
	c := connect(t, s, "client-1")
	c.call("register_worker_plugin", "plugin", []byte("pickle"), "name", "p", "idempotent", false)
	c.call("register_worker_plugin", "plugin", []byte("pickle"), "name", "p", "idempotent", true)
	c.call("register_nanny_plugin", "plugin", []byte("pickle"), "name", "n", "idempotent", false)
	w := serveWorker(t, s, "a")
	r := w.register()
	if p, _ := r.Get("worker-plugins"); !p.(msgpack.Map).Has("p") {
		t.Errorf("registration: got %v, want plugin p", r)
	}
	n, err := comm.Default.Dial(t.Context(), s.Address(), comm.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer n.Abort()
	var reply msgpack.Map
	if err := rpc.Call(t.Context(), n, "register_nanny", msgpack.MapOf("address", "tcp://127.0.0.1:1"),
		&reply); err != nil {
		t.Fatal(err)
	}
	if p, _ := reply.Get("nanny-plugins"); !p.(msgpack.Map).Has("n") {
		t.Errorf("registration of the nanny: got %v, want plugin n", reply)
	}
	c.fails("does not exist", "unregister_worker_plugin", "name", "q")
	c.call("unregister_nanny_plugin", "name", "n")
}
