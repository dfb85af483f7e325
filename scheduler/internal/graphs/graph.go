// Package graphs reads the graphs of clients: those of Go clients, and those of Python clients with or without a Python
// process.
package graphs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/config"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/task/taskgraph"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/specs"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/wire"
)

// Graph is an update-graph message that a reader has decoded for the loop. It owns the parts that the state keeps; all
// others are valid as long as the message.
type Graph struct {
	Event state.UpdateGraph
	Tasks state.Graph
	Err   error            // why the graph cannot be run
	Raw   []byte           // the whole map; borrows from the message
	Expr  *wire.Serialized // borrows from the message
	Code  []byte           // of the client's program, pickled; borrows from the message
}

// Source is the origin of a graph.
type Source struct {
	Comm comm.Comm
	// OpenContext returns a context for opening a graph in a message, which ends with ErrClientLeft when the client has
	// disconnected and none of its messages needs the graph. stop frees it.
	OpenContext func(ctx context.Context, m *wire.Message) (opening context.Context, stop func())
}

// arena allocates small pieces from chunks, so that a graph costs few allocations and its memory is still freed
// together with its tasks.
type arena struct {
	chunk []byte
	first int // length of the first chunk, for graphs that need less than arenaChunk
}

// arenaChunk is the length of a chunk in bytes.
const arenaChunk = 32 << 10

func (a *arena) keep(b []byte) []byte {
	if len(b) > arenaChunk/4 {
		return slices.Clone(b)
	}
	if cap(a.chunk)-len(a.chunk) < len(b) {
		n := arenaChunk
		if a.first > 0 {
			n, a.first = max(min(n, a.first), len(b)), 0
		}
		a.chunk = make([]byte, 0, n)
	}
	at := len(a.chunk)
	a.chunk = append(a.chunk, b...)
	return a.chunk[at:len(a.chunk):len(a.chunk)]
}

// make keeps the bytes that f appends, at most size.
func (a *arena) make(size int, f func(dst []byte) []byte) []byte {
	if size > arenaChunk/4 {
		return f(make([]byte, 0, size))
	}
	if cap(a.chunk)-len(a.chunk) < size {
		a.chunk = make([]byte, 0, arenaChunk)
	}
	at := len(a.chunk)
	a.chunk = f(a.chunk)
	return a.chunk[at:len(a.chunk):len(a.chunk)]
}

func (a *arena) key(b []byte) task.Key { return task.Key(msgpack.Borrow(a.keep(b))) }

// Decode reads the current message of ops, outside of the loop. It returns protocol errors, which close the stream; an
// invalid graph is reported to the client. A Python graph may take long: the client's later messages wait for it, which
// keeps their order; other clients do not wait.
func (m *Opener) Decode(ctx context.Context, from Source, msg *wire.Message, ops *message.Ops) (*Graph, error) {
	var u message.UpdateGraph
	g, err := ReadUpdate(ops, &u)
	if err == nil {
		g.Code = readCode(msg, &u)
	}
	if err == nil && g.Err == nil {
		g.Err = m.decodeExpr(ctx, from, g, msg, &u)
	}
	return g, err
}

// decodeExpr reads the nodes of a graph of a Go or Python client.
func (m *Opener) decodeExpr(ctx context.Context, from Source, g *Graph, msg *wire.Message,
	u *message.UpdateGraph) error {
	v, err := u.Expr.Decode(msg, val.KeepClosed)
	if err != nil {
		return err
	}
	expr, ok := v.(*wire.Serialized)
	switch {
	case !ok:
		return errors.New("expr_ser is not a serialized expression")
	case taskgraph.Is(expr.Header):
		g.Expr = expr
		return g.Read(expr)
	}
	return m.decodePickled(ctx, from, g, expr, msg, u)
}

