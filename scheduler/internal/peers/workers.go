package peers

import (
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/wire/msgpack"
)

// Workers are the registered workers. The loop owns it.
type Workers struct {
	state     *state.State
	ByAddress map[string]*Worker // changed by Add and Remove only
	aliases   map[string]*Worker // by name, as msgpack
	ids       []*Worker          // by ID of the state; removed ones stay until the ID is reused
}

func NewWorkers(st *state.State) *Workers {
	return &Workers{state: st, ByAddress: map[string]*Worker{}, aliases: map[string]*Worker{}}
}

// Add adds a worker that the state has.
func (s *Workers) Add(w *Worker) {
	for len(s.ids) <= int(w.ID) {
		s.ids = append(s.ids, nil)
	}
	s.ids[w.ID] = w
	s.ByAddress[w.Address], s.aliases[w.Alias] = w, w
}

// Remove removes a worker.
func (s *Workers) Remove(w *Worker) {
	delete(s.ByAddress, w.Address)
	delete(s.aliases, w.Alias)
}

// Named returns the worker with a name, given as msgpack; nil for none.
func (s *Workers) Named(alias string) *Worker { return s.aliases[alias] }

// ByID returns the worker with an ID, even if the current event has removed it.
func (s *Workers) ByID(id state.WorkerID) *Worker {
	if sw := s.state.Worker(id); sw != nil {
		w, _ := sw.Data.(*Worker)
		return w
	}
	if id >= 0 && int(id) < len(s.ids) {
		return s.ids[id]
	}
	return nil
}

// Find returns the worker with an address, a name or an alias.
func (s *Workers) Find(v any) *Worker {
	if b, err := msgpack.Append(nil, v); err == nil {
		if w := s.aliases[string(b)]; w != nil {
			return w
		}
	}
	if text, ok := v.(string); ok {
		if w := s.ByAddress[text]; w != nil {
			return w
		}
		if w := s.ByAddress[commaddr.Normalize(text)]; w != nil {
			return w
		}
		if sw := s.state.FindWorker(text); sw != nil {
			w, _ := sw.Data.(*Worker)
			return w
		}
	}
	return nil
}

// Each calls f for the named workers, or for all, in the order of their registration.
func (s *Workers) Each(names []any, f func(*Worker, *state.Worker)) {
	if names == nil {
		for sw := range s.state.Workers() {
			if w, ok := sw.Data.(*Worker); ok {
				f(w, sw)
			}
		}
		return
	}
	for _, v := range names {
		if w := s.Find(v); w != nil {
			f(w, s.state.Worker(w.ID))
		}
	}
}
