package state

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"

	"go.millstream.dev/internal/task/taskid"
)

func newLedger() *ledger { return &ledger{unknown: 0.5, defaultSize: 1000, bandwidth: 100} }

// looseTask returns a task of no state, with a group of its own prefix.
func looseTask(key, prefix string, nbytes int64) *Task {
	return &Task{key: taskid.NewKey(key), nbytes: nbytes,
		group: &Group{prefix: &Prefix{name: prefix, average: -1, longest: -1}}}
}

func TestDuration(t *testing.T) {
	l := newLedger()
	p := &Prefix{average: -1, longest: -1}
	if d := l.duration(p); d != 0.5 {
		t.Errorf("unknown duration: got %g, want the estimate", d)
	}
	p.running(2)
	if d := l.duration(p); d != 4 {
		t.Errorf("one has run for 2 s and continues: got %g, want 4", d)
	}
	p.running(1)
	if d := l.duration(p); d != 4 {
		t.Errorf("another one has run for 1 s: got %g, want 4", d)
	}
	p.learn(1, 80)
	p.learn(3, 80)
	if d := l.duration(p); d != 2 {
		t.Errorf("after runs of 1 s and 3 s: got %g, want 2", d)
	}
	if runs, total := p.Finished(); runs != 2 || total.Seconds() != 4 {
		t.Errorf("got %d runs of %v, want 2 of 4 s", runs, total)
	}
	if want := 80/8. + (80-80/8.)/8; p.nbytes != want {
		t.Errorf("average size of results: got %g, want %g", p.nbytes, want)
	}
	p.running(4)
	if d := l.duration(p); d != 2 {
		t.Errorf("one has run for 4 s, twice the average: got %g, want 2", d)
	}
	p.running(4.5)
	if d := l.duration(p); d != 9 {
		t.Errorf("one has run for 4.5 s, more than twice the average: got %g, want 9", d)
	}
}

func TestSizes(t *testing.T) {
	l := newLedger()
	known, unknown := looseTask("a", "a", 7), looseTask("b", "b", -1)
	if l.size(known) != 7 || l.size(unknown) != 1000 {
		t.Errorf("sizes: got %d and %d, want 7 and 1000", l.size(known), l.size(unknown))
	}
	w, v := &Worker{id: 0}, &Worker{id: 1}
	x := looseTask("x", "x", 1)
	x.deps = []edge{{known, 0}, {unknown, 0}}
	if s := l.fetchTime(x, w); s != 10.07 {
		t.Errorf("time to fetch both: got %g s, want 10.07", s)
	}
	l.addReplica(unknown, w)
	if s := l.fetchTime(x, w); s != 0.07 {
		t.Errorf("time to fetch a: got %g s, want 0.07", s)
	}
	if s := l.fetchTime(x, v); s != 10.07 {
		t.Errorf("time to fetch for another worker: got %g s, want 10.07", s)
	}
}

// TestReplicas checks that tasks and workers agree on the holders, whatever is added and dropped.
func TestReplicas(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := newLedger()
		var workers []*Worker
		for i := range 14 {
			workers = append(workers, &Worker{id: WorkerID(i * 7), address: fmt.Sprint(i)})
		}
		var tasks []*Task
		for i := range 4 {
			tasks = append(tasks, looseTask(fmt.Sprint("t", i), "t", int64(i)*10-10))
		}
		type pair struct {
			t *Task
			w *Worker
		}
		model := map[pair]bool{}
		for range 150 {
			p := pair{rapid.SampledFrom(tasks).Draw(rt, "task"), rapid.SampledFrom(workers).Draw(rt, "worker")}
			had := model[p]
			if rapid.IntRange(0, 2).Draw(rt, "op") > 0 {
				if added := l.addReplica(p.t, p.w); added == had {
					rt.Fatalf("added: got %v, held before: %v", added, had)
				}
				model[p] = true
			} else {
				if dropped := l.dropReplica(p.t, p.w); dropped != had {
					rt.Fatalf("dropped: got %v, held before: %v", dropped, had)
				}
				model[p] = false
			}
			for _, x := range tasks {
				n := 0
				for _, w := range workers {
					if w.holdsTask(x) != model[pair{x, w}] {
						rt.Fatalf("worker %s holds %s: got %v", w.address, x.key, w.holdsTask(x))
					}
					if model[pair{x, w}] {
						n++
					}
				}
				if len(x.holders) != n || (x.wide != nil) && n <= manyHolders/2 || (x.wide == nil) && n > manyHolders {
					rt.Fatalf("%s: got %d holders, want %d; set %v", x.key, len(x.holders), n, x.wide != nil)
				}
			}
			for _, w := range workers {
				var nbytes int64
				for i, h := range w.holds {
					if h.t.holders[h.place] != (holder{w, int32(i)}) {
						rt.Fatalf("worker %s and %s: got wrong places", w.address, h.t.key)
					}
					nbytes += l.size(h.t)
				}
				if w.nbytes != nbytes {
					rt.Fatalf("worker %s: got %d bytes, counted %d", w.address, nbytes, w.nbytes)
				}
			}
		}
	})
}

