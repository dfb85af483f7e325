package state

import (
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/task/taskid"
)

// busyTrace leads to a state with tasks of every kind: x, r2 and dat are in memory on a, act is an actor there; e has
// erred; y is processed by b, which has yet to fetch x; z waits for y; l is long-running and g uses a resource on a, as
// does p1; p2 and p3 are queued; n and m have no worker; r1 is released; o is queued, and no worker has its functions.
const busyTrace = `
config saturation=1 +nosteal
worker a threads=2 resources=GPU:2
worker b
worker s status=paused
client c
client d
graph c: x {workers=a}; e {workers=a}
finished a x nbytes=100
erred a e
graph c +actors: act {workers=a}
finished a act
graph c want=r2: r1 {workers=a}; r2 <- r1 {workers=a}
finished a r1
finished a r2
data c dat on=a
graph c: y <- x {workers=b}; z <- y; l {workers=a}; g {workers=a resources=GPU:1}; n {workers=z}; m {workers=z}
secede a l
graph c: p1 {+producer}; p2 {+producer}; p3 {+producer}
graph d registry=f: o
`

func busyState(t *testing.T) *State {
	t.Helper()
	var s *State
	replayOn(t, busyTrace, func(made *State) { s = made })
	for key, want := range map[string]TaskState{
		"x": Memory, "r2": Memory, "dat": Memory, "act": Memory, "e": Erred, "y": Processing, "z": Waiting,
		"l": Processing,
		"g": Processing, "p1": Processing, "p2": Queued, "p3": Queued, "n": NoWorkerState, "m": NoWorkerState,
		"r1": Released, "o": Queued,
	} {
		if x := s.Task(taskid.NewKey(key)); x == nil || x.State() != want {
			t.Fatalf("%s: not %s", key, want)
		}
	}
	return s
}

func at(s *State, key string) *Task { return s.tasks.Get(taskid.NewKey(key)) }

func named(s *State, name string) *Worker { return s.workers.byName[name] }