// ReadUpdate reads an update-graph message except its graph.
func ReadUpdate(ops *message.Ops, u *message.UpdateGraph) (*Graph, error) {
	if err := u.Read(ops); err != nil {
		return nil, err
	}
	raw, err := ops.Raw()
	if err != nil {
		return nil, err
	}
	g := &Graph{Raw: raw}
	g.Event.Keys = slices.Grow(g.Event.Keys, min(len(u.Keys.Raw)/8, 1<<20))
	err = message.EachKey(u.Keys.Raw, func(k []byte) error {
		g.Event.Keys = append(g.Event.Keys, task.Key(msgpack.Borrow(k)))
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	g.Err = g.options(u)
	return g, nil
}

// options reads the options of a graph.
func (g *Graph) options(u *message.UpdateGraph) (err error) {
	if g.Event.FIFOTimeout, err = duration(u.FIFOTimeout); err != nil {
		return fmt.Errorf("fifo_timeout: %w", err)
	}
	if u.UserPriority != nil {
		r := msgpack.NewReader(u.UserPriority)
		if g.Event.UserPriority, err = r.ReadFloat(); err != nil || math.IsNaN(g.Event.UserPriority) {
			return fmt.Errorf("user_priority is not a number: %w", err)
		}
	}
	g.Event.SubmittingTask = task.Key(strings.Clone(string(u.SubmittingTask)))
	if u.Actors == nil {
		return nil
	}
	r := msgpack.NewReader(u.Actors)
	if r.Kind() == msgpack.Bool {
		g.Event.Actors, err = r.ReadBool()
		return err
	}
	return message.EachKey(u.Actors, func(k []byte) error {
		g.Event.ActorKeys = append(g.Event.ActorKeys, task.Key(k))
		return nil
	})
}

// duration reads a number of seconds or a string such as "100 ms".
func duration(raw []byte) (time.Duration, error) {
	if raw == nil {
		return 0, nil
	}
	r := msgpack.NewReader(raw)
	if r.Kind() == msgpack.Str {
		text, err := r.ReadString()
		if err != nil {
			return 0, err
		}
		return config.ParseDuration(text)
	}
	f, err := r.ReadFloat()
	if err != nil {
		return 0, err
	}
	if !(f >= 0 && f < math.MaxInt64/float64(time.Second)) {
		return 0, fmt.Errorf("%v is not a duration", f)
	}
	return time.Duration(f * float64(time.Second)), nil
}

// Read reads the nodes of a graph of a Go client, or of a graph from the journal.
func (g *Graph) Read(expr *wire.Serialized) error {
	r, err := taskgraph.Read(expr)
	if err != nil {
		return err
	}
	size := 0
	for _, f := range expr.Frames[1:] { // the first has been read
		size += f.Len()
	}
	mem, depMem := arena{first: size}, arena{first: size} // keys of dependencies are not kept
	notes := make([]*state.Annotations, len(r.Annotations))
	for i := range r.Annotations {
		notes[i] = annotations(&r.Annotations[i])
	}
	g.Tasks = state.Graph{Registry: strings.Clone(r.Registry), Nodes: slices.Grow(takeNodes(), min(r.Nodes, 1<<16)),
		Ordered: true}
	var deps []task.Key
	var edges []int32
	var n taskgraph.Node
	for r.Next(&n) {
		node := state.Node{Key: mem.key(n.Key), Order: n.Order}
		if n.Spec != nil {
			node.Spec = mem.keep(n.Spec)
			if node.Needs, node.Producer, err = specs.Needs(node.Spec); err != nil {
				return fmt.Errorf("node %s: %w", node.Key, err)
			}
		}
		if n.Annotations >= 0 {
			node.Annotations = notes[n.Annotations]
		}
		if n.Order < 0 {
			g.Tasks.Ordered = false
		}
		for _, d := range n.Deps {
			if d.Node >= 0 {
				edges = append(room(edges), int32(d.Node))
				node.DepNodes = extended(node.DepNodes, edges)
			} else {
				deps = append(room(deps), depMem.key(d.Key))
				node.Deps = extended(node.Deps, deps)
			}
		}
		g.Tasks.Nodes = append(g.Tasks.Nodes, node)
	}
	return r.Err()
}

// nodePool keeps the node lists of submitted graphs, which the state does not keep.
var nodePool sync.Pool

func takeNodes() []state.Node {
	if p, ok := nodePool.Get().(*[]state.Node); ok {
		return (*p)[:0]
	}
	return make([]state.Node, 0, 64)
}

// Recycle returns memory that only the submission needed to its pool.
func (g *Graph) Recycle() {
	clear(g.Tasks.Nodes)
	if nodes := g.Tasks.Nodes; cap(nodes) <= 1<<17 {
		nodePool.Put(&nodes)
	}
	g.Tasks.Nodes = nil
}

// room returns a list with capacity for one more element that is not shared.
func room[T any](list []T) []T {
	if len(list) == cap(list) {
		return make([]T, 0, min(max(4, 4*cap(list)), 1024))
	}
	return list
}

// extended returns the part of a node's dependencies with the last element of list added. As long as they are adjacent,
// nothing is copied.
func extended[T any](part, list []T) []T {
	n := len(part)
	if len(list) > n {
		return list[len(list)-n-1 : len(list) : len(list)]
	}
	// The list was reallocated in the middle of a node.
	return append(slices.Clip(part), list[len(list)-1])
}

func annotations(a *taskgraph.Annotations) *state.Annotations {
	out := &state.Annotations{
		Workers: a.Workers, AllowOtherWorkers: a.AllowOtherWorkers, Priority: a.Priority, HasPriority: a.HasPriority,
		Retries: a.Retries, Raw: slices.Clone(a.Raw),
	}
	for name, amount := range a.Resources {
		out.Resources = append(out.Resources, state.Resource{Name: name, Amount: amount})
	}
	slices.SortFunc(out.Resources, func(x, y state.Resource) int { return strings.Compare(x.Name, y.Name) })
	return out
}

// emptyTuple is the pickle of (), which clients send unless they are configured to send code
// (distributed.diagnostics.computations.nframes).
const emptyTuple = "\x80\x05)."

// maxCode bounds the source code that is kept of a graph, in bytes.
const maxCode = 64 << 10

// readCode returns the pickle of the source code of a graph; nil if there is none, or too much. It borrows from the
// message.
func readCode(m *wire.Message, u *message.UpdateGraph) []byte {
	v, err := u.Code.Decode(m, val.KeepClosed)
	if err != nil {
		return nil // source code is informational and does not make a graph invalid
	}
	p, ok := v.(*wire.Pickled)
	if !ok || len(p.Buffers) > 0 || len(p.Data) > maxCode || string(p.Data) == emptyTuple {
		return nil
	}
	return p.Data
}
