package state

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.millstream.dev/internal/task/taskid"
)

// TestStepTable: each pair of a state and a target has one row, with a name and states that it leads to.
func TestStepTable(t *testing.T) {
	type pair struct {
		from TaskState
		to   target
	}
	seen := map[pair]bool{}
	for _, st := range Steps() {
		p := pair{st.From, st.target}
		if seen[p] || st.Name == "" || len(st.To) == 0 || st.Recommended != targetNames[st.target] {
			t.Errorf("row %s -> %s: %q, to %v, seen %v", st.From, st.Recommended, st.Name, st.To, seen[p])
		}
		if st.From == Forgotten || slices.Contains(st.To, st.From) {
			t.Errorf("row %s -> %s leads to %v", st.From, st.Recommended, st.To)
		}
		seen[p] = true
	}
	n := 0
	for from := range dispatch {
		for to, do := range dispatch[from] {
			if (do != nil) != seen[pair{TaskState(from), target(to)}] {
				t.Errorf("%s -> %d: dispatched %v", TaskState(from), to, do != nil)
			}
			if do != nil {
				n++
			}
		}
	}
	if n != len(Steps()) {
		t.Errorf("%d functions are dispatched, want %d", n, len(Steps()))
	}
}

// stepEnd is one way through a row of the table.
type stepEnd struct {
	from TaskState
	to   target
	end  TaskState
}

// TestStepsHappen: the traces make every step and every move of the tables with each of its ends, and nothing else.
func TestStepsHappen(t *testing.T) {
	files, err := filepath.Glob("testdata/*.trace")
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	happened := map[stepEnd]bool{}
	moved := map[[2]TaskState]bool{}
	watch := func(s *State) {
		s.onStep = func(from TaskState, to target, end TaskState) { happened[stepEnd{from, to, end}] = true }
		s.onMove = func(from, to TaskState) { moved[[2]TaskState{from, to}] = true }
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		replayOn(t, string(raw), watch)
	}
	for e := range rareSteps {
		happened[e] = true // see TestRareSteps
	}
	for _, st := range Steps() {
		for _, end := range st.To {
			if !happened[stepEnd{st.From, st.target, end}] {
				t.Errorf("no trace has a %s task that is recommended as %s (%s) and becomes %s",
					st.From, st.Recommended, st.Name, end)
			}
		}
		for e := range happened {
			if e.from == st.From && e.to == st.target && e.end != e.from && !slices.Contains(st.To, e.end) {
				t.Errorf("a %s task that is recommended as %s became %s: the row has %v",
					e.from, st.Recommended, e.end, st.To)
			}
		}
	}
	for _, m := range Moves() {
		if !moved[[2]TaskState{m.From, m.To}] {
			t.Errorf("no trace moves a task from %s to %s (%s)", m.From, m.To, m.Name)
		}
	}
}

// rareSteps are those that need a recommendation to come up after the task has changed within the same event.
var rareSteps = map[stepEnd]bool{{Released, toErred, Erred}: true, {Erred, toForgotten, Forgotten}: true}

// TestRareSteps makes the steps of rareSteps without the events that would lead to them.
func TestRareSteps(t *testing.T) {
	r := newRig(Config{Validate: true})
	r.addWorkers(1, 1)
	c := r.addClient("c")
	r.submit(t, c, "x", "y <- x")
	r.apply(&ClientReleases{Client: c, Keys: keysOf("x")})
	r.finish(t, "x", 5, 0)
	r.finish(t, "y", 5, 0)
	x := r.Task(taskid.NewKey("x"))
	if x.State() != Released {
		t.Fatalf("x is %s", x.State())
	}
	r.transition(x, toErred)
	if x.State() != Released {
		t.Errorf("x is %s without a failure", x.State())
	}
	x.failure = &Failure{Kind: TaskFailed, ExceptionText: "boom"}
	r.transition(x, toErred)
	if x.State() != Erred || x.Failure().Error() != "boom" {
		t.Errorf("x is %s with %v", x.State(), x.Failure())
	}
	r.transition(x, toForgotten)
	if x.State() != Forgotten || r.Task(taskid.NewKey("x")) != nil {
		t.Errorf("x is %s", x.State())
	}
	if y := r.Task(taskid.NewKey("y")); y.State() != Memory || !y.orphan || y.NumDeps() != 0 {
		t.Errorf("y is %s with %d dependencies", y.State(), y.NumDeps())
	}
}

// TestMoveRefused: with Config.Validate a change of state that the tables do not have is not made.
func TestMoveRefused(t *testing.T) {
	r := newRig(Config{Validate: true})
	r.addWorkers(1, 1)
	c := r.addClient("c")
	r.submit(t, c, "x")
	r.finish(t, "x", 5, 0)
	x := r.Task(taskid.NewKey("x"))
	defer func() {
		text := fmt.Sprint(recover())
		if !strings.Contains(text, "task x: there is no way from memory to queued; story:") || x.state != Memory {
			t.Errorf("recovered %v, the task is %s", text, x.state)
		}
	}()
	r.setState(x, Queued)
}
