package control

import (
	"fmt"
	"strings"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/data"
	"go.millstream.dev/scheduler/internal/hosttest"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/recovery"
)

type rig struct {
	*hosttest.Host
	*Control
	removed []string
	events  []string
	ended   chan string
}

func start(t *testing.T, addresses ...string) *rig {
	r := &rig{Host: hosttest.New(t), ended: make(chan string, 1)}
	workers := peers.NewWorkers(r.Host.State)
	pool := rpc.NewPool(comm.Default, rpc.PoolConfig{})
	t.Cleanup(func() { _ = pool.Close() })
	var requests *data.Requests
	apply := func(ev state.Event) {
		n := len(r.Host.Actions)
		r.Host.Apply(ev)
		for _, a := range r.Host.Actions[n:] {
			switch a.Kind {
			case state.RequestDone:
				requests.Done(a.Number, a.Keys)
			case state.WorkerRemoved:
				if w := workers.ByID(a.Worker); w != nil {
					workers.Remove(w)
					r.removed = append(r.removed, w.Address)
				}
			}
		}
	}
	requests = data.NewRequests(r.Host.Loop, apply)
	r.Control = New(Host{
		Loop: r.Host.Loop, Log: r.Host.Log, State: r.Host.State, Apply: apply, Workers: workers,
		Clients: peers.NewClients(r.Host.State), Journal: recovery.NewLog(r.Host.Log, nil), Pool: pool,
		Requests:       requests,
		WorkersChanged: &r.Host.WorkersChanged,
		RemoveWorker: func(w *peers.Worker, why string, safe, tell bool) {
			r.removed = append(r.removed, w.Address+" "+why)
			r.Host.Apply(&state.RemoveWorker{Worker: w.ID, Safe: safe})
			workers.Remove(w)
		},
		Identity: func(w *peers.Worker) msgpack.Map { return msgpack.MapOf("address", w.Address) },
		Publish:  func(m any, _ ...string) { r.events = append(r.events, m.(msgpack.Map).GetString("action")) },
		End:      func(reason string) { r.ended <- reason },
	})
	r.Serve(r.Register)
	r.Do(func() {
		for i, a := range addresses {
			w := &peers.Worker{Address: a, Name: fmt.Sprint("n", i), Alias: "\xa2" + fmt.Sprint("n", i), Host: "h"}
			w.ID = r.AddWorker(a, w)
			workers.Add(w)
		}
	})
	return r
}

// Workers to close are chosen by number, target and attribute; invalid arguments are rejected.
func TestToClose(t *testing.T) {
	r := start(t, "tcp://a", "tcp://b", "tcp://c")
	for want, args := range map[string][]any{
		"2": {"n", 2}, "1": {"target", 2}, "0": {"target", 5}, "0 ": {"n", 0}, "3": {"n", 9},
	} {
		if got := len(r.Call("workers_to_close", args...).([]any)); fmt.Sprint(got) != strings.TrimSpace(want) {
			t.Errorf("%v: got %d workers, want %s", args, got, want)
		}
	}
	for attribute, prefix := range map[string]string{"address": "tcp://", "name": "n", "host": "h"} {
		v := r.Call("workers_to_close", "n", 1, "attribute", attribute).([]any)
		if len(v) != 1 || !strings.HasPrefix(v[0].(string), prefix) {
			t.Errorf("%s: got %v", attribute, v)
		}
	}
	r.Fails("no attribute", "workers_to_close", "n", 1, "attribute", "color")
	r.Fails("Python function", "workers_to_close", "key", "f")
	r.Fails("memory_ratio", "workers_to_close", "memory_ratio", -1.0)
	if n := r.Call("adaptive_target", "target_duration", "1 s"); n != int64(0) && n != int64(1) {
		t.Errorf("adaptive target without tasks: got %v, want 0 or 1", n)
	}
	r.Fails("timeout", "adaptive_target", "target_duration", []any{})
}

// Workers that retire are removed when their data has been moved, and their identities are returned.
func TestRetire(t *testing.T) {
	r := start(t, "tcp://a", "tcp://b")
	m := r.Call("retire_workers", "workers", []any{"tcp://a", "nobody"}, "remove", true).(msgpack.Map)
	if len(m) != 1 || m[0].Key != "tcp://a" || fmt.Sprint(r.removed) != "[tcp://a]" {
		t.Errorf("retired: got %v, removed %v, want tcp://a", m, r.removed)
	}
	if m := r.Call("retire_workers", "names", []any{"nobody"}).(msgpack.Map); len(m) != 0 {
		t.Errorf("retired by an unknown name: got %v, want none", m)
	}
	if m := r.Call("retire_workers", "names", []any{"n1"}, "remove", false).(msgpack.Map); len(m) != 1 {
		t.Errorf("retired by name: got %v, want 1", m)
	}
	r.Fails("mutually exclusive", "retire_workers", "names", []any{"n1"}, "workers", []any{"tcp://b"})
	if fmt.Sprint(r.events) != "[retire-workers retire-workers]" {
		t.Errorf("events: got %v, want two of retire-workers", r.events)
	}
}

