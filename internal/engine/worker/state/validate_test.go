package state

import (
	"strings"
	"testing"
	"time"
	"unsafe"

	"go.millstream.dev/internal/task/taskid"
)

// borrow returns a string that shares the memory of b, as servers make them.
func borrow(b []byte) string { return unsafe.String(&b[0], len(b)) }

// busyState returns a state with a task in nearly every state: r runs, l has seceded, q is ready, c is constrained, w
// waits for f (flight) and m (missing), v for g (fetch), e erred, d is in memory, x is canceled.
func busyState(t *testing.T) *State {
	t.Helper()
	s := New(Config{Address: "tcp://h0:1", Threads: 2, Resources: []Resource{{"R", 1}}, MessageBytes: 10,
		Validate: true})
	var out Actions
	for _, line := range []string{
		"compute d", "ok d#4", "compute e", "fail e boom", "compute x", "free x", "secede x", "compute l", "secede l",
		"compute r prio=1 res=R:1", "compute r2 prio=1", "compute q prio=5 deps=d@h2:1", "compute c prio=6 res=R:1",
		"compute q2 prio=9",
		"compute w prio=7 deps=f@h1:1#10,m", "compute v prio=8 deps=g@h1:1#10",
	} {
		s.Apply(time.Unix(0, 0), traceEvent(t, strings.Fields(line)), &out)
	}
	for key, want := range map[string]TaskState{"d": Memory, "e": Erred, "x": Cancelled, "l": LongRunning,
		"r": Executing, "q": Ready, "c": Constrained,
		"w": Waiting, "f": Flight, "m": Missing, "g": Fetch} {
		if k := s.Task(taskid.NewKey(key)); k == nil || k.State() != want {
			t.Fatalf("%s is %v, want %v", key, k, want)
		}
	}
	return s
}

