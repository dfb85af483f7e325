package state

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"go.millstream.dev/internal/task/taskid"
)

// TestStepTable: each pair of states has one row, with a name and resulting states.
func TestStepTable(t *testing.T) {
	seen := map[[2]TaskState]bool{}
	for _, st := range Steps() {
		pair := [2]TaskState{st.From, st.Wanted}
		if seen[pair] || st.Name == "" || len(st.To) == 0 || st.do == nil {
			t.Errorf("row %v -> %v: %q, to %v, seen %v", st.From, st.Wanted, st.Name, st.To, seen[pair])
		}
		seen[pair] = true
		if dispatch[st.From][st.Wanted] == nil {
			t.Errorf("%v -> %v is not dispatched", st.From, st.Wanted)
		}
	}
	n := 0
	for _, row := range dispatch {
		for _, do := range row {
			if do != nil {
				n++
			}
		}
	}
	if n != len(Steps()) {
		t.Errorf("%d functions are dispatched, want %d", n, len(Steps()))
	}
}

// TestStepsHappen: the traces make every step and every move of the tables with each of its results, and nothing else.
func TestStepsHappen(t *testing.T) {
	files, err := filepath.Glob("testdata/*.trace")
	if err != nil || len(files) == 0 {
		t.Fatalf("no traces: %v", err)
	}
	type end struct{ from, wanted, to TaskState }
	happened := map[end]bool{}
	moved := map[[2]TaskState]bool{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var s *State
		traceState(t, string(raw), func(made *State) {
			s = made
			s.onMove = func(from, to TaskState) { moved[[2]TaskState{from, to}] = true }
		})
		for _, tr := range s.Log() {
			happened[end{tr.Start, tr.Finish, tr.Final}] = true
		}
	}
	for _, st := range Steps() {
		for _, to := range st.To {
			if !happened[end{st.From, st.Wanted, to}] {
				t.Errorf("no trace has a %v task that is to be %v (%s) and becomes %v", st.From, st.Wanted, st.Name, to)
			}
		}
		for e := range happened {
			if e.from == st.From && e.wanted == st.Wanted && !slices.Contains(st.To, e.to) {
				t.Errorf("a %v task that is to be %v became %v: the row has %v", e.from, e.wanted, e.to, st.To)
			}
		}
	}
	for _, m := range Moves() {
		if !moved[[2]TaskState{m.From, m.To}] {
			t.Errorf("no trace moves a task from %v to %v (%s)", m.From, m.To, m.Name)
		}
	}
}

// TestMoveRejected: with Config.Validate a change of state that is not in the tables is not made.
func TestMoveRejected(t *testing.T) {
	s := busyState(t)
	x := s.Task(taskid.NewKey("d"))
	defer func() {
		err, ok := recover().(*InvalidTransition)
		if !ok || err.Start != Memory || err.Finish != Flight || x.state != Memory {
			t.Errorf("got panic %v, task %v", err, x)
		}
	}()
	s.setState(x, Flight)
}

// TestUnknownPair: without a row a task goes through released, and keeps its failure on the way to erred.
func TestUnknownPair(t *testing.T) {
	s := busyState(t)
	var out Actions
	s.Apply(time.Unix(5, 0), &GatherFailure{Peer: "tcp://h1:1", Failure: &Failure{ExceptionText: "unreadable"}}, &out)
	w := s.Task(taskid.NewKey("w"))
	if w.State() != Erred || w.Failure() == nil || w.Failure().Error() != "unreadable" {
		t.Errorf("got %v with %v", w, w.Failure())
	}
	var ways []string
	for _, tr := range s.Story([]taskid.Key{w.Key()}, nil) {
		ways = append(ways, fmt.Sprintf("%v>%v", tr.Start, tr.Finish))
	}
	want := []string{"released>waiting", "waiting>released", "released>error", "waiting>error"}
	if !slices.Equal(ways, want) {
		t.Errorf("got transitions %v, want %v", ways, want)
	}
}
