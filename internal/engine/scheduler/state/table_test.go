package state

import (
	"testing"

	"go.millstream.dev/internal/task/taskid"
	"pgregory.net/rapid"
)

func TestTableModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tb := newTable()
		model := map[taskid.Key]*Task{}
		key := rapid.Custom(func(t *rapid.T) taskid.Key { return taskid.Key(rapid.StringN(0, 2, 2).Draw(t, "key")) })
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				for range rapid.IntRange(1, 60).Draw(t, "n") {
					if k := key.Draw(t, "k"); model[k] == nil {
						model[k] = &Task{key: k}
						tb.put(model[k], tb.hash(k))
					}
				}
			},
			"remove": func(t *rapid.T) {
				for range rapid.IntRange(1, 40).Draw(t, "n") {
					k := key.Draw(t, "k")
					if x := model[k]; x != nil {
						tb.remove(x)
						delete(model, k)
					}
				}
			},
			"": func(t *rapid.T) {
				if tb.n != len(model) {
					t.Fatalf("tasks: got %d, want %d", tb.n, len(model))
				}
				for k, x := range model {
					if tb.get(k) != x {
						t.Fatalf("%q: not found", k)
					}
				}
				if k := key.Draw(t, "k"); tb.get(k) != model[k] {
					t.Fatalf("%q: got the wrong task", k)
				}
			},
		})
	})
}

// A table that was large must shrink.
func TestTableShrinks(t *testing.T) {
	r := newRig(Config{})
	r.addWorkers(1, 1)
	c := r.addClient("c")
	g, keys := mapGraph("x", 10_000)
	r.apply(&UpdateGraph{Client: c, Graph: g, Keys: keys})
	large := len(r.tasks.slots)
	r.apply(&ClientReleases{Client: c, Keys: keys})
	if n := len(r.tasks.slots); n > large/8 {
		t.Errorf("slots of an empty table: got %d, the full one had %d", n, large)
	}
	for k := range r.Tasks() {
		t.Errorf("%s: not removed", k.Key())
	}
}
