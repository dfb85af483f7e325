package state

import (
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"go.millstream.dev/internal/task/taskid"
)

// More checks than the hundred of rapid: most failures were found after the first few hundred.
func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "rapid.checks" })
	if !given {
		if err := flag.Set("rapid.checks", "300"); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}

func TestHostOf(t *testing.T) {
	for address, want := range map[string]string{
		"tcp://10.0.0.1:8786":           "10.0.0.1",
		"tls://[::1]:8786":              "::1",
		"tcp://[fe80::1%eth0]:1":        "fe80::1%eth0",
		"ucxx://node7:13337":            "node7",
		"inproc://10.0.0.1/4242/1":      "10.0.0.1",
		"10.0.0.1:80":                   "10.0.0.1",
		"host":                          "host",
		"":                              "",
		"tcp://[broken":                 "[broken",
		"sim://w-1":                     "w-1",
		"tcp://name.with.dots.example:": "name.with.dots.example",
	} {
		if got := hostOf(address); got != want {
			t.Errorf("hostOf(%q) = %q, want %q", address, got, want)
		}
	}
}

// TestHeap: pops are ordered by priority, after any pushes and removals.
func TestHeap(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var h heap
		var in []*Task
		for i := range rapid.IntRange(0, 200).Draw(rt, "n") {
			if len(in) > 0 && rapid.IntRange(0, 3).Draw(rt, "remove") == 0 {
				at := rapid.IntRange(0, len(in)-1).Draw(rt, "at")
				h.remove(int(in[at].pos))
				in = slices.Delete(in, at, at+1)
				continue
			}
			k := &Task{priority: Priority{0, float64(rapid.IntRange(0, 2).Draw(rt, "g")),
				float64(rapid.IntRange(0, 9).Draw(rt, "p"))}, generation: int64(-i)}
			h.push(k, -1)
			in = append(in, k)
		}
		slices.SortFunc(in, func(a, b *Task) int {
			if a.before(b) {
				return -1
			}
			return 1
		})
		for i, want := range in {
			if got := h.pop(); got != want {
				rt.Fatalf("pop %d: %v, want %v", i, got.priority, want.priority)
			}
		}
		if h.len() != 0 {
			rt.Fatalf("got %d entries left, want 0", h.len())
		}
	})
}

// TestDeterminism: the same events give the same actions, independent of the order of maps.
func TestDeterminism(t *testing.T) {
	run := func() string {
		var b strings.Builder
		s := New(Config{Address: "tcp://h0:1", Threads: 2, Validate: true})
		var out Actions
		do := func(ev Event) {
			s.Apply(time.Unix(1, 0), ev, &out)
			for _, a := range out.List() {
				b.WriteString(traceAction(a) + "\n")
			}
		}
		for i := range 30 {
			ev := &ComputeTask{Key: taskid.NewKey(fmt.Sprintf("t%d", i)), RunID: int64(i + 1), Priority: Priority{0,
				0, float64(i % 7)}}
			for j := range i % 4 {
				ev.Deps = append(ev.Deps, Dep{Key: taskid.NewKey(fmt.Sprintf("d%d", i+j)), NBytes: 10,
					WhoHas: []string{fmt.Sprintf("tcp://h%d:1", i%5+1), fmt.Sprintf("tcp://h%d:1", j+2)}})
			}
			do(ev)
		}
		do(&GatherNetworkFailure{Peer: "tcp://h2:1"})
		do(&RemovePeer{Peer: "tcp://h3:1"})
		do(&SchedulerLost{})
		do(&Reattach{})
		return b.String()
	}
	want := run()
	for range 20 {
		if got := run(); got != want {
			t.Fatalf("second run differs:\n%s", diff(want, got))
		}
	}
}

