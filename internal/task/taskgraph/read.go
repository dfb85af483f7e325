package taskgraph

import (
	"fmt"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// MaxNodes is the maximum number of nodes of one graph, MaxAnnotations that of its sets of annotations.
const (
	MaxNodes       = 1 << 26
	MaxAnnotations = 1 << 20
)

// Node is a decoded node of a graph. It borrows from the frames.
type Node struct {
	// Key is the canonical key.
	Key []byte
	// Spec is the call; nil for a key that the scheduler already has.
	Spec []byte
	// Deps are the dependencies; the next node reuses the slice.
	Deps []Dep
	// Annotations is an index of Reader.Annotations, or None.
	Annotations int
	// Order is the position in the graph, or None.
	Order int64
}

// Dep is a dependency: a node of the same graph, or a key.
type Dep struct {
	// Node is the index of a node, None for a key.
	Node int
	// Key is the canonical key; nil for a node.
	Key []byte
}

// Reader decodes a graph, one node at a time and without an allocation for each.
//
//	g, err := taskgraph.Read(s)
//	var n taskgraph.Node
//	for g.Next(&n) {
//		…
//	}
//	err = g.Err()
type Reader struct {
	// Registry is the hash of the functions of the client.
	Registry string
	// Nodes is the number of nodes that the graph announces: do not allocate by it.
	Nodes int
	// Annotations are the sets that nodes refer to.
	Annotations []Annotations

	frames []wire.Frame
	r      msgpack.Reader
	read   int
	err    error
}

// Read returns a reader of the graph of a Go client. The frames must be in host memory, and not compressed.
func Read(s *wire.Serialized) (*Reader, error) {
	h, err := readGraphHeader(s.Header)
	if err != nil {
		return nil, &task.SpecError{Reason: "header of a graph", Err: err}
	}
	if h.serializer != Serializer {
		return nil, &task.SpecError{Reason: fmt.Sprintf("graph of family %.40q, want %q", h.serializer, Serializer)}
	}
	if h.version != graphVersion {
		return nil, &task.SpecError{Reason: fmt.Sprintf("graph of version %d, want %d; "+
			"use the same "+
			"release everywhere", h.version, graphVersion)}
	}
	var size int64
	for _, f := range s.Frames {
		if f.OnDevice() {
			return nil, &task.SpecError{Reason: "graph in GPU memory"}
		}
		size += int64(f.Len())
	}
	if len(s.Frames) == 0 {
		return nil, &task.SpecError{Reason: "graph without frames"}
	}
	g := &Reader{Registry: h.registry, frames: s.Frames[1:]}
	if err := g.head(s.Frames[0].Bytes()); err != nil {
		return nil, &task.SpecError{Reason: "first frame of a graph", Err: err}
	}
	if int64(g.Nodes) > size/6 { // the shortest node has six bytes
		return nil, &task.SpecError{Reason: fmt.Sprintf("graph of %d nodes in %d bytes", g.Nodes, size)}
	}
	return g, nil
}

func (g *Reader) head(b []byte) error {
	r := msgpack.NewReader(b)
	n, err := r.ReadMapLen()
	if err != nil {
		return err
	}
	for range n {
		k, err := r.ReadName()
		if err != nil {
			return err
		}
		switch string(k) {
		case "nodes":
			var nodes uint64
			if nodes, err = r.ReadUint(); nodes > MaxNodes {
				return fmt.Errorf("%d nodes, maximum is %d", nodes, MaxNodes)
			}
			g.Nodes = int(nodes)
		case "annotations":
			err = g.annotations(&r)
		default:
			err = r.Skip()
		}
		if err != nil {
			return err
		}
	}
	return r.End()
}

func (g *Reader) annotations(r *msgpack.Reader) error {
	n, err := r.ReadArrayLen()
	if err != nil {
		return err
	}
	if n > MaxAnnotations {
		return fmt.Errorf("%d sets of annotations, maximum is %d", n, MaxAnnotations)
	}
	for range n {
		a, err := ReadAnnotations(r)
		if err != nil {
			return fmt.Errorf("annotations: %w", err)
		}
		g.Annotations = append(g.Annotations, a)
	}
	return nil
}

// Next decodes the next node to n, and reports whether there is one.
func (g *Reader) Next(n *Node) bool {
	if g.err != nil || g.read >= g.Nodes {
		return false
	}
	for g.r.Remaining() == 0 {
		if len(g.frames) == 0 {
			g.err = &task.SpecError{Reason: fmt.Sprintf("graph of %d nodes ends after %d", g.Nodes, g.read)}
			return false
		}
		g.r, g.frames = msgpack.NewReader(g.frames[0].Bytes()), g.frames[1:]
	}
	if err := g.node(n); err != nil {
		g.err = &task.SpecError{Reason: fmt.Sprintf("node %d of a graph", g.read), Err: err}
		return false
	}
	g.read++
	return true
}

func (g *Reader) node(n *Node) error {
	*n = Node{Deps: n.Deps[:0], Annotations: None, Order: None}
	parts, err := g.r.ReadArrayLen()
	if err != nil {
		return err
	}
	if parts != 5 {
		return fmt.Errorf("%d parts, want 5", parts)
	}
	if n.Key, err = g.key(); err != nil {
		return err
	}
	if !g.r.TryNil() {
		if n.Spec, err = g.r.ReadBytes(); err != nil {
			return err
		}
	}
	deps, err := g.r.ReadArrayLen()
	if err != nil {
		return err
	}
	for range deps {
		d, err := g.dep()
		if err != nil {
			return err
		}
		n.Deps = append(n.Deps, d)
	}
	if !g.r.TryNil() {
		i, err := g.r.ReadUint()
		if err != nil {
			return err
		}
		if i >= uint64(len(g.Annotations)) {
			return fmt.Errorf("annotations %d of %d", i, len(g.Annotations))
		}
		n.Annotations = int(i)
	}
	if !g.r.TryNil() {
		if n.Order, err = g.r.ReadInt(); err != nil {
			return err
		}
		if n.Order < 0 {
			return fmt.Errorf("invalid order %d", n.Order)
		}
	}
	return nil
}

func (g *Reader) dep() (Dep, error) {
	switch g.r.Kind() {
	case msgpack.Int:
		i, err := g.r.ReadUint()
		if err != nil {
			return Dep{}, err
		}
		if i >= uint64(g.Nodes) {
			return Dep{}, fmt.Errorf("dependency on node %d of %d", i, g.Nodes)
		}
		return Dep{Node: int(i)}, nil
	case msgpack.MapKind:
		n, err := g.r.ReadMapLen()
		if err != nil {
			return Dep{}, err
		}
		name, err := g.r.ReadName()
		if err != nil {
			return Dep{}, err
		}
		if n != 1 || string(name) != "k" {
			return Dep{}, fmt.Errorf("dependency is a map")
		}
	}
	k, err := g.key()
	return Dep{Node: None, Key: k}, err
}

// key decodes a canonical key. It allocates only for other forms, which Go clients never send.
func (g *Reader) key() ([]byte, error) { return g.r.ReadKey(nil) }

// Err returns the error that ended the iteration, nil at the end of the graph.
func (g *Reader) Err() error {
	if g.err != nil {
		return g.err
	}
	if g.read == g.Nodes && (g.r.Remaining() > 0 || len(g.frames) > 0) {
		return &task.SpecError{Reason: fmt.Sprintf("data after the %d nodes of a graph", g.Nodes)}
	}
	return nil
}
