package state

import (
	"strings"
	"testing"
	"time"
	"unsafe"

	"go.millstream.dev/internal/taskid"
)

// borrow is a string that shares the memory of b, as servers make them.
func borrow(b []byte) string { return unsafe.String(&b[0], len(b)) }

// busyState has a task in nearly every state: r runs, l has seceded, q is ready, c is
// constrained, w waits for f (flight) and m (missing), v for g (fetch), e erred, d is here,
// x is cancelled.
func busyState(t *testing.T) *State {
	t.Helper()
	s := New(Config{Address: "tcp://h0:1", Threads: 2, Resources: []Resource{{"R", 1}}, MessageBytes: 10, Validate: true})
	var out Actions
	for _, line := range []string{
		"compute d", "ok d#4", "compute e", "fail e boom", "compute x", "free x", "secede x", "compute l", "secede l",
		"compute r prio=1 res=R:1", "compute r2 prio=1", "compute q prio=5 deps=d@h2:1", "compute c prio=6 res=R:1",
		"compute w prio=7 deps=f@h1:1#10,m", "compute v prio=8 deps=g@h1:1#10",
	} {
		s.Apply(time.Unix(0, 0), traceEvent(t, strings.Fields(line)), &out)
	}
	for key, want := range map[string]TaskState{"d": Memory, "e": Erred, "x": Cancelled, "l": LongRunning, "r": Executing, "q": Ready, "c": Constrained,
		"w": Waiting, "f": Flight, "m": Missing, "g": Fetch} {
		if k := s.Task(taskid.NewKey(key)); k == nil || k.State() != want {
			t.Fatalf("%s is %v, want %v", key, k, want)
		}
	}
	return s
}

// TestCheckFinds breaks one thing at a time: each is found, and by name.
func TestCheckFinds(t *testing.T) {
	at := func(s *State, key string) *Task { return s.tasks[taskid.NewKey(key)] }
	for name, c := range map[string]struct {
		hurt func(s *State)
		want string
	}{
		"wrong key":            {func(s *State) { s.tasks[taskid.NewKey("zz")] = at(s, "d") }, "it is known as zz"},
		"left undone":          {func(s *State) { at(s, "q").rec = Memory }, "left undone"},
		"forgotten":            {func(s *State) { at(s, "e").state = Forgotten }, "no task stays in this state"},
		"counts":               {func(s *State) { s.counts[Memory]++ }, "counts are"},
		"nbytes":               {func(s *State) { s.nbytes++ }, "nbytes is 5, want 4"},
		"fetch count":          {func(s *State) { s.fetchCount++ }, "fetchCount"},
		"back edge":            {func(s *State) { at(s, "f").dependents = nil }, "f flight: nwaiters is 1, want 0"},
		"edge":                 {func(s *State) { at(s, "q").deps = nil }, "does not know it"},
		"waiting count":        {func(s *State) { at(s, "w").nwaiting++ }, "nwaiting is 3, want 2"},
		"waiters count":        {func(s *State) { at(s, "g").nwaiters++ }, "nwaiters is 2, want 1"},
		"waits for nothing":    {func(s *State) { at(s, "v").deps[0].waiting = false }, "g fetch: nwaiters is 1, want 0"},
		"data of a ready task": {func(s *State) { s.setState(at(s, "d"), Released); at(s, "d").stored = false; s.nbytes = 0 }, "is not here"},
		"holder":               {func(s *State) { at(s, "g").whoHas[0].has = 7 }, "does not know it"},
		"unknown peer":         {func(s *State) { delete(s.peers, "tcp://h1:1") }, "is not a peer"},
		"not in the heap":      {func(s *State) { at(s, "g").whoHas[0].heap = -1 }, "in the heap of"},
		"nobody wants it":      {func(s *State) { s.unlink(at(s, "v"), 0); at(s, "g").rec = noState }, "wanted false"},
		"stored":               {func(s *State) { at(s, "d").stored = false }, "stored false"},
		"previous":             {func(s *State) { at(s, "x").previous = noState }, "previous is"},
		"flags":                {func(s *State) { at(s, "q").aborted = true }, "flags of a run"},
		"coming from":          {func(s *State) { at(s, "f").comingFrom = nil }, "coming from"},
		"transfer":             {func(s *State) { s.peers["tcp://h1:1"].inFlight = nil }, "the transfer from"},
		"failure":              {func(s *State) { at(s, "e").failure = nil }, "no failure"},
		"list":                 {func(s *State) { at(s, "m").pos = 3 }, "of missing"},
		"executing":            {func(s *State) { s.executing.tasks = s.executing.tasks[:1] }, "executing has 1 tasks, want 2"},
		"ready":                {func(s *State) { at(s, "q").pos = 3 }, "ready has it at 0 and not at 3"},
		"flights":              {func(s *State) { s.flights++ }, "2 transfers of"},
		"askable":              {func(s *State) { s.peers["tcp://h1:1"].pos = 0 }, "can be asked: false, at 0"},
		"resources":            {func(s *State) { s.supplies[0].available++ }, "are available"},
		"users":                {func(s *State) { s.needSets[0].users++ }, "users, want"},
		"threads":              {func(s *State) { s.cfg.Threads = 1 }, "2 tasks run on 1 threads"},
		"could run":            {func(s *State) { s.cfg.Threads = 9 }, "it could run"},
		"released alone": {func(s *State) {
			var out Actions
			s.ev, s.out = &Pause{}, &out
			s.release(at(s, "e"))
			at(s, "e").rec = noState
		}, "nobody depends on it"},
	} {
		t.Run(name, func(t *testing.T) {
			s := busyState(t)
			if err := s.Check(); err != nil {
				t.Fatalf("before: %v", err)
			}
			c.hurt(s)
			err := s.Check()
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("found %v, want %q", err, c.want)
			}
		})
	}
}

// TestValidatePanics: with Config.Validate a broken state does not go on.
func TestValidatePanics(t *testing.T) {
	s := busyState(t)
	s.nbytes = 77
	defer func() {
		if err, ok := recover().(*InvalidState); !ok || !strings.Contains(err.Error(), "nbytes is 77") {
			t.Errorf("recovered %v", err)
		}
	}()
	s.Apply(time.Unix(0, 0), &Pause{}, &Actions{})
}
