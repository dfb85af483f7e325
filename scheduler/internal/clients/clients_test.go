package clients

import (
	"context"
	"fmt"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/helpers"
	"go.millstream.dev/scheduler/internal/hosttest"
	"go.millstream.dev/scheduler/internal/inspect"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/recovery"
	"go.millstream.dev/scheduler/internal/topics"
	"go.millstream.dev/scheduler/internal/versions"
	"go.millstream.dev/wire"
)

type rig struct {
	*hosttest.Host
	*Clients
	totals inspect.Totals
	ended  chan *peers.Stream // streams that were read to their end
}

func start(t *testing.T, forget time.Duration, step int) *rig {
	r := &rig{Host: hosttest.New(t), ended: make(chan *peers.Stream, 8)}
	workers, log := peers.NewWorkers(r.Host.State), recovery.NewLog(r.Host.Log, nil)
	streams := peers.NewStreams(r.Host.Loop, r.Host.Log, log, 1<<20, 1<<20)
	r.Clients = New(Host{
		Loop: r.Host.Loop, Log: r.Host.Log, Apply: r.Host.Apply, Streams: streams, Workers: workers, Journal: log,
		Topics: topics.New(topics.Host{
			Loop: r.Host.Loop, Log: r.Host.Log, Length: 10, Bytes: 1 << 20, Send: func(string, msgpack.Map) {},
		}),
		Versions: versions.New(versions.Host{
			Log: r.Host.Log, Workers: workers, Helpers: helpers.New(helpers.Config{Off: true, Log: r.Host.Log}),
		}),
		Totals: &r.totals, ID: "scheduler", Forget: forget, ReleaseStep: step,
		Serve: func(ctx context.Context, st *peers.Stream) {
			r.Do(streams.Flush)
			for {
				m, err := st.Comm.Read(ctx)
				if err != nil {
					break
				}
				m.Release()
			}
			_ = r.Host.Loop.Do(context.Background(), func() {
				if !st.Gone {
					r.Ended(st)
				}
			})
			<-st.Out.Done()
			r.ended <- st
		},
	}, peers.NewClients(r.Host.State))
	r.Serve(r.Register)
	return r
}

// connect registers a client and returns its comm and the first message.
func (r *rig) connect(t *testing.T, name string) (comm.Comm, msgpack.Map) {
	t.Helper()
	_, address := r.Pool()
	c, err := comm.Default.Dial(t.Context(), address, comm.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Abort)
	if err := rpc.Notify(t.Context(), c, "register-client",
		msgpack.MapOf("client", name, "versions", nil)); err != nil {
		t.Fatal(err)
	}
	m, err := c.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Release()
	v, err := wire.Decode(m, wire.DecodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c, wire.Clone(v.([]any)[0]).(msgpack.Map)
}

// wanted returns the number of keys that a client holds; -1 if it is unknown.
func (r *rig) wanted(name string) (n int) {
	r.Do(func() {
		if c := r.ByName[name]; c != nil {
			n = r.Host.State.Client(c.ID).NumWanted()
		} else {
			n = -1
		}
	})
	return n
}

// Names of parts of the scheduler are rejected, and so are empty ones.
func TestNames(t *testing.T) {
	r := start(t, 0, 10)
	for _, name := range []string{"", "fire-and-forget", "variable-x", "queue-x"} {
		if _, m := r.connect(t, name); m.GetString("error") == "" {
			t.Errorf("%q: got %v, want an error", name, m)
		}
	}
	if _, m := r.connect(t, "c"); m.GetString("op") != "stream-start" || m.GetString("error") != "" {
		t.Errorf("registration: got %v, want stream-start without an error", m)
	}
	r.Do(func() {
		if len(r.ByName) != 1 || r.totals.ClientsAdded != 1 {
			t.Errorf("got %d clients, %d added, want 1 and 1", len(r.ByName), r.totals.ClientsAdded)
		}
	})
}

// A client that leaves is removed and its keys are released; a Millstream client that loses its connection may
// reconnect.
func TestEnded(t *testing.T) {
	r := start(t, time.Hour, 10)
	c, _ := r.connect(t, "c")
	r.Do(func() {
		w := r.AddWorker("tcp://w", nil)
		r.Submit(r.ByName["c"].ID, []string{"x"})
		r.Finish(w, "x")
	})
	if n := r.wanted("c"); n != 1 {
		t.Fatalf("keys of c: got %d, want 1", n)
	}
	c.Abort()
	st := <-r.ended
	if !st.Ours {
		t.Fatal("comm of this process: Ours is false, want true")
	}
	r.Do(func() {
		if x := r.ByName["c"]; x == nil || x.AwayFrom.IsZero() || x.Stream != nil {
			t.Errorf("disconnected client: got %+v, want it kept without a stream", x)
		}
		r.Tick()
	})
	if n := r.wanted("c"); n != 1 {
		t.Errorf("keys of a disconnected client: got %d, want 1", n)
	}
	if _, m := r.connect(t, "c"); m.GetString("error") != "" {
		t.Fatalf("reconnect: got %v, want no error", m)
	}
	r.Do(func() {
		x := r.ByName["c"]
		if !x.AwayFrom.IsZero() || x.Stream == nil {
			t.Errorf("reconnected client: got %+v, want a stream", x)
		}
		x.AwayFrom = r.Host.Loop.Now().Add(-2 * time.Hour)
		r.Tick()
	})
	if n := r.wanted("c"); n != -1 {
		t.Errorf("keys of a client that did not reconnect: got %d, want it removed", n)
	}
}

// A second connection of the same name replaces the first.
func TestReplaced(t *testing.T) {
	r := start(t, time.Hour, 10)
	first, _ := r.connect(t, "c")
	second, _ := r.connect(t, "c")
	select {
	case <-first.Done():
	case <-time.After(hosttest.Patience):
		t.Fatal("first connection: not closed")
	}
	<-r.ended
	r.Do(func() {
		if c := r.ByName["c"]; c == nil || !c.Stream.Connected() {
			t.Error("second connection: closed by the end of the first")
		}
	})
	if second.Err() != nil {
		t.Errorf("second connection: got error %v, want none", second.Err())
	}
}

// Keys are released in steps, and a name is enough for a part of the scheduler.
func TestDesireRelease(t *testing.T) {
	r := start(t, 0, 3)
	var keys []task.Key
	r.Do(func() {
		w := r.AddWorker("tcp://w", nil)
		id := r.Named("c").ID
		for i := range 10 {
			name := fmt.Sprint("x", i)
			r.Submit(id, []string{name})
			r.Finish(w, name)
			keys = append(keys, task.NewKey(name))
		}
		r.Desire("queue-q", keys...)
	})
	if a, b := r.wanted("c"), r.wanted("queue-q"); a != 10 || b != 10 {
		t.Fatalf("held keys: got %d and %d, want 10 and 10", a, b)
	}
	r.Do(func() {
		r.Release("c", keys...)
		r.Release("c")
		r.Release("nobody", keys...)
	})
	if n := r.wanted("c"); n != 0 {
		t.Errorf("keys of c: got %d, want 0", n)
	}
	r.Do(func() {
		if r.ByName["nobody"] != nil {
			t.Error("release of an unknown client: created a client")
		}
		q := r.ByName["queue-q"]
		if !q.Part || r.ByName["c"].Part {
			t.Error("Part: got the wrong value")
		}
		r.Remove(q)
		r.Remove(q)
		if n := r.Host.State.Count(state.Memory); n != 0 {
			t.Errorf("results: got %d, want 0", n)
		}
	})
}
