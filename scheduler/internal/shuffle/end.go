package shuffle

import (
	"maps"
	"slices"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
)

// Moved follows the barrier of a shuffle: when it is released, has failed or is to run again, its run ends. It runs in
// the loop while actions are carried out, so changes of the state are deferred.
func (s *Shuffles) Moved(a *state.Action) {
	if a.To != state.Released && a.To != state.Erred && a.To != state.Forgotten {
		return
	}
	x := s.active[Of(a.Key)]
	if x == nil {
		return
	}
	if a.To == state.Erred {
		s.Publish(msgpack.MapOf("action", "p2p-failed", "shuffle", x.ID), "p2p")
	}
	s.End(x, x.String()+" forgotten")
	s.Loop.Later(func() { s.unbind(x) })
}

// End ends a run and notifies its workers.
func (s *Shuffles) End(x *Run, why string) {
	delete(s.active, x.ID)
	for _, address := range slices.Sorted(maps.Keys(x.Workers)) {
		if w := s.Workers.ByAddress[address]; w != nil && w.Stream != nil && !w.Stream.Gone {
			w.Stream.Send(&message.ShuffleFail{ShuffleID: x.ID, RunID: int64(x.Number), Message: why})
		}
	}
	s.Log.Info("shuffle run ended", "shuffle", x.ID, "run", x.Number, "why", why)
}

// unbind restores the restrictions of the outputs of a run.
func (s *Shuffles) unbind(x *Run) {
	for _, k := range x.bound {
		before := s.restricted[k]
		delete(s.restricted, k)
		if s.State.Task(k) != nil {
			s.Apply(&state.SetRestrictions{Keys: []task.Key{k}, Workers: before})
		}
	}
	x.bound = nil
}

// Lose ends the runs that a worker takes part in, and returns them: its shards are lost, and the runs have to restart
// when the worker is removed from the state.
func (s *Shuffles) Lose(worker string) []*Run {
	var lost []*Run
	for _, x := range s.active {
		if x.Workers[worker] {
			lost = append(lost, x)
		}
	}
	slices.SortFunc(lost, func(a, b *Run) int { return int(a.Number - b.Number) })
	for _, x := range lost {
		s.End(x, "Worker "+worker+" left during active "+x.String())
		s.unbind(x)
	}
	return lost
}

// Restart makes all tasks of a shuffle run again, unless it has failed.
func (s *Shuffles) Restart(x *Run) {
	b := s.State.Task(x.Barrier)
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
	keys = append(keys, x.Barrier)
	for i := range b.NumDeps() {
		keys = append(keys, b.Dep(i).Key())
	}
	s.Log.Warn("shuffle restarted", "shuffle", x.ID, "run", x.Number)
	s.Apply(&state.Rerun{Keys: keys})
}
