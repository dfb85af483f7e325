package state

import "go.millstream.dev/task"

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
	Key task.Key
	// Spec is the call, opaque to the state. Empty when the node only stands for a key that is known already.
	Spec []byte
	// Deps are the keys of the task's arguments, in the graph or known to the scheduler. Repetitions are fine.
	Deps []task.Key
	// DepNodes are further dependencies, as indices of the graph's nodes.
	DepNodes []int32
	// Order is the place in the graph: the lowest runs first.
	Order int64
	// Annotations are shared by many nodes; nil when there are none.
	Annotations *Annotations
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
