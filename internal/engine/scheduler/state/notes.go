package state

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
)

// notes are annotations as the state keeps them: one for all tasks that say the same, with the workers that
// meet the restrictions found once for all of them.
type notes struct {
	Annotations
	id   string // in State.notes
	refs int

	restricted bool
	valid      []*Worker // that meet the restrictions, whatever their registry, running or not
	gen        uint64    // of the workers for which valid was found
	turn       int       // where the next choice begins to look
}

// notesOf returns the state's own copy of annotations, with one reference more; nil for none.
func (s *State) notesOf(a *Annotations) *notes {
	if a == nil {
		return nil
	}
	id := a.appendID(s.scratch.id[:0])
	s.scratch.id = id
	n := s.notes[string(id)]
	if n == nil {
		n = &notes{Annotations: *a, id: string(id), restricted: len(a.Workers)+len(a.Resources) > 0}
		n.Workers, n.Resources, n.Raw = slices.Clone(a.Workers), slices.Clone(a.Resources), slices.Clone(a.Raw)
		s.notes[n.id] = n
	}
	n.refs++
	return n
}

func (s *State) dropNotes(n *notes) {
	if n == nil {
		return
	}
	if n.refs--; n.refs == 0 {
		delete(s.notes, n.id)
	}
}

// appendID appends bytes that are equal for equal annotations only.
func (a *Annotations) appendID(b []byte) []byte {
	flags := byte(0)
	for i, f := range []bool{a.AllowOtherWorkers, a.HasPriority, a.NotQueued} {
		if f {
			flags |= 1 << i
		}
	}
	b = append(b, flags)
	b = binary.AppendUvarint(b, uint64(a.Retries))
	b = binary.BigEndian.AppendUint64(b, math.Float64bits(a.Priority))
	b = binary.AppendUvarint(b, uint64(len(a.Workers)))
	for _, w := range a.Workers {
		b = append(binary.AppendUvarint(b, uint64(len(w))), w...)
	}
	b = binary.AppendUvarint(b, uint64(len(a.Resources)))
	for _, r := range a.Resources {
		b = append(binary.AppendUvarint(b, uint64(len(r.Name))), r.Name...)
		b = binary.BigEndian.AppendUint64(b, math.Float64bits(r.Amount))
	}
	return append(b, a.Raw...)
}

// validWorkers are the workers that meet the restrictions, running or not.
func (s *State) validWorkers(n *notes) []*Worker {
	if n.gen == s.workersGen {
		return n.valid
	}
	n.gen = s.workersGen
	n.valid = n.valid[:0]
	for w := range s.Workers() {
		if n.allows(w) {
			n.valid = append(n.valid, w)
		}
	}
	return n.valid
}

func (n *notes) allows(w *Worker) bool {
	if len(n.Workers) > 0 && !slices.ContainsFunc(n.Workers, w.named) {
		return false
	}
	return n.supplied(w)
}

// supplied reports whether the worker has the resources.
func (n *notes) supplied(w *Worker) bool {
	for _, r := range n.Resources {
		if w.supply(r.Name) < r.Amount {
			return false
		}
	}
	return true
}

// named tells whether an entry of a worker restriction means the worker: by address, name or host.
func (w *Worker) named(entry string) bool {
	if entry == w.address || entry == w.name || entry == w.host {
		return true
	}
	_, bare, ok := strings.Cut(w.address, "://")
	return ok && entry == bare
}

// supply is how much of a resource a worker has; -1 when it has none.
func (w *Worker) supply(name string) float64 {
	for _, r := range w.resources {
		if r.Name == name {
			return r.Amount
		}
	}
	return -1
}

// take changes what of the worker's resources is in use.
func (w *Worker) take(n *notes, sign float64) {
	if n == nil {
		return
	}
	for _, r := range n.Resources {
		for i := range w.resources {
			if w.resources[i].Name == r.Name {
				w.used[i] += sign * r.Amount
			}
		}
	}
}

// why says in words what a task needs of its worker.
func (t *Task) why() string {
	var parts []string
	if t.pool.registry != "" {
		parts = append(parts, fmt.Sprintf("a worker with the functions of registry %s", t.pool.registry))
	}
	if t.pool.can != 0 {
		parts = append(parts, "a worker that runs "+t.pool.can.String())
	}
	if n := t.notes; n != nil {
		if len(n.Workers) > 0 {
			parts = append(parts, fmt.Sprintf("one of the workers or hosts %s", strings.Join(n.Workers, ", ")))
		}
		for _, r := range n.Resources {
			parts = append(parts, fmt.Sprintf("resource %s ≥ %g", r.Name, r.Amount))
		}
	}
	if len(parts) == 0 {
		return "it needs any running worker"
	}
	return "it needs " + strings.Join(parts, ", ")
}