// TestEventsAreBorrowed: the state keeps no memory of an event.
func TestEventsAreBorrowed(t *testing.T) {
	s := New(Config{Address: "tcp://h0:1", Validate: true})
	var out Actions
	key, dep, spec, addr := []byte(taskid.NewKey("x")), []byte(taskid.NewKey("dep")), []byte("spec"),
		[]byte("tcp://h1:1")
	note := []byte{0x80}
	s.Apply(time.Time{}, &ComputeTask{Key: taskid.Key(borrow(key)), RunID: 1, Spec: spec, Annotations: note,
		Deps: []Dep{{Key: taskid.Key(borrow(dep)), NBytes: 1, WhoHas: []string{borrow(addr)}}}}, &out)
	for _, b := range [][]byte{key, dep, spec, addr, note} {
		for i := range b {
			b[i] = 'Z'
		}
	}
	x := s.Task(taskid.NewKey("x"))
	if x == nil || string(x.Spec()) != "spec" || x.Annotations()[0] != 0x80 || x.Key() != taskid.NewKey("x") {
		t.Fatalf("got %v", x)
	}
	if d := x.Dep(0); d.Key() != taskid.NewKey("dep") || d.ComingFrom().Address() != "tcp://h1:1" ||
		s.Task(d.Key()) != d {
		t.Fatalf("dependency: got %v from %v", d, d.ComingFrom())
	}
	// A spec too large to share its memory with the key.
	large := make([]byte, 10*inlineSpec)
	s.Apply(time.Time{}, &ComputeTask{Key: taskid.NewKey("large"), RunID: 2, Spec: large}, &out)
	large[0] = 1
	if got := s.Task(taskid.NewKey("large")).Spec(); len(got) != len(large) || got[0] != 0 {
		t.Fatalf("spec: got %d bytes, the first is %d", len(got), got[0])
	}
}

func TestLog(t *testing.T) {
	s := New(Config{LogLength: 5})
	var out Actions
	for i := range 4 {
		now := time.Unix(int64(i), 0)
		s.Apply(now, &ComputeTask{Stimulus: fmt.Sprintf("compute-%d", i), Key: taskid.NewKey("x"), RunID: 1,
			Spec: []byte("s")}, &out)
		s.Apply(now, &ExecuteSuccess{Stimulus: strings.Repeat("long", 30), Stored: Stored{Key: taskid.NewKey("x")}},
			&out)
	}
	log := s.Log()
	if len(log) != 4 && len(log) != 5 {
		t.Fatalf("log: got %d entries", len(log))
	}
	if !slices.IsSortedFunc(log, func(a, b Transition) int { return a.Time.Compare(b.Time) }) {
		t.Errorf("out of order: %v", log)
	}
	if got := s.Story(nil, []string{strings.Repeat("long", 30)}); len(got) == 0 ||
		got[0].Event != "execute-success" || got[0].Final != Memory {
		t.Errorf("story of a long stimulus: %v", got)
	}
	if got := s.Story([]taskid.Key{taskid.NewKey("y")}, nil); got != nil {
		t.Errorf("story of an unknown key: got %v", got)
	}
	s.Apply(time.Unix(9, 0), &FreeKeys{Stimulus: "f", Keys: []taskid.Key{taskid.NewKey("x")}}, &out)
	story := s.Story([]taskid.Key{taskid.NewKey("x")}, nil)
	if text := story[len(story)-1].String(); text != "00:00:09.000000 x: released->forgotten by free-keys f" {
		t.Errorf("last line: got %q", text)
	}
	none := New(Config{LogLength: -1})
	none.Apply(time.Unix(0, 0), &UpdateData{Data: []Stored{{Key: taskid.NewKey("x")}}}, &out)
	if got := none.Log(); got != nil {
		t.Errorf("disabled log: got %v", got)
	}
}

