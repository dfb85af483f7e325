package workers

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/history"
	"go.millstream.dev/scheduler/internal/hosttest"
	"go.millstream.dev/scheduler/internal/inspect"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/recovery"
	"go.millstream.dev/scheduler/internal/shuffle"
	"go.millstream.dev/scheduler/internal/topics"
)

// rig is a Workers with a state, whose events it keeps.
type rig struct {
	*hosttest.Host
	*Workers
	events []state.Event
	left   []string
	ending bool
}

func start(t *testing.T, ttl time.Duration, addresses ...string) *rig {
	r := &rig{Host: hosttest.New(t)}
	all := peers.NewWorkers(r.Host.State)
	pool := rpc.NewPool(comm.Default, rpc.PoolConfig{})
	t.Cleanup(func() { _ = pool.Close() })
	h := r.Host
	r.Workers = New(Host{
		Loop: h.Loop, Log: h.Log, State: h.State, Journal: recovery.NewLog(h.Log, nil), Pool: pool, TTL: ttl,
		Apply: func(ev state.Event) {
			if beat, ok := ev.(*state.Heartbeat); ok { // reused by its owner
				c := *beat
				r.events = append(r.events, &c)
			} else {
				r.events = append(r.events, ev)
			}
			h.Apply(ev)
		},
		Topics:    topics.New(topics.Host{Loop: h.Loop, Log: h.Log, Length: 100, Bytes: 1 << 20}),
		Shuffles:  shuffle.New(shuffle.Host{Loop: h.Loop, Log: h.Log, State: h.State, Workers: all}),
		Transfers: history.NewTransfers(h.Loop, 10), Totals: new(inspect.Totals), Changed: new(loop.Signal),
		Context: t.Context(), Watch: func(*peers.Worker, bool) {}, Left: func(a string) { r.left = append(r.left, a) },
		Ending: func() bool { return r.ending },
	}, all)
	r.Serve(r.Register)
	r.Do(func() {
		for i, a := range addresses {
			w := &peers.Worker{Address: a, Name: fmt.Sprint("n", i), Alias: "\xa2" + fmt.Sprint("n", i), Host: "h",
				Stream: &peers.Stream{Gone: true}, Token: "token-" + a, Caused: make(chan struct{}),
				LastSeen: h.Loop.Now()}
			w.ID = r.AddWorker(a, w)
			all.Add(w)
		}
	})
	return r
}

// of returns the last event of a type, nil without one. It runs in the loop.
func of[E state.Event](r *rig) (out E) {
	for _, ev := range r.events {
		if e, ok := ev.(E); ok {
			out = e
		}
	}
	return out
}

// A worker without heartbeats for longer than TTL is removed, others are kept. The time is at least four heartbeats.
func TestSilentWorkers(t *testing.T) {
	for _, c := range []struct {
		ttl, silent time.Duration
		removed     bool
	}{
		{10 * time.Second, 9 * time.Second, false}, {10 * time.Second, 11 * time.Second, true},
		{10 * time.Second, 0, false}, {time.Second, 900 * time.Millisecond, false}, {time.Second,
			1100 * time.Millisecond, true},
		{0, 1900 * time.Millisecond, false}, {0, 2100 * time.Millisecond, true}, {-1, 1000 * time.Hour, false},
	} {
		r := start(t, c.ttl, "tcp://a:1", "tcp://b:1")
		r.Do(func() {
			r.ByAddress["tcp://a:1"].LastSeen = r.Host.Loop.Now().Add(-c.silent)
			r.Tick()
			if got := slices.Equal(r.left, []string{"tcp://a:1"}); got != c.removed ||
				len(r.ByAddress) != map[bool]int{true: 1,
					false: 2}[c.removed] {
				t.Errorf("TTL %v, silent for %v: got removed %v, want the first removed: %v", c.ttl, c.silent, r.left,
					c.removed)
			}
			if !c.removed {
				return
			}
			ev := of[*state.RemoveWorker](r)
			if ev == nil || ev.Safe || !ev.Close || !strings.HasPrefix(ev.Reason, reasonTTL) ||
				r.Totals.WorkersRemoved != 1 {
				t.Errorf("got %+v, %d removed, want an order to end with the reason", ev, r.Totals.WorkersRemoved)
			}
		})
	}
}

