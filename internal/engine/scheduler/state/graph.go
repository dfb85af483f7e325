package state

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"

	"go.millstream.dev/internal/task/taskid"
)

// Graph is what a client wants to be computed. The state keeps the keys, specs and annotations that it needs
// as they are: they must not change afterwards. The slices Nodes and Deps are free again after Apply.
type Graph struct {
	// Nodes in any order, each key once.
	Nodes []Node
	// Ordered tells that every node has its Order; otherwise the state finds one for the whole graph.
	Ordered bool
	// Registry is the hash of the functions that the nodes call: they run only on workers that advertise the
	// same. Empty: on any worker.
	Registry string
}

// Node is one task of a Graph.
type Node struct {
	// Key names the task.
	Key taskid.Key
	// Spec is the call, opaque to the state. Empty when the node only stands for a key that is known already.
	Spec []byte
	// Shared is the first part of the call where many nodes have it in common, opaque as well; nil for none.
	Shared *[]byte
	// Needs is what the task's worker must be able to. A node that needs something may run on workers of any
	// registry.
	Needs Can
	// Producer marks a task that brings data into the cluster, whatever its group looks like. (data_producer)
	Producer bool
	// Deps are the keys of the task's arguments, in the graph or known to the scheduler. Repetitions are fine.
	Deps []taskid.Key
	// DepNodes are further dependencies, as indices of the graph's nodes.
	DepNodes []int32
	// Order is the place in the graph: the lowest runs first.
	Order int64
	// Annotations are shared by many nodes; nil when there are none.
	Annotations *Annotations
}

// Can is what a worker is able to run, beside functions of its registry.
type Can uint8

// The sorts of tasks that not every worker runs.
const (
	// Python runs pickled tasks of Python: Dask's own workers, and ours that have a Python.
	Python Can = 1 << iota
	// Go runs functions of Go that a graph names: our workers.
	Go
)

// String says what it is in words.
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

// Annotations are what a user may say about tasks.
type Annotations struct {
	// Workers are addresses, names or hosts of the workers that may run the task. Empty: all.
	Workers []string
	// AllowOtherWorkers lets the task run elsewhere if none of Workers can. (allow_other_workers)
	AllowOtherWorkers bool
	// Resources are what the task takes while it runs.
	Resources []Resource
	// Priority is added to that of UpdateGraph; higher runs first.
	Priority float64
	// HasPriority tells that Priority was given: it then replaces that of UpdateGraph.
	HasPriority bool
	// Retries is how often the task is run again after an error.
	Retries int
	// NotQueued keeps a root-ish task out of the queue.
	NotQueued bool
	// Raw is the whole annotation map as msgpack, which goes to the worker as it came.
	Raw []byte
}

// Resource is an amount of something abstract, such as GPUs: of a worker or for a task.
type Resource struct {
	Name   string
	Amount float64
}

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

// noteSet is all annotations of tasks, each once.
type noteSet struct {
	byID    map[string]*notes
	scratch []byte
}

// of returns the state's own copy of annotations, with one reference more; nil for none.
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

// drop takes one reference back.
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

// setRestrictions changes where tasks may run that have not been sent to a worker.
func (ev *SetRestrictions) apply(s *State) {
	for _, k := range ev.Keys {
		t := s.tasks.get(k)
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
		t := s.tasks.get(k)
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

// renote replaces the annotations of a task, wherever it is.
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
