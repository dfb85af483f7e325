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

// TestStepTable checks that each pair of a state and a target has one row, with a name and resulting states.
func TestStepTable(t *testing.T) {
	type pair struct {
		from TaskState
		to   target
	}
	seen := map[pair]bool{}
	for _, st := range Steps() {
		p := pair{st.From, st.target}
		if seen[p] || st.Name == "" || len(st.To) == 0 || st.Recommended != targetNames[st.target] {
			t.Errorf("row %s -> %s: got %q, to %v, seen %v", st.From, st.Recommended, st.Name, st.To, seen[p])
		}
		if st.From == Forgotten || slices.Contains(st.To, st.From) {
			t.Errorf("row %s -> %s: got to %v", st.From, st.Recommended, st.To)
		}
		seen[p] = true
	}
	n := 0
	for from := range dispatch {
		for to, do := range dispatch[from] {
			if (do != nil) != seen[pair{TaskState(from), target(to)}] {
				t.Errorf("%s -> %d: got dispatched %v", TaskState(from), to, do != nil)
			}
			if do != nil {
				n++
			}
		}
	}
	if n != len(Steps()) {
		t.Errorf("dispatched functions: got %d, want %d", n, len(Steps()))
	}
}

// stepEnd is one outcome of a row of the table.
type stepEnd struct {
	from TaskState
	to   target
	end  TaskState
}

// TestStepsHappen checks that the traces make every step and every move of the tables with each of its outcomes, and no
// others.
func TestStepsHappen(t *testing.T) {
	files, err := filepath.Glob("testdata/*.trace")
	if err != nil || len(files) == 0 {
		t.Fatalf("traces: got none, error %v", err)
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
				t.Errorf("a %s task that is recommended as %s became %s, want one of %v",
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

// rareSteps are those that need a recommendation to be processed after the task has changed within the same event.
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
		t.Fatalf("x: got %s, want released", x.State())
	}
	r.transition(x, toErred)
	if x.State() != Released {
		t.Errorf("x without a failure: got %s, want released", x.State())
	}
	x.failure = &Failure{Kind: TaskFailed, ExceptionText: "boom"}
	r.transition(x, toErred)
	if x.State() != Erred || x.Failure().Error() != "boom" {
		t.Errorf("x: got %s with %v, want erred with boom", x.State(), x.Failure())
	}
	r.transition(x, toForgotten)
	if x.State() != Forgotten || r.Task(taskid.NewKey("x")) != nil {
		t.Errorf("x: got %s, want forgotten", x.State())
	}
	if y := r.Task(taskid.NewKey("y")); y.State() != Memory || !y.orphan || y.NumDeps() != 0 {
		t.Errorf("y: got %s with %d dependencies, want memory without any", y.State(), y.NumDeps())
	}
}

// TestMoveRefused checks that with Config.Validate a change of state that is not in the tables is not made.
func TestMoveRefused(t *testing.T) {
	r := newRig(Config{Validate: true})
	r.addWorkers(1, 1)
	c := r.addClient("c")
	r.submit(t, c, "x")
	r.finish(t, "x", 5, 0)
	x := r.Task(taskid.NewKey("x"))
	defer func() {
		text := fmt.Sprint(recover())
		if !strings.Contains(text, "task x: no transition from memory to queued; story:") || x.state != Memory {
			t.Errorf("recovered: got %v, task %s", text, x.state)
		}
	}()
	r.setState(x, Queued)
}
