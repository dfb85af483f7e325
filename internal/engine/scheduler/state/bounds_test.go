package state

import (
	"fmt"
	"math"
	"testing"
	"time"

	"go.millstream.dev/internal/task/taskid"
)

// TestQueueable checks the bounds of root-ish tasks.
func TestQueueable(t *testing.T) {
	groups := func(totals ...int) (out []*Group) {
		for _, n := range totals {
			out = append(out, &Group{total: n})
		}
		return out
	}
	for _, c := range []struct {
		name  string
		total int // tasks of the group, with three threads
		deps  []*Group
		set   func(s *State, t *Task)
		want  bool
	}{
		{"two tasks per thread", 6, nil, nil, false},
		{"more than two tasks per thread", 7, nil, nil, true},
		{"four groups", 7, groups(1, 1, 1, 1), nil, true},
		{"five groups", 7, groups(0, 0, 0, 0, 0), nil, false},
		{"four tasks before", 7, groups(2, 2), nil, true},
		{"five tasks before", 7, groups(2, 3), nil, false},
		{"a producer", 1, groups(9, 9), func(_ *State, t *Task) { t.producer = true }, true},
		{"an actor", 7, nil, func(_ *State, t *Task) { t.actor = true }, false},
		{"restricted", 7, nil, func(_ *State, t *Task) { t.notes = &notes{restricted: true} }, false},
		{"with retries", 7, nil, func(_ *State, t *Task) { t.notes = &notes{} }, true},
		{"not to be queued", 7, nil, func(_ *State, t *Task) {
			t.notes = &notes{Annotations: Annotations{NotQueued: true}}
		}, false},
		{"no queue", 7, nil, func(s *State, t *Task) { s.cfg.WorkerSaturation, t.producer = math.Inf(1), true }, false},
		{"threads of others", 7, nil, func(s *State, t *Task) {
			t.pool = s.pools.of("f", 0) // one of the three threads has the functions
			t.pool.threads = 4
		}, false},
	} {
		r := newRig(Config{})
		r.addWorkers(3, 1)
		x := &Task{group: &Group{total: c.total, deps: c.deps}, pool: r.pools.any}
		if c.set != nil {
			c.set(r.State, x)
		}
		if got := queueable(r.State, x); got != c.want {
			t.Errorf("%s: queueable: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestSlots(t *testing.T) {
	short := func(average, nbytes float64) *Prefix { return &Prefix{average: average, nbytes: nbytes} }
	for _, c := range []struct {
		saturation  float64
		threads     int
		p           *Prefix
		base, depth int
	}{
		{1.1, 1, short(-1, 0), 2, 2},
		{1.1, 10, short(1, 0), 11, 11},
		{1, 4, short(1, 0), 4, 4},
		{0.1, 1, short(1, 0), 1, 1},
		{1, 2, short(0.005, 0), 2, 2},         // not short any more
		{1, 2, short(0.001, 0), 2, 20},        // 10 ms of work per thread
		{1, 2, short(0, 0), 2, 2 * 512},       // no more than that per thread
		{1, 2, short(0.001, 64<<10), 2, 2},    // large results are not sent ahead
		{1, 2, short(0.001, 64<<10-1), 2, 20}, // these are not large
		{30, 2, short(0.004, 0), 60, 60},      // the saturation allows more
		{math.Inf(1), 1, short(1, 0), math.MaxInt, math.MaxInt},
	} {
		s := New(Config{WorkerSaturation: c.saturation})
		base, depth := slotsFor(s, &Worker{threads: c.threads}, c.p)
		if base != c.base || depth != c.depth {
			t.Errorf("saturation %g, %d threads, %g s: got %d and %d slots, want %d and %d",
				c.saturation, c.threads, c.p.average, base, depth, c.base, c.depth)
		}
	}
}

func TestStealLevels(t *testing.T) {
	for _, c := range []struct {
		name    string
		seconds float64
		nbytes  int64 // of a dependency; -1 for none
		set     func(s *State, t *Task)
		want    uint8
	}{
		{"without dependencies", 1, -1, nil, 0},
		{"by the configuration too fast", 1, -1, func(_ *State, t *Task) { t.group.prefix.fast = true }, unstealable},
		{"an actor", 1, -1, func(_ *State, t *Task) { t.actor = true }, unstealable},
		{"switched off", 1, -1, func(s *State, _ *Task) { s.cfg.NoStealing = true }, unstealable},
		{"no time at all", 0, 100, nil, unstealable},
		{"a second, nearly nothing to move", 1, 0, nil, 3}, // log2(0.1) + 6
		{"a second, a second to move", 1, 90, nil, 6},
		{"long, nearly nothing to move", 1e6, 0, nil, 1},
		{"a second, 500 seconds to move", 1, 50_000, nil, unstealable},
		{"a second, 180 seconds to move", 1, 18_000, nil, 13},
	} {
		s := New(Config{Bandwidth: 100})
		x := looseTask("x", "x", -1)
		x.group.prefix.average = c.seconds
		if c.nbytes >= 0 {
			x.deps = []edge{{looseTask("d", "d", c.nbytes), 0}}
		}
		if c.set != nil {
			c.set(s, x)
		}
		if got := stealLevel(s, x); got != c.want {
			t.Errorf("%s: got level %d, want %d", c.name, got, c.want)
		}
	}
}

func TestUnoccupiedAndSaturated(t *testing.T) {
	r := newRig(Config{NoStealing: true})
	r.addWorkers(4, 1)
	c := r.addClient("c")
	a := &Annotations{Workers: []string{"w0"}}
	g := &Graph{}
	var keys []taskid.Key
	for i := range 10 {
		k := taskid.NewKey(fmt.Sprint("x-", i))
		keys = append(keys, k)
		g.Nodes = append(g.Nodes, Node{Key: k, Spec: []byte("f"), Annotations: a})
	}
	w0, w1 := r.Worker(0), r.Worker(1)
	if !r.Unoccupied(w0) || r.Saturated(w0) {
		t.Errorf("without tasks: got unoccupied %v, saturated %v, want true and false", r.Unoccupied(w0),
			r.Saturated(w0))
	}
	r.apply(&UpdateGraph{Client: c, Graph: g, Keys: keys})
	if r.Unoccupied(w0) || !r.Saturated(w0) || !r.Unoccupied(w1) || r.Saturated(w1) {
		t.Errorf("all on one: got unoccupied %v and %v, saturated %v and %v",
			r.Unoccupied(w0), r.Unoccupied(w1), r.Saturated(w0), r.Saturated(w1))
	}
	r.apply(&WorkerStatusChange{Worker: 0, Status: StatusPaused})
	r.apply(&WorkerStatusChange{Worker: 1, Status: StatusPaused})
	if r.Saturated(w0) || r.Unoccupied(w1) {
		t.Error("paused workers: got saturated or unoccupied")
	}
}

func TestHeartbeats(t *testing.T) {
	r := newRig(Config{Bandwidth: 100, Validate: true})
	r.addWorkers(4, 1)
	c := r.addClient("c")
	r.apply(&Heartbeat{Worker: 1, Bandwidth: 500})
	if b := r.Bandwidth(); b != 200 {
		t.Errorf("bandwidth after one of four workers measured 500: got %g, want 200", b)
	}
	r.apply(&Heartbeat{Worker: 1})
	if b := r.Bandwidth(); b != 200 {
		t.Errorf("bandwidth without a measurement: got %g, want 200", b)
	}
	r.submit(t, c, "x-1")
	x := r.Task(taskid.NewKey("x-1"))
	w := x.ProcessingOn()
	other := WorkerID(3 - int(w.ID()))
	beat := func(id WorkerID, took time.Duration) {
		r.apply(&Heartbeat{Worker: id, Executing: []Executing{{Key: x.Key(), For: took},
			{Key: taskid.NewKey("none"), For: 1}}})
	}
	beat(other, 9*time.Second)
	if o := r.Occupancy(w); o != 0.5 {
		t.Errorf("occupancy after a report of another worker: got %g s, want 0.5", o)
	}
	beat(w.ID(), 3*time.Second)
	if o := r.Occupancy(w); o != 6 {
		t.Errorf("occupancy after x has run for 3 s: got %g s, want 6", o)
	}
	r.apply(&LongRunning{Worker: w.ID(), Key: x.Key(), RunID: x.RunID(), Duration: 4 * time.Second})
	beat(w.ID(), time.Minute)
	if d, ok := x.Prefix().Duration(); d != 4*time.Second || !ok || !x.LongRunning() {
		t.Errorf("x seceded after 4 s: got duration %v, known %v", d, ok)
	}
	r.apply(&Heartbeat{Worker: 0, Memory: 70, Managed: 20, Spilled: 5})
	if w := r.Worker(0); w.memory != 70 || w.managed != 20 || w.spilled != 5 {
		t.Errorf("got memory %d, managed %d, spilled %d, want 70, 20 and 5", w.memory, w.managed, w.spilled)
	}
}

// TestLongRunningLearns checks that the time of a task before it seceded is used, if it is known.
func TestLongRunningLearns(t *testing.T) {
	r := newRig(Config{Validate: true})
	r.addWorkers(1, 4)
	c := r.addClient("c")
	r.submit(t, c, "x-1", "x-2", "x-3")
	secede := func(name string, took time.Duration) {
		x := r.Task(taskid.NewKey(name))
		r.apply(&LongRunning{Worker: 0, Key: x.Key(), RunID: x.RunID(), Duration: took})
	}
	secede("x-1", -1)
	p := r.Task(taskid.NewKey("x-1")).Prefix()
	if _, ok := p.Duration(); ok {
		t.Error("duration of an unknown prefix: got one")
	}
	secede("x-2", 2*time.Second)
	secede("x-2", 9*time.Second) // has seceded already
	secede("x-3", 4*time.Second)
	if d, _ := p.Duration(); d != 3*time.Second {
		t.Errorf("duration after 2 s and 4 s: got %v, want 3 s", d)
	}
	if w := r.Worker(0); w.seceded != 3 || w.active() != 0 || w.load != 0 || r.TotalOccupancy() != 0 {
		t.Errorf("got %d long-running, %d active, load %g, occupancy %g", w.seceded, w.active(), w.load,
			r.TotalOccupancy())
	}
}

func TestEpoch(t *testing.T) {
	r := newRig(Config{Validate: true})
	r.SetEpoch(3)
	r.addWorkers(1, 1)
	c := r.addClient("c")
	r.submit(t, c, "x")
	if id := r.Task(taskid.NewKey("x")).RunID(); id != 3<<32+1 {
		t.Errorf("first run of epoch 3: got %#x", id)
	}
}

// TestRetries checks that a task that fails runs again according to its annotations, and then errs with the exception
// of the worker.
func TestRetries(t *testing.T) {
	r := newRig(Config{Validate: true})
	r.addWorkers(1, 1)
	c := r.addClient("c")
	k := taskid.NewKey("x")
	g := &Graph{Nodes: []Node{{Key: k, Spec: []byte("f"), Annotations: &Annotations{Retries: 2}}}}
	r.apply(&UpdateGraph{Client: c, Graph: g, Keys: []taskid.Key{k}})
	for want := 1; want >= -1; want-- {
		x := r.Task(k)
		r.apply(&TaskErred{Worker: 0, Key: k, RunID: x.RunID()})
		if want >= 0 && (x.State() != Processing || x.Retries() != want) {
			t.Errorf("x: got %s with %d retries left, want %d", x.State(), x.Retries(), want)
		}
	}
	x := r.Task(k)
	if x.State() != Erred || x.Failure().Kind != TaskFailed || x.Failure().Error() == "" ||
		x.Failure().Worker != "tcp://w0:1" {
		t.Errorf("x: got %s: %+v", x.State(), x.Failure())
	}
}

// TestRetryForgives checks that a task that a client retries may lose as many workers as before.
func TestRetryForgives(t *testing.T) {
	r := newRig(Config{Validate: true, AllowedFailures: 1})
	r.addWorkers(5, 1)
	c := r.addClient("c")
	r.submit(t, c, "x")
	k := taskid.NewKey("x")
	kill := func() {
		t.Helper()
		w := r.Task(k).ProcessingOn()
		if w == nil {
			t.Fatalf("x: got %s, want processing", r.Task(k).State())
		}
		r.apply(&RemoveWorker{Worker: w.ID(), Reason: "killed"})
	}
	kill()
	kill()
	x := r.Task(k)
	if x.State() != Erred || x.Failure().Kind != KilledWorker || x.Suspicious() != 2 || x.Prefix().Suspicious() != 2 {
		t.Fatalf("x: got %s after %d lost workers, %d of its prefix", x.State(), x.Suspicious(),
			x.Prefix().Suspicious())
	}
	ev := &Retry{Client: c, Keys: []taskid.Key{k}}
	r.apply(ev)
	if len(ev.Retried) != 1 || x.Suspicious() != 0 || x.State() != Processing {
		t.Errorf("retried %v: got x %s after %d lost workers", ev.Retried, x.State(), x.Suspicious())
	}
	kill()
	if x.State() != Processing {
		t.Errorf("x: got %s after one more lost worker, want processing", x.State())
	}
}