// breakers has, for every rule, a change of busyState that breaks it and no rule before it, and a part of the report.
var breakers = map[string]struct {
	hurt func(s *State)
	want string
}{
	"key-index": {func(s *State) { at(s, "d").key = taskid.NewKey("zz") },
		"zz memory: not found by its key"},
	"lasting-state":  {func(s *State) { at(s, "e").state = Forgotten }, "stays in state 14"},
	"event-complete": {func(s *State) { at(s, "q").rec = Memory }, "q ready: recommended memory"},
	"released-referenced": {func(s *State) {
		var out Actions
		s.ev, s.out = &Pause{}, &out
		s.release(at(s, "e"))
		at(s, "e").rec = noState
	}, "no task depends on it"},
	"resource-state": {func(s *State) { at(s, "c").needs = nil }, "c constrained: needs no resources"},
	"erred-failure":  {func(s *State) { at(s, "e").failure = nil }, "e error: has no failure"},
	"stored-value":   {func(s *State) { at(s, "d").stored = false }, "d memory: stored false"},
	"run-flags":      {func(s *State) { at(s, "q").aborted = true }, "q ready: aborted true"},

	"dependency-known": {func(s *State) { s.tasks.Remove(at(s, "d")) },
		"dependency d memory is not known"},
	"dependency-edges":    {func(s *State) { at(s, "q").deps = nil }, "d memory: dependent q ready has no edge to it"},
	"waiting-for-arrival": {func(s *State) { at(s, "m").state = Released }, "w waiting: waits for m released"},
	"waiting-flags": {func(s *State) { at(s, "v").deps[0].waiting = false },
		"v waiting: waits for g fetch: false"},
	"ready-inputs": {func(s *State) { at(s, "d").state, at(s, "d").stored = Fetch, false },
		"q ready: d fetch is not in memory"},
	"waiting-count": {func(s *State) { at(s, "w").nwaiting++ }, "w waiting: nwaiting is 3, want 2"},
	"waiter-count":  {func(s *State) { at(s, "g").nwaiters++ }, "g fetch: nwaiters is 2, want 1"},
	"waiting-state": {func(s *State) { at(s, "r2").state = Waiting }, "r2 waiting: waits for 0 dependencies"},

	"holder-known": {func(s *State) { delete(s.peers.byAddress, "tcp://h1:1") }, "holder tcp://h1:1 is not a peer"},
	"holder-edges": {func(s *State) { at(s, "g").whoHas[0].has = 7 }, "g fetch: holder tcp://h1:1 has no edge to it"},
	"fetch-heaps":  {func(s *State) { at(s, "g").whoHas[0].heap = -1 }, "g fetch: place -1 in the heap of tcp://h1:1"},
	"fetch-wanted": {func(s *State) {
		s.unlink(at(s, "v"), 0)
		at(s, "v").state, at(s, "g").rec = Executing, noState
	}, "g fetch: 1 holders, wanted false"},
	"missing-wanted": {func(s *State) {
		s.unlink(at(s, "w"), at(s, "m").dependents[0].slot)
		at(s, "m").rec = noState
	}, "m missing: 0 holders, wanted false"},

	"previous-state": {func(s *State) { at(s, "x").previous = noState }, "previous is"},
	"next-state":     {func(s *State) { at(s, "x").next = Fetch }, "x cancelled(long-running): next is fetch"},
	"resumed-direction": {func(s *State) {
		at(s, "x").state, at(s, "x").next = Resumed, Waiting
	}, "x resumed(long-running->waiting): wanted false"},
	"cancelled-unwanted": {func(s *State) { // by an unknown task, so that no other rule fails
		x := at(s, "x")
		x.dependents, x.nwaiters = []backEdge{{&Task{deps: []depEdge{{x, 0, true}}}, 0}}, 1
	}, "x cancelled(long-running): 1 wait for it"},
	"flight-wanted": {func(s *State) {
		s.unlink(at(s, "w"), at(s, "f").dependents[0].slot)
		at(s, "f").rec = noState
	}, "f flight: not wanted"},
	"scattered-in-flight": {func(s *State) { at(s, "x").scattered, at(s, "x").stored = true, true }, "scattered"},
	"coming-from":         {func(s *State) { at(s, "f").comingFrom = nil }, "f flight: coming from"},

	"state-counts": {func(s *State) { s.tasks.counts[Memory]++ }, "counts are"},
	"memory-bytes": {func(s *State) { s.nbytes++ }, "nbytes is 5, want 4"},
	"fetch-count":  {func(s *State) { s.fetchCount++ }, "fetchCount is 2, want 1"},
	"list-members": {func(s *State) { s.executing.tasks = s.executing.tasks[:1] }, "executing has 1 tasks, want 2"},
	"heap-members": {func(s *State) { at(s, "q").pos = 3 }, "ready has it at 0 and not at 3"},
	"heap-order":   {func(s *State) { s.ready.entries[0].priority[2] = 100 }, "q2 ready: ready is out of order at 1"},

	"peer-index": {func(s *State) { s.peers.byAddress["tcp://h9:9"] = &Peer{address: "tcp://h8:8", pos: -1} },
		"peer tcp://h8:8 is known as tcp://h9:9"},
	"peer-edges": {func(s *State) {
		p := s.peers.byAddress["tcp://h1:1"]
		p.has = append(p.has, peerTask{at(s, "d"), 5})
	}, "d memory: has no edge to its holder tcp://h1:1"},
	"askable-peers": {func(s *State) { s.peers.byAddress["tcp://h1:1"].pos = 0 }, "can be asked: false, at 0"},
	"transfer-members": {func(s *State) {
		p := s.peers.byAddress["tcp://h1:1"]
		p.inFlight = append(p.inFlight, at(s, "g"))
	}, "g fetch: is in the transfer from tcp://h1:1"},
	"transfer-totals": {func(s *State) { s.transfers.inFlight++ }, "2 transfers of 10 bytes, want 1 of 10"},

	"resource-balance": {func(s *State) { s.resources.supplies[0].available++ }, "1 of 1 R are available and 1 held"},
	"next-needs": {func(s *State) { at(s, "r").nextNeeds = at(s, "r").needs },
		"r executing: there is no next run"},
	"resource-users": {func(s *State) { s.resources.sets[0].users++ }, "a set of resources has 3 users, want 2"},

	"thread-limit": {func(s *State) { s.cfg.Threads = 1 }, "2 tasks run on 1 threads"},
	"announced": {func(s *State) { s.added = append(s.added, at(s, "d")) },
		"1 recommendations and announcements are left"},
	"idle-thread": {func(s *State) { s.cfg.Threads = 9 }, "q ready: could run"},
	"idle-transfer": {func(s *State) {
		p := s.peers.byAddress["tcp://h1:1"]
		f := at(s, "f")
		s.transfers.end(p)
		p.inFlight, f.comingFrom = nil, nil
		s.setState(f, Released)
		s.setState(f, Fetch)
		s.fetchCount++
		s.peers.updateAskable(p)
	}, "data could be fetched from tcp://h1:1"},
}

func at(s *State, key string) *Task { return s.tasks.Get(taskid.NewKey(key)) }

// TestRules: every rule has a unique name and a statement, holds for a busy state, and is named by the report when it
// is broken.
func TestRules(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rules() {
		if r.Name == "" || seen[r.Name] || !strings.HasSuffix(r.Statement, ".") {
			t.Errorf("rule %q: %q", r.Name, r.Statement)
		}
		seen[r.Name] = true
		t.Run(r.Name, func(t *testing.T) {
			b, ok := breakers[r.Name]
			if !ok {
				t.Fatal("no state that breaks the rule")
			}
			s := busyState(t)
			if err := s.Check(); err != nil {
				t.Fatalf("before: %v", err)
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

// TestValidatePanics: with Config.Validate a broken state panics.
func TestValidatePanics(t *testing.T) {
	s := busyState(t)
	s.nbytes = 77
	defer func() {
		if err, ok := recover().(*InvalidState); !ok || !strings.Contains(err.Error(),
			"memory-bytes: worker/state: nbytes is 77") {
			t.Errorf("recovered %v", err)
		}
	}()
	s.Apply(time.Unix(0, 0), &Pause{}, &Actions{})
}
