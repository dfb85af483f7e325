package tracker

import (
	"slices"

	"go.millstream.dev/client/internal/daskgraph"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/task/taskgraph"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// Options are the fields of update-graph that apply to all its tasks. Tasks with equal Options may be sent together.
type Options struct {
	// FIFO is the fifo_timeout in the form of the Dask configuration.
	FIFO string
	// Actors specifies that the results are actors.
	Actors bool
	// Submitting is the task that submits the graph, if any.
	Submitting task.Key
}

// Graph is an update-graph message. It is open while it is the last one in the queue, so that tasks that are submitted
// one by one are sent together, and is kept until its tasks have ended in case it must be sent again.
type Graph struct {
	opts   Options
	seq    int // order: graphs may refer to earlier ones
	w      taskgraph.Writer
	wanted []byte // concatenated keys
	n      int    // number of wanted keys
	left   int    // wanted keys that have not ended
	notes  map[string]int
	sealed *wire.Serialized
	fifo   [16]byte // memory for opts.FIFO as msgpack
	// unordered means that the scheduler orders the tasks.
	unordered bool
	dask      *daskgraph.Graph // the sealed graph for Dask's scheduler; nil for schedulers of this module
}

// NewGraph returns an empty graph, which one goroutine fills and then submits. unordered means that the scheduler
// orders the tasks.
func NewGraph(opts Options, unordered bool) *Graph { return &Graph{opts: opts, unordered: unordered} }

// Writer returns the writer of the graph's tasks.
func (g *Graph) Writer() *taskgraph.Writer { return &g.w }

// Annotate adds annotations, equal ones only once, and returns their index.
func (g *Graph) Annotate(a *taskgraph.Annotations) int {
	if a.IsZero() {
		return taskgraph.None
	}
	text := string(a.Append(nil))
	if i, ok := g.notes[text]; ok {
		return i
	}
	if g.notes == nil {
		g.notes = make(map[string]int)
	}
	i := g.w.Annotations(a)
	g.notes[text] = i
	return i
}

// want adds a key to the wanted keys.
func (g *Graph) want(s *State) {
	g.wanted = append(g.wanted, s.key...)
	g.n++
	if s.graph == nil && !s.status.Ended() {
		s.graph = g
		g.left++
	}
}

// done records that a key of the graph has ended.
func (g *Graph) done(s *State) {
	s.graph = nil
	g.left--
}

// seal completes the graph: no more tasks are added. The caller holds mu.
func (t *Tracker) seal(g *Graph) error {
	if g.sealed != nil {
		return nil
	}
	g.sealed = g.w.SerializedFor(t.cfg.Registry())
	g.w = taskgraph.Writer{}
	if !t.identity.IsDask() {
		return nil
	}
	// Dask's scheduler reads graphs one after the other, but in two steps if it has to order the tasks, and in one step
	// otherwise. After a graph that it orders, all are sent as two steps, so that none overtakes a graph that it
	// depends on.
	t.unordered = slices.DeleteFunc(t.unordered, func(x *Graph) bool { return x.left <= 0 })
	if g.unordered {
		t.unordered = append(t.unordered, g)
	}
	var err error
	g.dask, err = daskgraph.New(g.sealed, len(t.unordered) == 0)
	return err
}

// Constant fields of update-graph, as msgpack.
var (
	rawTrue, rawFalse = message.Raw{0xc3}, message.Raw{0xc2}
	noCollections     = message.Raw("\x81\xabcollections\x90")
)

// append appends the message of a sealed graph.
func (g *Graph) append(b *message.Buffer) {
	u := message.UpdateGraph{Expr: message.Object{Value: g.sealed}, Keys: message.KeyList{Joined: g.wanted, N: g.n},
		SubmittingTask: g.opts.Submitting, FIFOTimeout: msgpack.AppendString(g.fifo[:0], g.opts.FIFO), Actors: rawFalse,
		Annotations:  message.Object{Raw: message.EmptyMap}, // they are in the graph
		SpanMetadata: message.Object{Raw: noCollections}}
	if g.opts.Actors {
		u.Actors = rawTrue
	}
	if d := g.dask; d != nil {
		u.Expr.Value, u.InternalPriority = d.Expr, d.Priority
		u.Keys.Set = true // releases before 2025.7 require a set
		u.Annotations = message.Object{Pickle: d.Pickled, Raw: d.Annotations}
		u.SpanMetadata = message.Object{Pickle: daskgraph.SpanMetadata()}
	}
	u.Append(b)
}
