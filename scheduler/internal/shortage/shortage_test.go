package shortage

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/hosttest"
	"go.millstream.dev/scheduler/internal/peers"
)

type rig struct {
	*hosttest.Host
	*Shortages
	workers *peers.Workers
	clients *peers.Clients
	added   int64
	events  []string // actions that were published
	client  state.ClientID
}

func start(t *testing.T, after time.Duration, closed bool) *rig {
	r := &rig{Host: hosttest.New(t)}
	r.workers, r.clients = peers.NewWorkers(r.Host.State), peers.NewClients(r.Host.State)
	r.Shortages = New(Host{
		Loop: r.Host.Loop, Log: r.Host.Log, State: r.Host.State, Apply: r.Host.Apply, Workers: r.workers,
		Clients: r.clients,
		Publish: func(msg any, topics ...string) { r.events = append(r.events, msg.(msgpack.Map).GetString("action")) },
		Contact: func() string { return "tcp://s:1" }, WorkersAdded: func() int64 { return r.added },
		After: after, Closed: closed, TickInterval: time.Millisecond,
	})
	r.Do(func() { r.client = r.AddClient("c", &peers.Client{Name: "c"}) })
	return r
}

func (r *rig) worker(address, registry string, ev state.AddWorker) *peers.Worker {
	w := &peers.Worker{Address: address, Name: address, Alias: address}
	if registry != "" {
		w.Extra = msgpack.MapOf("millstream", msgpack.MapOf("registry", registry, "build", "build of "+address))
	}
	ev.Address, ev.Name, ev.Host, ev.Threads, ev.Status, ev.Data, ev.Registry = address, address, address, 1,
		state.StatusRunning, w, registry
	r.Host.Apply(&ev)
	w.ID = ev.Worker
	r.workers.Add(w)
	r.added++
	return w
}

func (r *rig) submit(t *testing.T, registry string, n state.Node) {
	n.Key, n.Spec = task.NewKey(fmt.Sprint("x", r.Host.State.NumTasks())), []byte("\x80spec")
	ev := state.UpdateGraph{Client: r.client, Graph: &state.Graph{Nodes: []state.Node{n}, Registry: registry},
		Keys: []task.Key{n.Key}}
	r.Host.Apply(&ev)
	if ev.Err != nil {
		t.Error(ev.Err)
	}
}

// Each reason has a text with the remedy.
func TestExplain(t *testing.T) {
	r := start(t, time.Hour, false)
	details := func() (out string) {
		for _, e := range r.List() {
			out += e.Reason + ": " + e.Detail + "\n"
		}
		return out
	}
	has := func(what string, parts ...string) {
		t.Helper()
		got := details()
		for _, p := range parts {
			if !strings.Contains(got, p) {
				t.Errorf("%s: got %q, want %q in it", what, got, p)
			}
		}
	}
	r.Do(func() {
		r.submit(t, "f-1", state.Node{})
		has("no workers", "no workers have joined the scheduler at tcp://s:1", "PROGRAM worker tcp://s:1")
		dask := r.worker("tcp://dask", "", state.AddWorker{Can: state.Python})
		has("Dask's workers alone", "are not Millstream's")
		old := r.worker("tcp://old", "f-0", state.AddWorker{Can: state.Go})
		has("another build", "no worker has the build of this client", "tcp://old", "millstream.any-build")
		for _, w := range []*peers.Worker{dask, old} {
			r.Host.Apply(&state.RemoveWorker{Worker: w.ID})
			r.workers.Remove(w)
		}
		has("all have left", "all workers have left")
	})

	r = start(t, time.Hour, false)
	r.Do(func() {
		r.worker("tcp://w", "f-1", state.AddWorker{Can: state.Go,
			Resources: []state.Resource{{Name: "GPU", Amount: 1}}})
		r.submit(t, "", state.Node{Needs: state.Python})
		has("no Python", "no worker runs Python")
		r.submit(t, "g-1", state.Node{})
		has("other functions", "no worker has the functions of this client", "built from build of tcp://w")
		r.submit(t, "", state.Node{Annotations: &state.Annotations{Workers: []string{"tcp://never"}}})
		has("another worker", "restricted to workers or hosts tcp://never", "tcp://w (name tcp://w)")
		r.submit(t, "", state.Node{Annotations: &state.Annotations{Resources: []state.Resource{{Name: "GPU",
			Amount: 2}}}})
		has("more of a resource", "the most that a worker has is 1", "--resources GPU=2")
		r.submit(t, "", state.Node{Annotations: &state.Annotations{Resources: []state.Resource{{Name: "TPU",
			Amount: 1}}}})
		has("another resource", "no worker has resource TPU")
	})
}