// The values of a heartbeat reach the state; invalid numbers do not.
func TestHeartbeats(t *testing.T) {
	const address = "tcp://127.0.0.1:1"
	for _, c := range []struct {
		what    string
		metrics any
		want    state.Heartbeat
	}{
		{"all", msgpack.MapOf("memory", 5, "managed_bytes", 3, "spilled_bytes", msgpack.MapOf("memory", 9, "disk", 2),
			"bandwidth", msgpack.MapOf("total", 1e6)), state.Heartbeat{Memory: 5, Managed: 3, Spilled: 2,
			Bandwidth: 1e6}},
		{"none", nil, state.Heartbeat{}}, {"other", "text", state.Heartbeat{}}, {"empty", msgpack.Map{},
			state.Heartbeat{}},
		{"texts", msgpack.MapOf("memory", "5", "managed_bytes", []any{}, "spilled_bytes", 7, "bandwidth", "fast"),
			state.Heartbeat{}},
		{"too fast", msgpack.MapOf("memory", 1, "bandwidth", msgpack.MapOf("total", math.Inf(1))),
			state.Heartbeat{Memory: 1}},
	} {
		r := start(t, time.Hour, address)
		var before time.Time
		r.Do(func() {
			w := r.ByAddress[address]
			w.LastSeen = w.LastSeen.Add(-time.Minute)
			before = w.LastSeen
		})
		reply := r.Call("heartbeat_worker", "address", address, "now", 1.0, "metrics", c.metrics,
			"resources", msgpack.MapOf("GPU", 2.0), "executing", msgpack.MapOf("k", 1.5, "bad", "x")).(msgpack.Map)
		if reply.GetString("status") != "OK" {
			t.Errorf("%s: got %v, want OK", c.what, reply)
		}
		if v, _ := reply.Get("heartbeat-interval"); v != 0.5 {
			t.Errorf("%s: got interval %v, want 0.5", c.what, v)
		}
		r.Do(func() {
			w := r.ByAddress[address]
			got := of[*state.Heartbeat](r)
			if got == nil || got.Worker != w.ID || got.Memory != c.want.Memory || got.Managed != c.want.Managed ||
				got.Spilled != c.want.Spilled || got.Bandwidth != c.want.Bandwidth {
				t.Errorf("%s: got %+v, want %+v", c.what, got, c.want)
			}
			if len(got.Executing) != 1 || got.Executing[0].For != 1500*time.Millisecond {
				t.Errorf("%s: got executing %+v, want k for 1.5 s", c.what, got.Executing)
			}
			if !w.LastSeen.After(before) || w.Delay < 1 {
				t.Errorf("%s: got last seen %v, delay %v", c.what, w.LastSeen, w.Delay)
			}
			if s := of[*state.SetResources](r); s == nil || len(s.Resources) != 1 {
				t.Errorf("%s: got %+v, want one resource", c.what, s)
			}
		})
	}
	r := start(t, time.Hour, address)
	reply := r.Call("heartbeat_worker", "address", "tcp://127.0.0.1:2").(msgpack.Map)
	if reply.GetString("status") != "missing" || !r.Logged("heartbeat of unregistered worker") {
		t.Errorf("another worker: got %v, want missing, and a line in the log", reply)
	}
	r.Fails("resources", "heartbeat_worker", "address", address, "resources", msgpack.MapOf("GPU", -1.0))
	r.Do(func() {
		if of[*state.SetResources](r) != nil || of[*state.Heartbeat](r) != nil {
			t.Error("rejected heartbeat: has reached the state")
		}
	})
	// The number of running tasks that are read is bounded.
	many := msgpack.Map{}
	for i := range maxExecuting + 10 {
		many = append(many, msgpack.Pair{Key: fmt.Sprint(i), Value: 1.0})
	}
	r.Call("heartbeat_worker", "address", address, "executing", many)
	r.Do(func() {
		if n := len(of[*state.Heartbeat](r).Executing); n != maxExecuting {
			t.Errorf("got %d running tasks, want %d", n, maxExecuting)
		}
	})
}