// breakers has, for every rule, a change of busyState that breaks it and no rule before it, and a part of the report.
var breakers = map[string]struct {
	hurt func(s *State)
	want string
}{
	"event-complete": {func(s *State) { s.recommend(at(s, "x"), toReleased) },
		"task x (memory): recommended as released"},
	"lasting-state": {func(s *State) { at(s, "x").state = Forgotten }, "task x (forgotten): still known"},
	"key-index": {func(s *State) { at(s, "x").key = taskid.NewKey("zz") },
		"task zz (memory): not found by its key"},
	"task-home":         {func(s *State) { at(s, "x").pool = nil }, "task x (memory): has no group or no pool"},
	"processing-worker": {func(s *State) { at(s, "y").worker = nil }, "task y (processing): has a worker: false"},
	"memory-holders": {func(s *State) { s.ledger.dropReplica(at(s, "x"), named(s, "a")) },
		"task x (memory): has 0 holders"},
	"short-value":   {func(s *State) { at(s, "r2").value = new(shortValue) }, "task r2 (memory): has a short value"},
	"erred-failure": {func(s *State) { at(s, "e").failure = nil }, "task e (erred): has the failure"},
	"queued-place":  {func(s *State) { at(s, "p2").place = -1 }, "task p2 (queued): has the place -1"},
	"run-flags": {func(s *State) { at(s, "n").refused = true },
		"task n (no-worker): long-running false, refused true"},
	"orphan-done": {func(s *State) { at(s, "y").orphan = true },
		"task y (processing): has lost a dependency for good"},
	"needed-in-play":    {func(s *State) { at(s, "g").dropWant(s.Client(1)) }, "task g (processing): not needed"},
	"released-unneeded": {func(s *State) { at(s, "r1").addWant(s.Client(1)) }, "task r1 (released): needed"},
	"referenced":        {func(s *State) { at(s, "e").dropWant(s.Client(1)) }, "task e (erred): is not referenced"},

	"dependency-known": {func(s *State) {
		loose := &Task{key: taskid.NewKey("loose"), state: Memory}
		at(s, "z").deps = append(at(s, "z").deps, edge{loose, 0})
	}, "task z (waiting): dependency loose is not known"},
	"dependency-edges": {func(s *State) { at(s, "x").dependents[0].back = 5 },
		"task x (memory): dependent y does not refer to it"},
	"dependency-state": {func(s *State) {
		at(s, "y").state, at(s, "y").worker, at(s, "y").failure = Erred, nil, &Failure{}
	}, "task z (waiting): needs y, which is erred"},
	"waiter-count":  {func(s *State) { at(s, "x").waiters++ }, "task x (memory): has 1 dependents in play, counted 2"},
	"waiting-count": {func(s *State) { at(s, "z").waitingOn = 2 }, "task z (waiting): waits for 1, counted 2"},
	"waiting-cause": {func(s *State) { at(s, "n").state = Waiting }, "task n (waiting): waits for nothing"},
	"sent-ahead": {func(s *State) { at(s, "z").ahead = named(s, "a") },
		"task z (waiting): is sent ahead to tcp://a:1, which does not run y"},
	"ready-inputs": {func(s *State) { at(s, "z").state, at(s, "z").waitingOn = NoWorkerState, 0 },
		"task z (no-worker): lacks 1"},
	"holder-edges": {func(s *State) { at(s, "x").holders[0].place = 9 },
		"task x (memory): worker tcp://a:1 does not hold it"},
	"holder-set": {func(s *State) { at(s, "x").wide = &bitset{} },
		"task x (memory): worker tcp://a:1 is not in the set"},
	"replicated-list": {func(s *State) { s.ledger.replicated.add(at(s, "x")) },
		"task x (memory): has 1 holders, listed as replicated: true"},
	"want-edges":   {func(s *State) { s.Client(1).wants = nil }, "client c does not want it"},
	"client-index": {func(s *State) { delete(s.clients.byName, "c") }, "client c is not found"},
	"client-wants": {func(s *State) {
		d := s.Client(2)
		d.wants = append(d.wants, wanted{at(s, "x"), 7})
	}, "task x (memory): does not refer to client d, which wants it"},
	"stranded-choice": {func(s *State) { at(s, "n").notes = nil }, "task n (no-worker): could run on a worker"},
	"steal-victim": {func(s *State) {
		at(s, "y").steal = &stealing{victim: named(s, "a"), thief: named(s, "b")}
	}, "task y (processing): is being stolen from another worker"},

	"state-count": {func(s *State) { s.counts[Memory]++ }, "4 tasks are memory, counted 5"},
	"group-list": {func(s *State) {
		s.groups.list = append(s.groups.list, &Group{name: "none"})
	}, "groups have tasks"},
	"group-count":     {func(s *State) { at(s, "x").group.total++ }, "group x: 1 tasks, counted 2"},
	"group-bytes":     {func(s *State) { at(s, "x").group.nbytes++ }, "group x: 100 bytes, counted 101"},
	"annotation-refs": {func(s *State) { at(s, "g").notes.refs++ }, "annotations of 1 tasks count 2"},
	"steal-count":     {func(s *State) { s.steals.inFlight++ }, "0 tasks are being stolen, counted 1"},
	"stranded-list":   {func(s *State) { s.stranded.n++ }, "2 tasks are listed without a worker, counted 3 and 2"},

	"worker-index":  {func(s *State) { delete(s.workers.byName, "b") }, "worker tcp://b:1: not found"},
	"worker-totals": {func(s *State) { s.workers.threads++ }, "3 workers, 2 running, 4 threads; counted 3, 2, 5"},
	"running-place": {func(s *State) { named(s, "s").place = 0 },
		"worker tcp://s:1: is paused and has place 0 in its pool"},
	"worker-lists": {func(s *State) { named(s, "b").lists[unstealable].n++ },
		"worker tcp://b:1: has 1 tasks in list 15, counted 2"},
	"worker-processing": {func(s *State) { named(s, "b").processing++ },
		"worker tcp://b:1: processes 1 (0 long-running), counted 2 (0)"},
	"worker-prefixes": {func(s *State) { named(s, "b").others++ }, "worker tcp://b:1: counts 1 by estimate, has 0"},
	"prefix-processing": {func(s *State) { at(s, "y").group.prefix.processing++ },
		"prefix y: 1 tasks are processing, counted 2"},
	"resource-use": {func(s *State) { named(s, "a").used[0] = 2 },
		"worker tcp://a:1: has 1 of GPU in use, counted 2"},
	"fetch-needs": {func(s *State) {
		named(s, "b").needs[at(s, "x")] = need{tasks: 2, nbytes: 100}
	}, "task x (memory): is needed by 1 tasks on tcp://b:1, counted 2"},
	"fetch-bytes": {func(s *State) { s.ledger.netBytes++ }, "workers fetch 100 bytes, counted 101"},
	"worker-holds": {func(s *State) {
		a := named(s, "a")
		a.holds = append(a.holds, held{at(s, "g"), 0})
	}, "task g (processing): is held by tcp://a:1"},
	"worker-bytes":  {func(s *State) { named(s, "a").nbytes++ }, "bytes, counted"},
	"worker-actors": {func(s *State) { named(s, "a").actors++ }, "worker tcp://a:1: has 1 actors, counted 2"},
	"worker-load":   {func(s *State) { named(s, "a").load = 9 }, "worker tcp://a:1: has the load 9"},

	"pool-list":  {func(s *State) { s.pools.list = s.pools.list[:0] }, "1 pools, 0 listed"},
	"pool-tasks": {func(s *State) { s.pools.any.tasks++ }, `pool "" has 15 tasks, counted 16`},
	"pool-links": {func(s *State) { s.pools.any.by = nil }, "do not refer to each other"},
	"pool-workers": {func(s *State) { s.pools.any.workers++ },
		`pool "" has 3 workers with 4 threads, counted 4 and 4`},
	"pool-heap":     {func(s *State) { s.pools.any.heap[0].assigned = 1 << 40 }, `pool "" is not a heap at 1`},
	"queue-members": {func(s *State) { s.pools.any.queue.n++ }, `the queue of pool "" has 2 tasks, counted 3`},
	"queue-order": {func(s *State) { at(s, "p3").prio.User = -9 },
		"task p3 (queued): goes before the first of its queue"},
	"queue-slot": {func(s *State) { s.cfg.WorkerSaturation = 5 }, "task p2 (queued): is queued although"},
}

