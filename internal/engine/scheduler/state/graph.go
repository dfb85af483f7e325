package state

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"go.millstream.dev/internal/task/taskid"
)

// Graph is a graph that a client submits. The state keeps keys, specs and annotations without copying them: they must
// not change afterwards. The slices Nodes and Deps may be reused after Apply.
type Graph struct {
	// Nodes are in any order, each key once.
	Nodes []Node
	// Ordered specifies that every node has its Order; otherwise the state determines one for the whole graph.
	Ordered bool
	// Registry is the hash of the functions that the nodes call: they run only on workers with the same registry.
	// Empty: on any worker.
	Registry string
}

// Node is one task of a Graph.
type Node struct {
	// Key is the key of the task.
	Key taskid.Key
	// Spec is the call, opaque to the state. Empty if the node only refers to a known key.
	Spec []byte
	// Shared is the first part of the call if many nodes share it, opaque as well; nil for none.
	Shared *[]byte
	// Needs are the kinds of tasks that the worker must support. A node with Needs may run on workers of any registry.
	Needs Can
	// Producer marks a task that produces data, whatever its group looks like (data_producer).
	Producer bool
	// Deps are the keys of the task's arguments, in the graph or known to the scheduler. They may be repeated.
	Deps []taskid.Key
	// DepNodes are further dependencies, as indexes of the graph's nodes.
	DepNodes []int32
	// Order is the position in the graph: the lowest runs first.
	Order int64
	// Annotations are shared by many nodes; nil if there are none.
	Annotations *Annotations
}

// Can are the kinds of tasks that a worker can run, in addition to functions of its registry.
type Can uint8

// Kinds of tasks that not every worker runs.
const (
	// Python are pickled Python tasks: of Dask workers, and of Millstream workers with Python.
	Python Can = 1 << iota
	// Go are Go functions that a graph names: of Millstream workers.
	Go
)

// String describes the kinds of tasks.
func (c Can) String() string {
	var parts []string
	if c&Python != 0 {
		parts = append(parts, "Python")
	}
	if c&Go != 0 {
		parts = append(parts, "functions of Go")
	}
	return strings.Join(parts, " and ")
}

// Annotations are the annotations of tasks by users.
type Annotations struct {
	// Workers are addresses, names or hosts of the workers that may run the task. Empty: all.
	Workers []string
	// AllowOtherWorkers lets the task run elsewhere if none of Workers can run it (allow_other_workers).
	AllowOtherWorkers bool
	// Resources are used by the task while it runs.
	Resources []Resource
	// Priority is added to that of UpdateGraph; higher runs first.
	Priority float64
	// HasPriority specifies that Priority is set: it then replaces that of UpdateGraph.
	HasPriority bool
	// Retries is the number of times that the task is run again after an error.
	Retries int
	// NotQueued keeps a root-ish task out of the queue.
	NotQueued bool
	// Raw is the whole annotation map as msgpack, which is sent to the worker unchanged.
	Raw []byte
}

// Resource is an amount of an abstract resource, such as GPUs, of a worker or for a task.
type Resource struct {
	Name   string
	Amount float64
}

// notes are annotations in the state: one value for all tasks with equal annotations, with the workers that meet the
// restrictions.
type notes struct {
	Annotations
	id   string // in State.notes
	refs int

	restricted bool
	valid      []*Worker // meet the restrictions, whatever their registry, running or not
	gen        uint64    // workerSet.gen for which valid was computed
	turn       int       // where the next choice starts
}

// noteSet are all annotations of tasks, each once.
type noteSet struct {
	byID    map[string]*notes
	scratch []byte
}

// of returns the state's copy of annotations, with one more reference; nil for none.
func (ns *noteSet) of(a *Annotations) *notes {
	if a == nil {
		return nil
	}
	id := a.appendID(ns.scratch[:0])
	ns.scratch = id
	n := ns.byID[string(id)]
	if n == nil {
		n = &notes{Annotations: *a, id: string(id), restricted: len(a.Workers)+len(a.Resources) > 0}
		n.Workers, n.Resources, n.Raw = slices.Clone(a.Workers), slices.Clone(a.Resources), slices.Clone(a.Raw)
		ns.byID[n.id] = n
	}
	n.refs++
	return n
}

// drop releases one reference.
func (ns *noteSet) drop(n *notes) {
	if n == nil {
		return
	}
	if n.refs--; n.refs == 0 {
		delete(ns.byID, n.id)
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

// why describes the requirements of a task for its worker.
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
		return "requires any running worker"
	}
	return "requires " + strings.Join(parts, ", ")
}

// apply changes the restrictions of tasks that have not been sent to a worker.
func (ev *SetRestrictions) apply(s *State) {
	for _, k := range ev.Keys {
		t := s.tasks.Get(k)
		if t == nil {
			continue
		}
		var a Annotations
		if t.notes != nil {
			a = t.notes.Annotations
		}
		a.Workers = make([]string, len(ev.Workers))
		for i, w := range ev.Workers {
			a.Workers[i] = strings.Clone(w)
		}
		annotate(s, t, &a)
	}
}

func (ev *Unqueue) apply(s *State) {
	for _, k := range ev.Keys {
		t := s.tasks.Get(k)
		if t == nil || t.notes != nil && t.notes.NotQueued {
			continue
		}
		var a Annotations
		if t.notes != nil {
			a = t.notes.Annotations
		}
		a.NotQueued = true
		annotate(s, t, &a)
	}
}

// annotate replaces the annotations of a task in any state.
func annotate(s *State, t *Task, a *Annotations) {
	if t.state == Processing { // its resources are in use
		t.worker.take(t.notes, -1)
	}
	old := t.notes
	t.notes = s.notes.of(a)
	s.notes.drop(old)
	switch t.state {
	case Processing:
		t.worker.take(t.notes, 1)
	case Queued:
		s.release(t)
	case NoWorkerState:
		s.recommend(t, toProcessing)
	}
}
