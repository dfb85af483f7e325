package state

import (
	"slices"

	"go.millstream.dev/internal/taskid"
)

// rebalance moves results from the fullest workers to the emptiest until all are within a twentieth of the mean.
// Only results with a single replica move: they are copied, and the first holder drops its own afterwards.
func (s *State) rebalance(ev *Rebalance) {
	r := s.newRequest(ev.Request)
	workers := s.among(ev.Workers)
	var only map[taskid.Key]bool
	if len(ev.Keys) > 0 {
		only = make(map[taskid.Key]bool, len(ev.Keys))
		for _, k := range ev.Keys {
			only[k] = true
		}
	}
	var sum, data int64
	for _, w := range workers {
		sum += w.fill()
		data += w.nbytes
	}
	if n := int64(len(workers)); n > 1 {
		s.moveAround(r, workers, sum/n, data/n/20, only)
	}
	s.step(r)
}

// fill is how full a worker is: the results that it holds, and what its process has beside them by the last
// heartbeat. The latter counts from a tenth of its memory limit on, Dask's gap between sender and recipient: less
// is what any process has, and moving a few bytes does not even that out.
func (w *Worker) fill() int64 {
	if other := w.memory - w.managed; w.memoryLimit > 0 && other > w.memoryLimit/10 {
		return w.nbytes + other
	}
	return w.nbytes
}

func (s *State) moveAround(r *request, workers []*Worker, mean, gap int64, only map[taskid.Key]bool) {
	senders := slices.Clone(workers)
	slices.SortStableFunc(senders, func(a, b *Worker) int { return int(min(max(b.fill()-a.fill(), -1), 1)) })
	targets := newFillers(workers, (*Worker).fill)
	var ask acquire
	for _, from := range senders {
		left := from.fill()
		for i := 0; i < len(from.holds) && left > mean+gap; i++ {
			t := from.holds[i].t
			size := s.size(t)
			if t.actor || len(t.holders) > 1 || only != nil && !only[t.key] || size > left-mean+gap {
				continue
			}
			// Filling it must not make it a sender itself.
			if f := targets[0]; f.w == from || f.nbytes+size > mean+gap {
				break
			}
			to := targets.next(size, func(w *Worker) bool { return w != from })
			r.expect(t, to, from)
			ask.add(t, to)
			left -= size
		}
	}
	ask.send(s)
}