// TestRules checks that every rule has a unique name and a statement, holds for a busy state, and is reported when it
// is broken.
func TestRules(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rules() {
		if r.Name == "" || seen[r.Name] || !strings.HasSuffix(r.Statement, ".") {
			t.Errorf("rule %q: got statement %q", r.Name, r.Statement)
		}
		seen[r.Name] = true
		t.Run(r.Name, func(t *testing.T) {
			b, ok := breakers[r.Name]
			if !ok {
				t.Fatal("rule: got no breaker")
			}
			s := busyState(t)
			if err := s.Check(); err != nil {
				t.Fatalf("before: got error %v, want none", err)
			}
			b.hurt(s)
			err := s.Check()
			if err == nil || !strings.HasPrefix(err.Error(), r.Name+": ") || !strings.Contains(err.Error(), b.want) {
				t.Errorf("got %v\nwant %s: … %s", err, r.Name, b.want)
			}
		})
	}
	for name := range breakers {
		if !seen[name] {
			t.Errorf("unknown rule %s", name)
		}
	}
}

// TestCheckPanics checks that with Validate a broken rule is a panic with the rule, the event and the story.
func TestCheckPanics(t *testing.T) {
	r := newRig(Config{Validate: true})
	c := r.addClient("c")
	r.submit(t, c, "x")
	r.Task(taskid.NewKey("x")).waiters = 7
	defer func() {
		err, ok := recover().(*InvalidState)
		if !ok || err.Rule != "waiter-count" {
			t.Fatalf("recovered: got %v, want waiter-count", err)
		}
		for _, want := range []string{"waiter-count: scheduler/state: task x (queued)", "counted 7", "*state.Tick",
			"story of x", "waiting -> queued"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("no %q in the report:\n%v", want, err)
			}
		}
	}()
	r.now = r.now.Add(time.Second)
	r.apply(&Tick{})
	t.Error("Apply: got no panic")
}