func TestOneActor(t *testing.T) {
	l := newLedger()
	x := looseTask("x", "x", 1)
	x.actor = true
	if !l.addReplica(x, &Worker{id: 1}) || l.addReplica(x, &Worker{id: 2}) || len(x.holders) != 1 {
		t.Errorf("holders of an actor: got %d, want 1", len(x.holders))
	}
}

// TestNeeds checks that a dependency is fetched once, however many tasks need it, until the worker has it.
func TestNeeds(t *testing.T) {
	l := newLedger()
	w, v := &Worker{id: 0}, &Worker{id: 1}
	d, e := looseTask("d", "d", 30), looseTask("e", "e", -1)
	l.need(w, d)
	l.need(w, d)
	l.need(w, e)
	l.need(v, d)
	if w.netBytes != 1030 || v.netBytes != 30 || l.netBytes != 1060 {
		t.Errorf("bytes to fetch: got %d and %d, in total %d, want 1030, 30 and 1060", w.netBytes, v.netBytes,
			l.netBytes)
	}
	if o := l.occupancy(w); o != 10.3 {
		t.Errorf("occupancy of fetching: got %g s, want 10.3", o)
	}
	l.unneed(w, d)
	if w.netBytes != 1030 {
		t.Errorf("one of two tasks that need it removed: got %d bytes, want 1030", w.netBytes)
	}
	l.unneed(w, d)
	l.unneed(w, d)
	if w.netBytes != 1000 || l.netBytes != 1030 || len(w.needs) != 1 {
		t.Errorf("both removed: got %d bytes, in total %d, want 1000 and 1030", w.netBytes, l.netBytes)
	}
	e.nbytes = 5 // counts with its estimated size
	l.addReplica(e, w)
	l.addReplica(d, v)
	if w.netBytes != 0 || v.netBytes != 0 || l.netBytes != 0 || len(w.needs)+len(v.needs) != 0 {
		t.Errorf("all fetched: got %d and %d, in total %d, want none", w.netBytes, v.netBytes, l.netBytes)
	}
}

// TestCounts checks that the occupancy of a worker and of all together follows from the prefixes of their tasks, and
// beyond mostCounts from estimates.
func TestCounts(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := newLedger()
		workers := []*Worker{{id: 0}, {id: 1}}
		var prefixes []*Prefix
		for i := range mostCounts + 8 {
			prefixes = append(prefixes, &Prefix{name: fmt.Sprint(i), average: float64(i + 1), longest: -1})
		}
		type job struct {
			w *Worker
			t *Task
		}
		var jobs []job
		for range 200 {
			if len(jobs) > 0 && rapid.IntRange(0, 2).Draw(rt, "op") == 0 {
				i := rapid.IntRange(0, len(jobs)-1).Draw(rt, "which")
				l.uncount(jobs[i].w, jobs[i].t)
				jobs[i] = jobs[len(jobs)-1]
				jobs = jobs[:len(jobs)-1]
			} else {
				x := &Task{group: &Group{prefix: rapid.SampledFrom(prefixes).Draw(rt, "prefix")}}
				w := rapid.SampledFrom(workers).Draw(rt, "worker")
				l.count(w, x)
				jobs = append(jobs, job{w, x})
			}
			total := 0.0
			for _, w := range workers {
				sum := 0.0
				for _, j := range jobs {
					if j.w == w {
						sum += j.t.group.prefix.average
					}
				}
				if math.Abs(l.occupancy(w)-sum) > 1e-6 || len(w.counts) > mostCounts {
					rt.Fatalf("worker %d: got occupancy %g s, counted %g by %d prefixes", w.id, sum, l.occupancy(w),
						len(w.counts))
				}
				total += sum
			}
			if math.Abs(l.total()-total) > 1e-6 {
				rt.Fatalf("total occupancy: got %g s, counted %g", total, l.total())
			}
		}
	})
}
