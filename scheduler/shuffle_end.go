package scheduler

import (
	"maps"
	"slices"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/task"
)

// barrierMoved follows the barrier of a shuffle: when it is not needed any more, failed or
// is to run again, its run is over. It runs in the loop while actions are being carried
// out, so that changes of the state come after.
func (s *Scheduler) barrierMoved(a *state.Action) {
	if a.To != state.Released && a.To != state.Erred && a.To != state.Forgotten {
		return
	}
	x := s.shuffles.active[shuffleOf(a.Key)]
	if x == nil {
		return
	}
	if a.To == state.Erred {
		s.topics.Publish(msgpack.MapOf("action", "p2p-failed", "shuffle", x.id), "p2p")
	}
	s.failShuffle(x, x.String()+" forgotten")
	s.loop.Later(func() { s.unbind(x) })
}

// failShuffle ends a run and tells the workers that take part.
func (s *Scheduler) failShuffle(x *shuffle, why string) {
	delete(s.shuffles.active, x.id)
	for _, address := range slices.Sorted(maps.Keys(x.workers)) {
		if w := s.workers.ByAddress[address]; w != nil && w.Stream != nil && !w.Stream.Gone {
			w.Stream.SendValue(msgpack.MapOf("op", "shuffle-fail", "shuffle_id", x.id, "run_id", x.run, "message", why))
		}
	}
	s.log.Info("a shuffle's run is over", "shuffle", x.id, "run", x.run, "why", why)
}

// unbind lets the outputs of a run go anywhere again.
func (s *Scheduler) unbind(x *shuffle) {
	for _, k := range x.bound {
		before := s.shuffles.restricted[k]
		delete(s.shuffles.restricted, k)
		if s.state.Task(k) != nil {
			s.apply(&state.SetRestrictions{Keys: []task.Key{k}, Workers: before})
		}
	}
	x.bound = nil
}

// shufflesLose ends the runs that a worker takes part in, and returns them: the shards that
// it had are lost, and the runs have to begin anew when the worker is out of the state.
func (s *Scheduler) shufflesLose(worker string) []*shuffle {
	var lost []*shuffle
	for _, x := range s.shuffles.active {
		if x.workers[worker] {
			lost = append(lost, x)
		}
	}
	slices.SortFunc(lost, func(a, b *shuffle) int { return int(a.run - b.run) })
	for _, x := range lost {
		s.failShuffle(x, "Worker "+worker+" left during active "+x.String())
		s.unbind(x)
	}
	return lost
}

// restartShuffle makes all tasks of a shuffle run again, unless it has failed.
func (s *Scheduler) restartShuffle(x *shuffle) {
	b := s.state.Task(x.barrier)
	if b == nil || b.State() == state.Erred {
		return
	}
	keys := make([]task.Key, 0, b.NumDependents()+1+b.NumDeps())
	for i := range b.NumDependents() {
		d := b.Dependent(i)
		if d.State() == state.Erred {
			return
		}
		keys = append(keys, d.Key())
	}
	keys = append(keys, x.barrier)
	for i := range b.NumDeps() {
		keys = append(keys, b.Dep(i).Key())
	}
	s.log.Warn("a shuffle begins anew", "shuffle", x.id, "run", x.run)
	s.apply(&state.Rerun{Keys: keys})
}
