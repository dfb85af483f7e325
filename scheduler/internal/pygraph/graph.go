package pygraph

import "go.millstream.dev/internal/task"

// Graph is a client's expression as tasks.
type Graph struct {
	// Nodes are the tasks, in the order of Dask's graph; each key occurs once.
	Nodes []Node
	// Ordered reports whether Order is set. It is set for submit and map, whose clients send the same numbers as
	// internal_priority; the order of other graphs is in internal_priority or determined by the scheduler.
	Ordered bool
	// Globals are the names that a worker imports to open the tasks, beyond those that each worker has:
	// "module\x00name", or "module" alone; each once, sorted. A worker that lacks one loses its connection, so they
	// must be tried in another Python process first.
	Globals []string
	// Code reports whether the tasks contain code, which only a Python of the client's version can open.
	Code bool
}

// Node is one task.
type Node struct {
	// Key is canonical.
	Key task.Key
	// Deps are the keys of the task's dependencies, each once: of this graph or of any other.
	Deps []task.Key
	// Spec is the pickle that a worker runs.
	Spec Spec
	// Order is the position of the task, if the graph is Ordered.
	Order int64
	// Producer reports whether Dask considers the task a source of data.
	Producer bool
	// Go is the name of the Go function that the task calls, "" for a Python task.
	Go string
	// Weak reports whether Go was only derived from the name of a Python function: the task calls the Go function of
	// that name if there is one, and is a Python task otherwise.
	Weak bool
}

// Spec is the pickle of a graph node of Dask, in two parts so that the tasks of one map can share the first. Both are
// owned by the graph and must not be changed.
type Spec struct {
	// Shared is the first part of the pickle, the same memory for all nodes of a map; nil if nothing is shared.
	Shared []byte
	// Own is the rest of the pickle.
	Own []byte
	// Buffers are the out-of-band buffers in order. They borrow from the message of the graph.
	Buffers [][]byte
}

// Len returns the length of the pickle in bytes, without buffers.
func (s *Spec) Len() int { return len(s.Shared) + len(s.Own) }

// Append appends the pickle in one piece.
func (s *Spec) Append(dst []byte) []byte { return append(append(dst, s.Shared...), s.Own...) }

// Limits bound the work of Split; larger graphs are left to the materializer. A zero field means its default.
type Limits struct {
	// Nodes is the maximum number of tasks of one graph (default 1,048,576).
	Nodes int
	// Values is the maximum number of values in the client's pickle (default 8,388,608).
	Values int
	// Bytes is the maximum number of bytes that are written for all tasks together, in addition to twice the size of
	// the client's pickle: shared objects are written again for each task (default 64 MiB).
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
