package state

import (
	"testing"

	"go.millstream.dev/internal/task/taskid"
	"pgregory.net/rapid"
)

// Whatever the runs are, a report finds the task of its key and no other.
func TestRunsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New(Config{Epoch: rapid.Uint32().Draw(t, "epoch")})
		live := map[taskid.Key]*Task{}
		keys := rapid.SampledFrom(keySpace)
		processing := 0
		t.Repeat(map[string]func(*rapid.T){
			"run": func(t *rapid.T) {
				for range rapid.IntRange(1, 200).Draw(t, "n") {
					k := keys.Draw(t, "k")
					x := live[k]
					if x == nil {
						x = s.newTask(k, s.tasks.Hash(k), s.pools.any)
						live[k] = x
					}
					s.runs++
					x.runID = int64(s.cfg.Epoch)<<32 + s.runs
					processing++
					s.tasks.runs.note(x, processing)
				}
			},
			"forget": func(t *rapid.T) {
				k := keys.Draw(t, "k")
				if x := live[k]; x != nil {
					s.tasks.Remove(x)
					x.state = Forgotten
					s.tasks.gone = append(s.tasks.gone, x)
					delete(live, k)
				}
			},
			"event": func(*rapid.T) { s.begin(s.now, &Actions{}) }, // forgotten tasks are reused
			"": func(t *rapid.T) {
				k := keys.Draw(t, "k")
				run := int64(s.cfg.Epoch)<<32 + rapid.Int64Range(-1, s.runs+1).Draw(t, "run")
				if got := s.tasks.ran(k, run); got != live[k] {
					t.Fatalf("run %d of %s: got %v, want %v", run, k, got, live[k])
				}
				if x := live[k]; x != nil && s.tasks.ran(k, x.runID) != x {
					t.Fatalf("%s: not found by its run", k)
				}
			},
		})
	})
}

// The table grows with the number of processing tasks, and keeps no forgotten ones.
func TestRunsGrowAndForget(t *testing.T) {
	r := newRig(Config{})
	r.addWorkers(1, 2000)
	c := r.addClient("c")
	g, keys := mapGraph("x", 2000)
	out := r.apply(&UpdateGraph{Client: c, Graph: g, Keys: keys})
	if n := len(r.tasks.runs.ring); n < 2000 {
		t.Errorf("places for 2000 tasks: got %d", n)
	}
	if n := r.run(out); n != 2000 {
		t.Fatalf("runs: got %d, want 2000", n)
	}
	r.apply(&ClientReleases{Client: c, Keys: keys})
	r.apply(&Tick{})
	for i, x := range r.tasks.runs.ring {
		if x != nil {
			t.Fatalf("place %d: got forgotten task %s", i, x.key)
		}
	}
}