// A shortage is logged when it has lasted for some time, again after intervals that grow, and when it is over.
func TestWarns(t *testing.T) {
	r := start(t, time.Millisecond, false)
	r.Do(func() { r.submit(t, "", state.Node{}) })
	r.Until("the shortage is logged", func() bool { r.Tick(); return len(r.events) == 1 })
	r.Do(func() {
		if r.events[0] != "tasks-unrunnable" || !r.Logged("no worker can run the tasks") {
			t.Errorf("events: got %v", r.events)
		}
		r.next = time.Time{}
		r.Tick()
		if len(r.events) != 1 {
			t.Errorf("repeated immediately: got %v", r.events)
		}
		for _, k := range r.known {
			k.again = time.Time{}
			r.next = time.Time{}
			before := k.pause
			r.Tick()
			if k.pause <= before || len(r.events) != 2 {
				t.Errorf("got pause %v after %v, events %v", k.pause, before, r.events)
			}
			for range 20 { // the pause doubles, up to a bound
				before = k.pause
				k.again, r.next = time.Time{}, time.Time{}
				r.Tick()
				if want := min(2*before, shortagePause); k.pause != want {
					t.Errorf("got pause %v after %v, want %v", k.pause, before, want)
				}
			}
		}
		r.worker("tcp://w", "", state.AddWorker{Can: state.Python | state.Go})
		r.next = time.Time{}
		r.Tick()
		if r.events[len(r.events)-1] != "tasks-runnable" || len(r.known) != 0 {
			t.Errorf("when it is over: got events %v, %d known", r.events, len(r.known))
		}
	})
	silent := start(t, -1, false)
	silent.Do(func() {
		silent.submit(t, "", state.Node{})
		silent.Tick()
		if len(silent.events) != 0 {
			t.Errorf("events: got %v, want none", silent.events)
		}
	})
}

// In a closed cluster tasks that can never run fail immediately; after Open they wait.
func TestClosed(t *testing.T) {
	for _, opened := range []bool{false, true} {
		r := start(t, time.Hour, true)
		r.Do(func() {
			r.worker("tcp://w", "f-1", state.AddWorker{Can: state.Go})
			if opened {
				r.Open()
			}
			r.submit(t, "", state.Node{Needs: state.Python})
			r.submit(t, "g-1", state.Node{})
			r.submit(t, "", state.Node{Annotations: &state.Annotations{Workers: []string{"tcp://never"}}})
			r.Tick()
			want := map[bool]int{false: 2, true: 0}[opened]
			if n := r.Host.State.Count(state.Erred); n != want {
				t.Errorf("opened %v: got %d failed tasks, want %d", opened, n, want)
			}
		})
	}
}

func TestTexts(t *testing.T) {
	if got := andOthers(0) + "|" + andOthers(1) + "|" + andOthers(3); got != "| and 1 other| and 3 others" {
		t.Errorf("got %q", got)
	}
	if got := resourceText(nil) + "|" + resourceText([]state.Resource{{Name: "A", Amount: 1},
		{Name: "B", Amount: 0.5}}); got != "|resources A=1, B=0.5" {
		t.Errorf("got %q", got)
	}
	a := &peers.Program{Registry: "f-1", Signatures: map[string]string{"x": "1", "y": "2"}}
	b := &peers.Program{Registry: "g-1", Signatures: map[string]string{"x": "1", "y": "3"}}
	if closeness(a, b) != 1 || closeness(a, a) <= peers.MaxFunctions {
		t.Errorf("closeness: got %d and %d", closeness(a, b), closeness(a, a))
	}
}