func TestChanges(t *testing.T) {
	r := start(t, "tcp://a")
	x := task.NewKey("x")
	r.Do(func() { r.Submit(r.AddClient("c", nil), []string{"x"}) })
	if v := r.Call("unregister", "address", "tcp://never"); v != "already-removed" {
		t.Errorf("unregister of an unknown worker: got %v, want already-removed", v)
	}
	r.Call("set_resources", "worker", "tcp://a", "resources", msgpack.MapOf("GPU", 2))
	r.Fails("KeyError", "set_resources", "worker", "tcp://never", "resources", msgpack.MapOf("GPU", 2))
	r.Fails("not an amount", "set_resources", "worker", "tcp://a", "resources", msgpack.MapOf("GPU", "many"))
	r.Call("set_restrictions", "worker", msgpack.MapOf("x", []any{"tcp://b"}))
	r.Do(func() {
		if a := r.Host.State.Task(x).Annotations(); a == nil || fmt.Sprint(a.Workers) != "[tcp://b]" {
			t.Errorf("restrictions: got %+v, want tcp://b", a)
		}
		supplied, _ := r.Host.State.WorkerByAddress("tcp://a").Resources()
		if len(supplied) != 1 || supplied[0].Amount != 2 {
			t.Errorf("resources: got %v, want 2 of one", supplied)
		}
	})
	r.Fails("KeyError", "set_restrictions", "worker", msgpack.MapOf("never", []any{"tcp://b"}))
	r.Fails("TypeError", "set_restrictions", "worker", msgpack.MapOf("x", 7))
	r.Fails("KeyError", "retry", "keys", []any{"never"})
	if v := r.Call("retry", "keys", []any{"x"}).([]any); len(v) != 0 {
		t.Errorf("retry of a task that has not failed: got %v, want none", v)
	}
	if v := r.Call("unregister", "address", "tcp://a"); v != "OK" || len(r.removed) != 1 {
		t.Errorf("unregister: got %v, removed %v, want OK and one", v, r.removed)
	}
}

// A restart releases all tasks, removes workers without nannies, and waits for the same number of workers.
func TestRestart(t *testing.T) {
	r := start(t, "tcp://a", "tcp://b")
	r.Do(func() { r.Submit(r.AddClient("c", nil), []string{"x"}) })
	r.Call("restart", "timeout", 5, "wait_for_workers", false)
	r.Do(func() {
		if r.Host.State.NumTasks() != 0 || len(r.removed) != 2 || len(r.Workers.ByAddress) != 0 {
			t.Errorf("got %d tasks, removed %v, want none and both workers", r.Host.State.NumTasks(), r.removed)
		}
	})
	r = start(t, "tcp://a")
	r.Fails("have not returned", "restart_workers", "timeout", 0.01)
	r = start(t, "tcp://a")
	v := r.Call("restart_workers", "timeout", 0.01, "on_error", "return").(msgpack.Map)
	if v.GetString("tcp://a") != "removed" {
		t.Errorf("restart: got %v, want removed", v)
	}
	r.Fails("is not a time", "restart_workers", "timeout", "soon")
	r = start(t, "tcp://a")
	r.Do(func() { r.Workers.ByAddress["tcp://a"].Nanny = "inproc://nobody/0/0" })
	r.Fails("did not shut down", "restart_workers", "timeout", 1)
	if v = r.Call("restart_workers", "timeout", 1, "on_error", "return", "wait_for_workers",
		false).(msgpack.Map); v.GetString("tcp://a") != "timed out" {
		t.Errorf("restart with an unreachable nanny: got %v, want timed out", v)
	}
}

func TestTerminate(t *testing.T) {
	r := start(t)
	if v := r.Call("terminate", "reason", "over"); v != "OK" {
		t.Errorf("terminate: got %v, want OK", v)
	}
	if reason := <-r.ended; reason != "terminate" || !r.Logged("over") {
		t.Errorf("reason: got %q, want terminate", reason)
	}
}
