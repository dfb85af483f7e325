package graphs

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/dask/gotask"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/task/taskgraph"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/internal/wire/pickled"
	"go.millstream.dev/scheduler/internal/pygraph"
	"go.millstream.dev/scheduler/internal/specs"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/wire"
)

// decodePickled creates the tasks of a Python client's expression: here if it can be read without Python, otherwise in
// a materializer.
func (m *Opener) decodePickled(ctx context.Context, from Source, g *Graph, expr *wire.Serialized, msg *wire.Message,
	u *message.UpdateGraph) error {
	notes, err := u.Annotations.Decode(msg, val.KeepClosed)
	if err != nil {
		return fmt.Errorf("annotations: %w", err)
	}
	// The number of readers that open graphs is the number of processors, which bounds the memory of decompressed
	// graphs.
	select {
	case m.opening <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	short, err := g.split(expr, notes, u.InternalPriority,
		func(p *pygraph.Graph) bool { return m.opens(ctx, from.Comm, p) })
	<-m.opening
	if err != nil {
		return err
	}
	if !short {
		who := owner(from.Comm)
		opening, stop := from.OpenContext(ctx, msg)
		nodes, err := m.materialize(opening, who, g, expr, notes, u.InternalPriority)
		stop()
		if err != nil {
			return err
		}
		m.plans(who, nodes)
		g.Tasks = state.Graph{Nodes: nodes, Ordered: true}
		m.learn(expr)
	}
	if m.cfg.Record() {
		g.Expr = g.record()
	}
	return nil
}

// owner returns the owner of the Python process that opens a client's graphs: the identity of the peer or, if that is
// unknown, its host.
func owner(c comm.Comm) string {
	if t := c.Info().TLS; t != nil && len(t.PeerCertificates) > 0 {
		sum := sha256.Sum256(t.PeerCertificates[0].Raw)
		return "certificate " + hex.EncodeToString(sum[:])
	}
	host, err := comm.AddressHost(c.PeerAddr())
	if err != nil {
		host = c.PeerAddr()
	}
	return host
}

// opens reports whether Python workers will be able to open a graph that can be read without Python. A task that cannot
// be opened costs a worker its connection, so the imports of a graph must have been opened here once, where a failure
// costs nothing.
func (m *Opener) opens(ctx context.Context, c comm.Comm, p *pygraph.Graph) bool {
	if len(p.Globals) == 0 && !p.Code {
		return true
	}
	if m.cfg.Helpers.Off() {
		return true // cannot be checked without Python
	}
	if client := c.Info().Python; p.Code && len(client) >= 2 {
		// Code is specific to a release of Python.
		in, err := m.cfg.Helpers.Interpreter(ctx)
		if err == nil && !strings.HasPrefix(in.Python, fmt.Sprintf("%d.%d.", client[0], client[1])) {
			return false
		}
	}
	return m.allKnown(p.Globals)
}

// maxLearned bounds the number of remembered imports of graphs.
const maxLearned = 100_000

// learn records the imports of a graph that Python has opened.
func (m *Opener) learn(expr *wire.Serialized) {
	names, err := pygraph.Globals(expr, pygraph.Limits{})
	if err != nil || len(names) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.known == nil || len(m.known)+len(names) > maxLearned {
		m.known = map[string]bool{}
	}
	for _, n := range names {
		m.known[n] = true
	}
}

func (m *Opener) allKnown(names []string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range names {
		if !m.known[n] {
			return false
		}
	}
	return true
}

// split creates the tasks without Python, and reports whether it can.
func (g *Graph) split(expr *wire.Serialized, notes any, priority []byte, opens func(*pygraph.Graph) bool) (bool,
	error) {
	all, ok, err := shortNotes(notes)
	if err != nil || !ok {
		return false, err
	}
	p, ok, err := pygraph.Split(expr, g.Event.Keys, pygraph.Limits{})
	if err != nil || !ok || !opens(p) {
		return false, err
	}
	orders, ok := map[task.Key]int64(nil), true
	if !p.Ordered {
		if orders, ok = readOrders(priority); !ok {
			return false, nil
		}
	}
	g.Tasks = state.Graph{Nodes: takeNodes(), Ordered: p.Ordered || len(orders) > 0}
	annotated := all != nil && gotask.Annotated(all.Raw)
	var shared *[]byte
	var mem arena
	for i := range p.Nodes {
		n := &p.Nodes[i]
		node := state.Node{Key: n.Key, Deps: n.Deps, Order: n.Order, Annotations: all, Needs: state.Python}
		if !p.Ordered {
			node.Order = orders[n.Key]
		}
		var flags byte
		if n.Go != "" && !n.Weak || annotated { // a weak name is not sufficient: resources determine the workers
			flags, node.Needs = specs.Go, state.Go
		}
		if n.Spec.Shared != nil {
			if shared == nil || len(*shared) != len(n.Spec.Shared) || &(*shared)[0] != &n.Spec.Shared[0] {
				s := n.Spec.Shared
				shared = &s
			}
			node.Shared = shared
		}
		if flags == 0 && len(n.Spec.Buffers) == 0 && node.Shared == nil {
			node.Spec = n.Spec.Own
		} else {
			node.Spec = mem.make(specs.Size(n.Spec.Own, n.Spec.Buffers), func(dst []byte) []byte {
				return specs.Append(dst, flags, n.Spec.Own, n.Spec.Buffers, node.Shared != nil)
			})
		}
		g.Tasks.Nodes = append(g.Tasks.Nodes, node)
	}
	return true, nil
}

// shortNotes reads the annotations of a message if that needs no Python; nil for none.
func shortNotes(notes any) (*state.Annotations, bool, error) {
	var a taskgraph.Annotations
	switch v := notes.(type) {
	case nil:
		return nil, true, nil
	case *wire.Pickled:
		if string(v.Data) == emptyDict {
			return nil, true, nil
		}
		tree, err := pickled.Tree(v, pickle.Limits{})
		if err != nil {
			return nil, false, fmt.Errorf("annotations: %w", err)
		}
		var ok bool
		if a, ok, err = pygraph.Annotations(tree); err != nil || !ok {
			return nil, false, err
		}
	case msgpack.Map:
		if len(v) == 0 {
			return nil, true, nil
		}
		raw, err := msgpack.Append(nil, v)
		if err != nil {
			return nil, false, nil
		}
		r := msgpack.NewReader(raw)
		if a, err = taskgraph.ReadAnnotations(&r); err != nil {
			return nil, false, nil // Python accepts more forms and has better errors
		}
	default:
		return nil, false, nil
	}
	if math.IsNaN(a.Priority) {
		return nil, false, errors.New("annotations: priority is not a number")
	}
	if len(a.Raw) == 0 {
		if a.IsZero() {
			return nil, true, nil
		}
		a.Raw = a.Append(nil)
	}
	return annotations(&a), true, nil
}

// emptyDict is the pickle of {}, which nearly all clients send as annotations.
const emptyDict = "\x80\x05}\x94."

// readOrders reads internal_priority; nil if there is none.
func readOrders(raw []byte) (map[task.Key]int64, bool) {
	if raw == nil {
		return nil, true
	}
	r := msgpack.NewReader(raw)
	if r.TryNil() {
		return nil, true
	}
	n, err := r.ReadMapLen()
	if err != nil {
		return nil, false
	}
	out := make(map[task.Key]int64, n)
	for range n {
		k, err := r.ReadKey(nil)
		if err != nil {
			return nil, false
		}
		key := task.Key(k)
		if out[key], err = r.ReadInt(); err != nil {
			return nil, false
		}
	}
	return out, true
}

// record returns the graph in the form of the journal: its tasks, since the modules that opened the expression may be
// missing when the journal is read.
func (g *Graph) record() *wire.Serialized {
	var w taskgraph.Writer
	var scratch []byte
	notes := map[*state.Annotations]int{}
	for i := range g.Tasks.Nodes {
		n := &g.Tasks.Nodes[i]
		at := taskgraph.None
		if n.Annotations != nil {
			known, ok := notes[n.Annotations]
			if !ok {
				known = w.RawAnnotations(n.Annotations.Raw)
				notes[n.Annotations] = known
			}
			at = known
		}
		spec := n.Spec
		if n.Shared != nil {
			scratch = specs.AppendWhole(scratch[:0], *n.Shared, spec)
			spec = scratch
		}
		order := int64(taskgraph.None)
		if g.Tasks.Ordered {
			order = max(n.Order, 0)
		}
		w.Spec(n.Key, spec, n.Deps, at, order)
	}
	return w.SerializedFor(g.Tasks.Registry)
}
