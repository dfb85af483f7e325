package client

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"go.millstream.dev/client/internal/tracker"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/task/taskgraph"
)

// Graph is a set of calls with keys that the caller chooses. It is submitted as a whole: the scheduler orders the
// tasks, and only requested results are kept. Nodes may refer to nodes that are added later (RefTo). A Graph is not
// safe for concurrent use.
type Graph struct {
	b     task.Builder
	nodes []graphNode
	index map[task.Key]int
	specs []byte
	deps  []task.Key // of all nodes
	at    []int32    // the nodes of deps, taskgraph.None for other keys; set by check
	spec  []byte     // memory for the node that is being added
	err   error
}

type graphNode struct {
	key                task.Key
	from, to           int                    // in specs
	firstDep, afterDep int                    // in deps
	notes              *taskgraph.Annotations // nil for none
}

// NewGraph returns an empty graph.
func NewGraph() *Graph { return &Graph{index: make(map[task.Key]int)} }

// Node is a call in a graph. It can be an argument of other calls.
type Node[T any] struct{ key task.Key }

// Key returns the key of the node.
func (n Node[T]) Key() task.Key { return n.key }

// ArgOf marks a node as an Arg.
func (n Node[T]) ArgOf(T) {}

// AppendArg encodes the node as an argument: a reference to its result.
func (n Node[T]) AppendArg(b *task.Builder) error {
	b.Ref(n.key)
	return nil
}

// Ref returns the node as a field of a struct that is an argument.
func (n Node[T]) Ref() task.Ref[T] { return task.RefTo[T](n.key) }

// RefTo returns a reference to the result of a key: of a node that is added later, or of a task on the cluster.
func RefTo[T any](key string) Ref[T] { return task.RefTo[T](task.NewKey(key)) }

// cycleError returns the error for nodes that depend on each other: each needs the next and the last needs the first.
func cycleError(keys []task.Key) error {
	names := make([]string, 0, len(keys)+1)
	for _, k := range append(keys, keys[0]) {
		names = append(names, k.String())
	}
	return errors.New("client: graph has a cycle: " + strings.Join(names, " needs "))
}

// Len returns the number of nodes.
func (g *Graph) Len() int { return len(g.nodes) }

// add adds the call in the builder.
func (g *Graph) add(key task.Key, opts []Option, err error) {
	o := newOptions(opts)
	if err != nil {
		g.addSpec(key, nil, nil, &o, err)
		return
	}
	g.spec = g.b.Append(g.spec[:0])
	g.addSpec(key, g.spec, g.b.Deps(), &o, nil)
}

// addSpec adds an encoded call. It copies spec and deps.
func (g *Graph) addSpec(key task.Key, spec []byte, deps []task.Key, o *options, err error) {
	if err != nil {
		g.fail(fmt.Errorf("client: node %s: %w", key, err))
		return
	}
	if _, ok := g.index[key]; ok {
		g.fail(fmt.Errorf("client: duplicate node %s in the graph", key))
		return
	}
	n := graphNode{key: key, from: len(g.specs), firstDep: len(g.deps)}
	g.specs, g.deps = append(g.specs, spec...), append(g.deps, deps...)
	n.to, n.afterDep = len(g.specs), len(g.deps)
	if !o.notes.IsZero() {
		notes := o.notes
		n.notes = &notes
	}
	g.index[key] = len(g.nodes)
	g.nodes = append(g.nodes, n)
}

// fail records the first error, which Submit returns.
func (g *Graph) fail(err error) {
	if g.err == nil {
		g.err = err
	}
}

// Node adds a call to a graph. Graph.Submit returns its errors.
func (f *Fn0[R]) Node(g *Graph, key string, opts ...Option) Node[R] {
	k := task.NewKey(key)
	g.add(k, opts, f.build(&g.b))
	return Node[R]{k}
}

// Node adds a call to a graph. Graph.Submit returns its errors.
func (f *Fn1[A, R]) Node(g *Graph, key string, x Arg[A], opts ...Option) Node[R] {
	k := task.NewKey(key)
	g.add(k, opts, f.build(&g.b, x))
	return Node[R]{k}
}

// Node adds a call to a graph. Graph.Submit returns its errors.
func (f *Fn2[A, B, R]) Node(g *Graph, key string, x Arg[A], y Arg[B], opts ...Option) Node[R] {
	k := task.NewKey(key)
	g.add(k, opts, f.build(&g.b, x, y))
	return Node[R]{k}
}

// Node adds a call to a graph. Graph.Submit returns its errors.
func (f *Fn3[A, B, C, R]) Node(g *Graph, key string, x Arg[A], y Arg[B], z Arg[C], opts ...Option) Node[R] {
	k := task.NewKey(key)
	g.add(k, opts, f.build(&g.b, x, y, z))
	return Node[R]{k}
}

