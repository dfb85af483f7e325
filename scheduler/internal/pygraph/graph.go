package pygraph

import "go.millstream.dev/internal/task"

// Graph is a client's expression as tasks.
type Graph struct {
	// Nodes are the tasks, in the order of Dask's own graph; each key is there once.
	Nodes []Node
	// Ordered tells that Order is set. It is for submit and map, whose clients send the very
	// same numbers as internal_priority; of other graphs the order is to be found from
	// internal_priority or by the scheduler.
	Ordered bool
	// Globals are the names that a worker imports to open the tasks, beyond those that each
	// worker has: "module\x00name", or "module" alone; each once, sorted. A worker that lacks
	// one loses its connection, so they are to be tried in another Python first.
	Globals []string
	// Code tells that there is code in the tasks, which only a Python of the client's version
	// can open.
	Code bool
}

// Node is one task.
type Node struct {
	// Key is canonical.
	Key task.Key
	// Deps are the keys that the task needs, each once: of this graph or of any other.
	Deps []task.Key
	// Spec is what a worker runs.
	Spec Spec
	// Order is the task's place among the others, if the graph is Ordered.
	Order int64
	// Producer tells that Dask holds the task for a source of data.
	Producer bool
	// Go is the name of the Go function that the task calls, "" for a task of Python.
	Go string
	// Weak tells that Go is only a guess from the name of a Python function: it is meant if
	// there is a Go function of that name, and else the task is Python's.
	Weak bool
}

// Spec is a pickle of one of Dask's graph nodes, in two parts so that the tasks of one map
// can share the first. Both are the graph's own memory and must not be changed.
type Spec struct {
	// Shared is the first part of the pickle, the same memory for all nodes of a map; nil
	// where nothing is shared.
	Shared []byte
	// Own is the rest.
	Own []byte
	// Buffers are the out-of-band buffers in their order. They borrow from the message that
	// the graph came in.
	Buffers [][]byte
}

// Len is the length of the pickle in bytes, buffers not counted.
func (s *Spec) Len() int { return len(s.Shared) + len(s.Own) }

// Append appends the pickle in one piece.
func (s *Spec) Append(dst []byte) []byte { return append(append(dst, s.Shared...), s.Own...) }

// Limits bound what Split does before it leaves the rest to the materialiser. A zero field
// means its default.
type Limits struct {
	// Nodes is the most tasks of one graph. Default 1,048,576.
	Nodes int
	// Values is the most values in the client's pickle. Default 8,388,608.
	Values int
	// Bytes is the most bytes that are written for all tasks together, beyond twice what
	// the client sent: tasks that share much are written with it again and again. Default
	// 64 MiB.
	Bytes int
}

func (l Limits) withDefaults() Limits {
	for _, f := range []struct {
		field *int
		value int
	}{{&l.Nodes, 1 << 20}, {&l.Values, 1 << 23}, {&l.Bytes, 64 << 20}} {
		if *f.field <= 0 {
			*f.field = f.value
		}
	}
	return l
}