func TestInspect(t *testing.T) {
	s := New(Config{Address: "tcp://h0:1", Resources: []Resource{{"R", 2}}, Validate: true})
	if cfg := s.Config(); cfg.Threads != 1 || cfg.MessageBytes != 50_000_000 || cfg.IncomingBytes != math.MaxInt64 ||
		cfg.BusyRetry != 150*time.Millisecond {
		t.Errorf("defaults: %+v", cfg)
	}
	s.SetAddress("tcp://h7:1")
	var out Actions
	do := func(ev Event) { s.Apply(time.Unix(1, 0), ev, &out) }
	if !s.Idle() || !s.Running() || !s.Attached() {
		t.Error("new state: want idle, running and attached")
	}
	do(&ComputeTask{Key: taskid.NewKey("x"), RunID: 5, Resources: []Resource{{"R", 1}}, SpanID: "span",
		Data: "mine", Priority: Priority{1, 2, 3}})
	do(&ComputeTask{Key: taskid.NewKey("y"), RunID: 6,
		Deps: []Dep{{Key: taskid.NewKey("d"), NBytes: 7, WhoHas: []string{"tcp://h7:1", "tcp://h7:2"}}}})
	x, d := s.Task(taskid.NewKey("x")), s.Task(taskid.NewKey("d"))
	if x.SpanID() != "span" || x.Data() != "mine" || x.RunID() != 5 || x.Priority() != (Priority{1, 2, 3}) ||
		x.State() != Executing || x.NBytes() != -1 {
		t.Errorf("x is %+v", x)
	}
	x.SetData(nil)
	if x.Data() != nil {
		t.Error("SetData")
	}
	if d.NumHolders() != 1 || !d.Holder(0).Local() || d.Holder(0).InFlight() != 1 || d.Holder(0).Busy() ||
		d.NumDependents() != 1 || d.Dependent(0).Key() != taskid.NewKey("y") {
		t.Errorf("d is %v", traceTask(d))
	}
	if _, ok := d.Previous(); ok {
		t.Error("d has no previous state")
	}
	if total, free := s.Resources(); total[0].Amount != 2 || free[0].Amount != 1 {
		t.Errorf("resources %v %v", total, free)
	}
	if s.Idle() || s.ExecutingCount() != 1 || s.Count(Flight) != 1 || s.Len() != 3 {
		t.Error("Idle: got true with a run and a transfer")
	}
	if st := s.Stats(); st.IncomingCount != 1 || st.IncomingBytes != 7 || st.IncomingTotal != 1 {
		t.Errorf("%+v", st)
	}
	n := 0
	s.Executing(func(k *Task) { n++ })
	do(&ExecuteSuccess{Stored: Stored{Key: taskid.NewKey("x"), NBytes: 9, TypeName: "int"}, Start: 3, Stop: 4,
		Thread: 5})
	start, stop, thread := x.Times()
	s.InMemory(func(k *Task) { n += 10 })
	if n != 11 || start != 3 || stop != 4 || thread != 5 || x.TypeName() != "int" || s.Stats().NBytes != 9 ||
		s.Stats().Executed != 1 {
		t.Errorf("n %d, times %d %d %d, %+v", n, start, stop, thread, s.Stats())
	}
	for _, st := range TaskStates() {
		if st.String() == "" {
			t.Errorf("state %d has no name", st)
		}
	}
	if noState.String() != "" || ActionKind(99).String() != "unknown" || DoGather.ToScheduler() ||
		!SendAddKeys.ToScheduler() {
		t.Error("names")
	}
	stopped := 0
	s.Tasks(func(*Task) bool { stopped++; return false })
	if stopped != 1 {
		t.Errorf("Tasks: got %d calls after false", stopped)
	}
}

// TestForgottenTasksAreReused: a task allocates its key and spec, and nothing else.
func TestForgottenTasksAreReused(t *testing.T) {
	s := New(Config{LogLength: 100})
	var out Actions
	now := time.Unix(1, 0)
	compute := &ComputeTask{Key: taskid.NewKey("x"), Spec: []byte("spec")}
	success := &ExecuteSuccess{Stored: Stored{Key: compute.Key, NBytes: 1}}
	free := &FreeKeys{Keys: []taskid.Key{compute.Key}}
	life := func() {
		compute.RunID++
		s.Apply(now, compute, &out)
		s.Apply(now, success, &out)
		s.Apply(now, free, &out)
	}
	for range 200 {
		life()
	}
	if n := testing.AllocsPerRun(100, life); n > 1 {
		t.Errorf("got %g allocations per task, want 1", n)
	}
}

func TestUnknownEvent(t *testing.T) {
	defer func() {
		if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "unknown event") {
			t.Errorf("recovered %v", r)
		}
	}()
	New(Config{}).Apply(time.Unix(0, 0), nil, &Actions{})
}

func TestInvalidTransition(t *testing.T) {
	s := New(Config{Address: "tcp://h0:1"})
	var out Actions
	s.Apply(time.Unix(0, 0), &ComputeTask{Stimulus: "why", Key: taskid.NewKey("x"), RunID: 1}, &out)
	s.Apply(time.Unix(0, 0), &FreeKeys{Keys: []taskid.Key{taskid.NewKey("x")}}, &out)
	defer func() {
		err, ok := recover().(*InvalidTransition)
		if !ok || err.Start != Cancelled || err.Finish != Ready || !strings.Contains(err.Error(),
			"ready->executing by compute-task why") {
			t.Errorf("recovered %v", err)
		}
	}()
	s.ev, s.out = &Pause{}, &out
	s.transition(s.Task(taskid.NewKey("x")), Ready)
}