// The interval of heartbeats is shorter with a short TTL, and longer in a large cluster.
func TestInterval(t *testing.T) {
	for _, c := range []struct {
		ttl     time.Duration
		workers int
		want    float64
	}{
		{time.Hour, 1, 0.5}, {time.Second, 1, 0.25}, {100 * time.Millisecond, 1, 0.025}, {0, 1, 0.5}, {-1, 1, 0.5},
		{time.Hour, 10, 0.5}, {time.Hour, 11, 1}, {time.Hour, 50, 2}, {time.Hour, 200, 2}, {2 * time.Second, 200, 0.5},
	} {
		var addresses []string
		for i := range c.workers {
			addresses = append(addresses, fmt.Sprint("tcp://a:", i+1))
		}
		r := start(t, c.ttl, addresses...)
		r.Do(func() {
			if got := r.interval(); got != c.want {
				t.Errorf("TTL %v, %d workers: got %v, want %v", c.ttl, c.workers, got, c.want)
			}
		})
	}
}

// The first cause that a nanny reports is the reason of the removal; without a token or a text there is none.
func TestDeathReports(t *testing.T) {
	r := start(t, time.Hour, "tcp://a:1", "tcp://b:1")
	for _, c := range []struct{ token, cause string }{{"", "x"}, {"token-tcp://a:1", ""}, {"token-tcp://a:1", " \n"},
		{"none", "x"}} {
		r.Call(DeathOp, "token", c.token, "cause", c.cause)
	}
	r.Call(DeathOp, "token", "token-tcp://a:1", "cause", "memory\nlimit")
	r.Call(DeathOp, "token", "token-tcp://a:1", "cause", "later")
	r.Do(func() {
		a, b := r.ByAddress["tcp://a:1"], r.ByAddress["tcp://b:1"]
		if a.Cause != "memory limit" || b.Cause != "" {
			t.Errorf("got %q and %q, want the first cause and none", a.Cause, b.Cause)
		}
		select {
		case <-a.Caused:
		default:
			t.Error("waiter of the cause: not woken")
		}
		for _, x := range []struct {
			w    *peers.Worker
			safe bool
			want string
		}{{a, false, "memory limit"}, {b, true, "connection lost"}} {
			r.Remove(x.w, "connection lost", x.safe, false)
			if ev := of[*state.RemoveWorker](r); ev.Worker != x.w.ID || ev.Reason != x.want || ev.Safe != x.safe {
				t.Errorf("%s: got %+v, want the reason %q", x.w.Address, ev, x.want)
			}
		}
		before := len(r.events)
		r.Remove(a, "again", false, false)
		if len(r.events) != before || r.Totals.WorkersRemoved != 2 || len(r.left) != 2 {
			t.Errorf("second removal: got %d removed, left %v", r.Totals.WorkersRemoved, r.left)
		}
	})
}

// A valid new status reaches the state.
func TestSetStatus(t *testing.T) {
	r := start(t, time.Hour, "tcp://a:1")
	r.Do(func() {
		w := r.ByAddress["tcp://a:1"]
		changed := r.Changed.Wait()
		for _, c := range []struct {
			name  string
			event bool
			err   bool
		}{{"running", false, false}, {"paused", true, false}, {"paused", false, false}, {http.StatusText(404), false,
			true}, {"", false, true},
			{"running", true, false}} {
			r.events = nil
			err := r.SetStatus(w, c.name)
			if ev := of[*state.WorkerStatusChange](r); (ev != nil) != c.event || (err != nil) != c.err {
				t.Errorf("%q: got %+v, %v, want an event: %v, an error: %v", c.name, ev, err, c.event, c.err)
			}
		}
		select {
		case <-changed:
		default:
			t.Error("waiter of the change: not woken")
		}
		gone := &peers.Worker{Address: "tcp://b:1", ID: w.ID}
		r.events = nil
		if err := r.SetStatus(gone, "paused"); err != nil || len(r.events) != 0 {
			t.Errorf("a worker that has been replaced: got %v, %v, want nothing", r.events, err)
		}
	})
}