// Node adds a call to a graph. Graph.Submit returns its errors.
func (f *Fn4[A, B, C, D, R]) Node(g *Graph, key string, x Arg[A], y Arg[B], z Arg[C], u Arg[D],
	opts ...Option) Node[R] {
	k := task.NewKey(key)
	g.add(k, opts, f.build(&g.b, x, y, z, u))
	return Node[R]{k}
}

// Compute submits a graph and returns the futures of the wanted nodes.
func Compute[T any](ctx context.Context, c *Client, g *Graph, wanted ...Node[T]) ([]*Future[T], error) {
	keys := make([]task.Key, len(wanted))
	for i, n := range wanted {
		keys[i] = n.key
	}
	return submitGraph[T](ctx, c, g, keys)
}

// Submit submits the graph and returns the futures of the wanted keys. See As for their types.
func (g *Graph) Submit(ctx context.Context, c *Client, wanted ...task.Key) ([]*Future[any], error) {
	return submitGraph[any](ctx, c, g, wanted)
}

// As converts a future of unknown type to a future of type T. Both futures hold the task.
func As[T any](f AnyFuture) *Future[T] {
	c, s, err := f.state()
	if err != nil {
		return failedFuture[T](c, err)
	}
	c.tracker.Share(s)
	return newFuture[T](c, s)
}

func submitGraph[T any](ctx context.Context, c *Client, g *Graph, wanted []task.Key) ([]*Future[T], error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if g.err != nil {
		return nil, g.err
	}
	if err := g.check(wanted); err != nil {
		return nil, err
	}
	if len(wanted) == 0 {
		return nil, nil
	}
	if err := c.tracker.WaitForSpace(ctx); err != nil {
		return nil, err
	}
	out := tracker.NewGraph(tracker.Options{FIFO: "60s", Submitting: task.CurrentKey(ctx)}, true)
	w := out.Writer()
	w.Grow(len(g.specs) + nodeBytes*len(g.nodes))
	var o options
	o.trace(ctx, "graph", "", len(g.nodes))
	for i := range g.nodes {
		n := &g.nodes[i]
		notes := o.notes // the trace only
		if n.notes != nil {
			notes = *n.notes
			notes.Trace = o.notes.Trace
		}
		c.advice.CheckNode(n.key, n.to-n.from)
		c.advice.CheckWorkers(&notes)
		w.Linked(n.key, g.specs[n.from:n.to], g.deps[n.firstDep:n.afterDep], g.at[n.firstDep:n.afterDep],
			out.Annotate(&notes))
	}
	slab := make([]Future[T], len(wanted))
	handles := make([]tracker.Handle, len(wanted))
	futures := make([]*Future[T], len(wanted))
	if err := c.tracker.SubmitGraph(out, wanted, handles); err != nil {
		return nil, err
	}
	for i := range wanted {
		slab[i] = Future[T]{c: c, h: &handles[i]}
		futures[i] = &slab[i]
	}
	t := c.tracker
	runtime.AddCleanup(&slab[0], func(hs []tracker.Handle) { t.ReleaseSlab(hs) }, handles)
	return futures, nil
}

// nodeBytes is an estimate of the bytes of a node in a message, without its spec.
const nodeBytes = 48

// check rejects graphs that cannot be computed, before they are sent.
func (g *Graph) check(wanted []task.Key) error {
	for _, k := range wanted {
		if _, ok := g.index[k]; !ok {
			return fmt.Errorf("client: wanted key %s is not in the graph", k)
		}
	}
	g.resolve()
	return g.cycle()
}

// resolve finds the nodes of all dependencies.
func (g *Graph) resolve() {
	g.at = slices.Grow(g.at[:0], len(g.deps))
	for _, k := range g.deps {
		i, ok := g.index[k]
		if !ok {
			i = taskgraph.None
		}
		g.at = append(g.at, int32(i))
	}
}

// cycle reports a cycle of nodes as an error. The depth-first search is not recursive, as graphs may be long chains.
func (g *Graph) cycle() error {
	const (
		fresh = iota
		open
		done
	)
	color := make([]uint8, len(g.nodes))
	type step struct{ node, dep int }
	var path []step
	for start := range g.nodes {
		if color[start] != fresh {
			continue
		}
		path = append(path[:0], step{node: start})
		color[start] = open
		for len(path) > 0 {
			top := &path[len(path)-1]
			n := &g.nodes[top.node]
			if n.firstDep+top.dep == n.afterDep {
				color[top.node] = done
				path = path[:len(path)-1]
				continue
			}
			next := int(g.at[n.firstDep+top.dep])
			top.dep++
			if next == taskgraph.None || color[next] == done {
				continue
			}
			if color[next] == open {
				var keys []task.Key
				for i := range path {
					if len(keys) > 0 || path[i].node == next {
						keys = append(keys, g.nodes[path[i].node].key)
					}
				}
				return cycleError(keys)
			}
			color[next] = open
			path = append(path, step{node: next})
		}
	}
	return nil
}
