package state

import (
	"strings"

	"go.millstream.dev/internal/taskid"
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
