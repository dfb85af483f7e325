package state

import (
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"go.millstream.dev/internal/task/taskid"
	"pgregory.net/rapid"
)

// More checks than rapid's default, and no files in the tree; flags on the command line take precedence.
func init() {
	for name, value := range map[string]string{"rapid.checks": "200", "rapid.steps": "60", "rapid.nofailfile": "true"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
}

// world drives two states with the same random events: one that validates itself after each, one that does not. They
// must agree on every action. It also tracks the view of each receiver of messages.
type world struct {
	t         *rapid.T
	s, twin   *State
	out, out2 Actions
	now       time.Time
	views     map[string]map[taskid.Key]string // last message to each client about a key
	orders    map[WorkerID]map[taskid.Key]int64
	requests  uint64
	answered  map[uint64]bool
	steals    []Action
	leaving   map[WorkerID]bool // at the end of the event
}

func newWorld(t *rapid.T) *world {
	cfg := Config{
		Validate:         true,
		WorkerSaturation: rapid.SampledFrom([]float64{0, 1, 3, 1e9}).Draw(t, "saturation"),
		NoWorkersTimeout: rapid.SampledFrom([]time.Duration{0, 3 * time.Second}).Draw(t, "no-workers-timeout"),
		AllowedFailures:  rapid.IntRange(-1, 1).Draw(t, "allowed-failures"),
		MemoryTerminate:  rapid.Bool().Draw(t, "terminate"),
		MaxReplicateTime: 20 * time.Second,
		Epoch:            2,
	}
	plain := cfg
	plain.Validate = false
	return &world{t: t, s: New(cfg), twin: New(plain), now: time.Unix(1_700_000_000, 0),
		views: map[string]map[taskid.Key]string{}, orders: map[WorkerID]map[taskid.Key]int64{},
		answered: map[uint64]bool{}, leaving: map[WorkerID]bool{}}
}

// apply applies an event to both states. make is called twice, since events carry results.
func (w *world) apply(make func() Event) Event {
	ev := make()
	w.s.Apply(w.now, ev, &w.out)
	w.twin.Apply(w.now, make(), &w.out2)
	a, b := formatActions(w.s, w.out.List()), formatActions(w.twin, w.out2.List())
	if a != b {
		w.t.Fatalf("actions of two states differ after %T:\n%s\nand\n%s", ev, a, b)
	}
	clear(w.leaving)
	for _, a := range w.out.List() {
		if a.Kind == WorkerRemoved {
			w.leaving[a.Worker] = true
		}
	}
	for i := range w.out.List() {
		w.observe(&w.out.List()[i])
	}
	w.compareViews()
	return ev
}

// observe records an action at its receiver.
func (w *world) observe(a *Action) {
	switch a.Kind {
	case ComputeTask, FreeKeys, RemoveReplicas, AcquireReplicas, StealRequest, RefreshWhoHas, StoreValues:
		if w.s.Worker(a.Worker) == nil && !w.leaving[a.Worker] {
			w.t.Fatalf("%s: for unknown worker %d", a.Kind, a.Worker)
		}
	}
	switch a.Kind {
	case ComputeTask:
		if w.orders[a.Worker] == nil {
			w.orders[a.Worker] = map[taskid.Key]int64{}
		}
		w.orders[a.Worker][a.Key] = a.RunID
		for i := range a.Task.NumDeps() {
			if d := a.Task.Dep(i); d.NumHolders() == 0 {
				w.t.Fatalf("%s: to be computed without %s, which has no holder", a.Key, d.Key())
			}
		}
	case StoreValues:
		for _, t := range a.Tasks {
			if len(t.AppendValue(nil)) == 0 && t.State() == Memory {
				w.t.Fatalf("%s: passed to worker %d without a value", t.Key(), a.Worker)
			}
		}
	case FreeKeys:
		for _, k := range a.Keys {
			delete(w.orders[a.Worker], k)
		}
	case StealRequest:
		w.steals = append(w.steals, *a)
	case RequestDone:
		if w.answered[a.Number] {
			w.t.Fatalf("request %d: answered twice", a.Number)
		}
		w.answered[a.Number] = true
	}
	if a.Client < 0 {
		return
	}
	name := w.s.Client(a.Client).Name()
	if w.views[name] == nil {
		w.views[name] = map[taskid.Key]string{}
	}
	view := w.views[name]
	switch a.Kind {
	case KeyInMemory:
		view[a.Key] = "memory"
	case KeyErred:
		if a.Task != nil { // otherwise it is about a rejected graph
			view[a.Key] = "erred"
		}
	case LostData, TaskRetried:
		view[a.Key] = "pending"
	case CancelledKeys:
		for _, k := range a.Keys {
			view[k] = "cancelled"
		}
	}
}

// compareViews checks that every client has been notified of the state of its keys, and every worker of its processing
// tasks.
func (w *world) compareViews() {
	for c := range w.s.Clients() {
		if c.ID() == FireAndForget {
			continue
		}
		wanted := map[taskid.Key]bool{}
		for i := range c.NumWanted() {
			wanted[c.Wanted(i).Key()] = true
		}
		for k := range w.views[c.Name()] {
			if !wanted[k] {
				delete(w.views[c.Name()], k) // no future of that key is left
			}
		}
		for i := range c.NumWanted() {
			t := c.Wanted(i)
			view := w.views[c.Name()][t.Key()]
			if (t.State() == Memory) != (view == "memory") || (t.State() == Erred) != (view == "erred") {
				w.t.Fatalf("client %s: view of %s: got %q, want %s\n%s", c.Name(), t.Key(), view, t.State(),
					w.s.log.text(t.Key()))
			}
		}
	}
	for wk := range w.s.Workers() {
		for t := range wk.Processing() {
			if run := w.orders[wk.ID()][t.Key()]; run != t.RunID() {
				w.t.Fatalf("worker %s: got run %d of %s, want %d\n%s", wk.Name(), run, t.Key(), t.RunID(),
					w.s.log.text(t.Key()))
			}
		}
	}
}

var keySpace = func() []taskid.Key {
	var keys []taskid.Key
	for _, p := range []string{"inc", "load", "sum"} {
		for i := range 12 {
			keys = append(keys, taskid.NewKey(fmt.Sprintf("%s-%d", p, i)))
		}
	}
	for i := range 6 {
		k, err := taskid.KeyOf([]any{"part-0", i})
		if err != nil {
			panic(err)
		}
		keys = append(keys, k)
	}
	return keys
}()

func (w *world) key() taskid.Key { return rapid.SampledFrom(keySpace).Draw(w.t, "key") }

func (w *world) keys() []taskid.Key {
	return rapid.SliceOfN(rapid.SampledFrom(keySpace), 1, 6).Draw(w.t, "keys")
}

// worker draws the ID of a worker, sometimes of an unknown one.
func (w *world) worker() WorkerID {
	return WorkerID(rapid.IntRange(0, max(len(w.s.workers.all)-1, 1)).Draw(w.t, "worker"))
}

func (w *world) client() ClientID {
	return ClientID(rapid.IntRange(0, max(len(w.s.clients.all)-1, 1)).Draw(w.t, "client"))
}

func (w *world) annotations() *Annotations {
	if rapid.IntRange(0, 3).Draw(w.t, "annotated") > 0 {
		return nil
	}
	a := &Annotations{
		Retries:           rapid.IntRange(0, 2).Draw(w.t, "retries"),
		AllowOtherWorkers: rapid.Bool().Draw(w.t, "loose"),
		NotQueued:         rapid.Bool().Draw(w.t, "not-queued"),
		HasPriority:       rapid.Bool().Draw(w.t, "has-priority"),
		Priority:          float64(rapid.IntRange(-2, 2).Draw(w.t, "priority")),
	}
	if rapid.Bool().Draw(w.t, "restricted") {
		names := []string{"w0", "w1", "w2", "h0", "h1", "nobody"}
		a.Workers = []string{rapid.SampledFrom(names).Draw(w.t, "restriction")}
	}
	if rapid.Bool().Draw(w.t, "resourceful") {
		a.Resources = []Resource{{"GPU", float64(rapid.IntRange(0, 3).Draw(w.t, "GPU"))}}
	}
	return a
}

func (w *world) graph() {
	n := rapid.IntRange(1, 14).Draw(w.t, "nodes")
	g := &Graph{Ordered: rapid.Bool().Draw(w.t, "ordered"),
		Registry: rapid.SampledFrom([]string{"", "", "r1", "r2"}).Draw(w.t, "registry")}
	seen := map[taskid.Key]bool{}
	var keys []taskid.Key
	for i := range n {
		k := w.key()
		if seen[k] {
			continue
		}
		seen[k] = true
		node := Node{Key: k, Spec: []byte("f"), Order: int64(i), Annotations: w.annotations(),
			Producer: rapid.IntRange(0, 9).Draw(w.t, "producer") == 0,
			Needs:    rapid.SampledFrom([]Can{0, 0, 0, Python, Go}).Draw(w.t, "needs")}
		for range rapid.IntRange(0, 3).Draw(w.t, "deps") {
			if len(keys) > 0 && rapid.IntRange(0, 9).Draw(w.t, "backwards") > 0 {
				node.Deps = append(node.Deps, rapid.SampledFrom(keys).Draw(w.t, "dep"))
			} else if rapid.IntRange(0, 5).Draw(w.t, "anything") == 0 {
				node.Deps = append(node.Deps, w.key())
			}
		}
		if len(g.Nodes) > 0 && rapid.IntRange(0, 3).Draw(w.t, "by-index") == 0 {
			node.DepNodes = []int32{int32(rapid.IntRange(-1, len(g.Nodes)).Draw(w.t, "index"))}
		}
		g.Nodes = append(g.Nodes, node)
		keys = append(keys, k)
	}
	client := w.client()
	wanted := rapid.SliceOfNDistinct(rapid.SampledFrom(append(slices.Clone(keys), w.key())), 1, 4,
		func(k taskid.Key) taskid.Key { return k }).Draw(w.t, "wanted")
	actors := rapid.IntRange(0, 9).Draw(w.t, "actors") == 0
	parent := taskid.Key("")
	if rapid.IntRange(0, 5).Draw(w.t, "nested") == 0 {
		parent = w.key()
	}
	w.apply(func() Event {
		return &UpdateGraph{Client: client, Graph: g, Keys: wanted, Actors: actors, SubmittingTask: parent,
			FIFOTimeout: time.Second}
	})
}

// processing draws a task that a worker processes; nil without any.
func (w *world) processing() *Task {
	var all []*Task
	for wk := range w.s.Workers() {
		for t := range wk.Processing() {
			all = append(all, t)
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortFunc(all, func(a, b *Task) int { return int(a.runID - b.runID) })
	return rapid.SampledFrom(all).Draw(w.t, "processing")
}

// report draws the sender of a report: mostly the worker that processes a task, with its run, sometimes any worker.
func (w *world) report() (id WorkerID, k taskid.Key, run int64) {
	if t := w.processing(); t != nil && rapid.IntRange(0, 5).Draw(w.t, "honest") > 0 {
		return t.worker.id, t.key, t.runID
	}
	run = rapid.SampledFrom([]int64{0, 2<<32 + 1, 1<<32 + 7, 2<<32 + 5}).Draw(w.t, "run")
	return w.worker(), w.key(), run
}

func (w *world) actions() map[string]func(*rapid.T) {
	small := func(what string, n int) int { return rapid.IntRange(0, n).Draw(w.t, what) }
	finish := func() {
		id, k, run := w.report()
		n := int64(small("nbytes", 3) * 1000)
		w.apply(func() Event {
			return &TaskFinished{Worker: id, Key: k, RunID: run, NBytes: n, TypeName: "int",
				Duration: time.Duration(n) * time.Microsecond}
		})
	}
	return map[string]func(*rapid.T){
		"worker": func(*rapid.T) {
			if len(w.s.workers.byName) >= 7 {
				return
			}
			name := fmt.Sprintf("w%d", small("name", 8))
			statuses := []WorkerStatus{StatusRunning, StatusRunning, StatusInit}
			ev := AddWorker{
				Address:     "tcp://" + name + ":1",
				Name:        name,
				Host:        fmt.Sprintf("h%d", small("host", 1)),
				Threads:     small("threads", 3),
				Registry:    rapid.SampledFrom([]string{"", "r1"}).Draw(w.t, "registry"),
				Status:      rapid.SampledFrom(statuses).Draw(w.t, "status"),
				MemoryLimit: int64(small("limit", 2) * 3000),
				Can:         rapid.SampledFrom([]Can{0, Python, Go, Go | Python}).Draw(w.t, "can"),
			}
			if small("gpus", 1) > 0 {
				ev.Resources = []Resource{{"GPU", 2}}
			}
			w.apply(func() Event { e := ev; return &e })
		},
		"remove": func(*rapid.T) {
			id, safe, closing := w.worker(), small("safe", 1) == 0, small("close", 1) == 0
			delete(w.orders, id)
			w.apply(func() Event { return &RemoveWorker{Worker: id, Safe: safe, Close: closing, Reason: "test"} })
		},
		"status": func(*rapid.T) {
			statuses := []WorkerStatus{StatusRunning, StatusRunning, StatusPaused, StatusClosingGracefully}
			id, st := w.worker(), rapid.SampledFrom(statuses).Draw(w.t, "status")
			w.apply(func() Event { return &WorkerStatusChange{Worker: id, Status: st} })
		},
		"client": func(*rapid.T) {
			name := fmt.Sprintf("c%d", small("client", 2))
			w.apply(func() Event { return &AddClient{Name: name} })
		},
		"leave": func(*rapid.T) {
			id := w.client()
			if c := w.s.Client(id); c != nil && c.ID() != FireAndForget && small("really", 3) == 0 {
				delete(w.views, c.Name())
				w.apply(func() Event { return &RemoveClient{Client: id} })
			}
		},
		"graph": func(*rapid.T) { w.graph() }, "graph2": func(*rapid.T) { w.graph() },
		"finish": func(*rapid.T) { finish() }, "finish2": func(*rapid.T) { finish() },
		"finish3": func(*rapid.T) { finish() },
		"err": func(*rapid.T) {
			id, k, run := w.report()
			w.apply(func() Event { return &TaskErred{Worker: id, Key: k, RunID: run, ExceptionText: "boom"} })
		},
		"reschedule": func(*rapid.T) {
			id, k, run := w.report()
			w.apply(func() Event { return &Reschedule{Worker: id, Key: k, RunID: run} })
		},
		"secede": func(*rapid.T) {
			id, k, run := w.report()
			w.apply(func() Event { return &LongRunning{Worker: id, Key: k, RunID: run, Duration: time.Second} })
		},
		"add-keys": func(*rapid.T) {
			id, keys, adopt := w.worker(), w.keys(), small("adopt", 2) == 0
			w.apply(func() Event { return &AddKeys{Worker: id, Keys: keys, Adopt: adopt, NBytes: []int64{5}} })
		},
		"lose": func(*rapid.T) {
			id, k := w.worker(), w.key()
			w.apply(func() Event { return &ReleaseWorkerData{Worker: id, Key: k} })
		},
		"refresh": func(*rapid.T) {
			id, keys := w.worker(), w.keys()
			w.apply(func() Event { return &RequestRefreshWhoHas{Worker: id, Keys: keys} })
		},
		"steal": func(*rapid.T) {
			if len(w.steals) == 0 {
				return
			}
			a := w.steals[len(w.steals)-1]
			w.steals = w.steals[:len(w.steals)-1]
			states := []string{"ready", "waiting", "executing", "memory", "", "released"}
			st := rapid.SampledFrom(states).Draw(w.t, "state")
			given := st == "ready" || st == "waiting"
			if t := w.s.Task(a.Key); t != nil && t.steal != nil && t.steal.id == a.Number && given {
				delete(w.orders[a.Worker], a.Key)
			}
			w.apply(func() Event { return &StealResponse{Worker: a.Worker, Key: a.Key, Steal: a.Number, State: st} })
		},
		"tick": func(*rapid.T) {
			w.now = w.now.Add(time.Duration(small("seconds", 2)) * time.Second)
			w.apply(func() Event { return &Tick{} })
		},
		"heartbeat": func(*rapid.T) {
			id, k := w.worker(), w.key()
			w.apply(func() Event {
				return &Heartbeat{Worker: id, Memory: 5, Bandwidth: 1e8, Executing: []Executing{{k, time.Second}}}
			})
		},
		"desire": func(*rapid.T) {
			id, keys := w.client(), w.keys()
			w.apply(func() Event { return &ClientDesires{Client: id, Keys: keys} })
		},
		"release": func(*rapid.T) {
			id, keys := w.client(), w.keys()
			w.apply(func() Event { return &ClientReleases{Client: id, Keys: keys} })
		},
		"cancel": func(*rapid.T) {
			id, keys, force := w.client(), w.keys(), small("force", 2) == 0
			w.apply(func() Event { return &CancelKeys{Client: id, Keys: keys, Force: force, Reason: "test"} })
		},
		"retry": func(*rapid.T) {
			id, keys := w.client(), w.keys()
			w.apply(func() Event { return &Retry{Client: id, Keys: keys} })
		},
		"data": func(*rapid.T) {
			id, k, on := w.client(), w.key(), []WorkerID{w.worker(), w.worker()}
			w.apply(func() Event {
				return &UpdateData{Client: id, Data: []NewData{{Key: k, NBytes: 10, Workers: on, TypeName: "bytes"}}}
			})
		},
		"replicate": func(*rapid.T) {
			w.requests++
			n, keys, k, del := w.requests, w.keys(), small("n", 3), small("delete", 1) == 0
			w.apply(func() Event { return &Replicate{Request: n, Keys: keys, N: k, Delete: del, Keep: !del} })
		},
		"rebalance": func(*rapid.T) {
			w.requests++
			n := w.requests
			w.apply(func() Event { return &Rebalance{Request: n} })
		},
		"reduce": func(*rapid.T) { w.apply(func() Event { return &ReduceReplicas{} }) },
		"retire": func(*rapid.T) {
			w.requests++
			n, ids, remove := w.requests, []WorkerID{w.worker(), w.worker()}, small("remove", 1) == 0
			w.apply(func() Event { return &RetireWorkers{Request: n, Workers: ids, Close: true, Remove: remove} })
			w.dropGone()
		},
		"restrict": func(*rapid.T) {
			keys := w.keys()
			var to []string
			if small("lift", 1) == 0 {
				to = []string{fmt.Sprintf("w%d", small("to", 3))}
			}
			w.apply(func() Event { return &SetRestrictions{Keys: keys, Workers: to} })
		},
		"rerun": func(*rapid.T) {
			keys := w.keys()
			w.apply(func() Event { return &Rerun{Keys: keys} })
		},
		"watch": func(*rapid.T) {
			keys, off := w.keys(), small("off", 1) == 0
			w.apply(func() Event { return &Watch{Keys: keys, Off: off} })
		},
		"unqueue": func(*rapid.T) {
			keys := w.keys()
			w.apply(func() Event { return &Unqueue{Keys: keys} })
		},
		"resources": func(*rapid.T) {
			id, n := w.worker(), float64(small("gpus", 3))
			w.apply(func() Event { return &SetResources{Worker: id, Resources: []Resource{{"GPU", n}}} })
		},
		"expect": func(*rapid.T) {
			id, keys := w.client(), w.keys()
			w.apply(func() Event { return &ExpectData{Client: id, Keys: keys} })
		},
		"hold": func(*rapid.T) {
			on := small("on", 2) == 0
			w.apply(func() Event { return &Hold{On: on} })
		},
		"restart": func(*rapid.T) {
			if small("really", 9) == 0 {
				w.views = map[string]map[taskid.Key]string{}
				w.apply(func() Event { return &Restart{} })
			}
		},
		"report-key": func(*rapid.T) {
			id, k := w.client(), w.key()
			if c := w.s.Client(id); c != nil { // only holders of a key have a view of it
				w.apply(func() Event { return &ReportKey{Client: id, Key: k} })
			}
		},
		"": func(*rapid.T) { w.dropGone() },
	}
}

// dropGone forgets the views of removed workers.
func (w *world) dropGone() {
	for id := range w.orders {
		if w.s.Worker(id) == nil {
			delete(w.orders, id)
		}
	}
}

// finishAll lets all tasks run that can, and checks that every held key is done or erred.
func (w *world) finishAll() {
	w.apply(func() Event { return &Hold{} })
	for i := range 3 {
		name := fmt.Sprintf("w%d-last", i)
		registry := []string{"", "r1", "r2"}[i]
		w.apply(func() Event {
			return &AddWorker{Address: "tcp://" + name + ":1", Name: name, Host: "h", Threads: 2,
				Registry: registry, Can: Python | Go, Resources: []Resource{{"GPU", 5}}}
		})
	}
	w.apply(func() Event { return &SetRestrictions{Keys: keySpace} })
	for range 1000 {
		var t *Task
		for wk := range w.s.Workers() {
			for p := range wk.Processing() {
				t = p
			}
		}
		if t == nil {
			break
		}
		id, k, run := t.worker.id, t.key, t.runID
		w.apply(func() Event { return &TaskFinished{Worker: id, Key: k, RunID: run, NBytes: 1, TypeName: "int"} })
	}
	for c := range w.s.Clients() {
		for i := range c.NumWanted() {
			if t := c.Wanted(i); t.State() != Memory && t.State() != Erred {
				w.t.Fatalf("%s: stuck in %s\n%s", t.Key(), t.State(), w.s.log.text(t.Key()))
			}
		}
	}
	w.now = w.now.Add(time.Minute)
	w.apply(func() Event { return &Tick{} })
	w.now = w.now.Add(time.Minute)
	w.apply(func() Event { return &Tick{} })
	for n := uint64(1); n <= w.requests; n++ {
		if !w.answered[n] {
			w.t.Fatalf("request %d: not answered", n)
		}
	}
	w.apply(func() Event { return &Restart{} })
	if w.s.NumTasks() != 0 || len(w.s.notes.byID) != 0 || len(w.s.groups.byName) != 0 {
		w.t.Fatalf("got %d tasks, %d annotations, %d groups, want none", w.s.NumTasks(), len(w.s.notes.byID),
			len(w.s.groups.byName))
	}
}

func TestRandomEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		w.apply(func() Event { return &AddClient{Name: "c0"} })
		w.apply(func() Event { return &AddWorker{Address: "tcp://w0:1", Name: "w0", Host: "h0", Threads: 1} })
		t.Repeat(w.actions())
		w.finishAll()
	})
}
