package taskgraph

import (
	"fmt"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// Serializer is the serialization family of graphs of Go clients in expr_ser of update-graph.
const Serializer = "millstream-graph"

// graphVersion is the version of the layout of the frames. The first frame is a map:
//
//	{"v": 1, "nodes": n, "annotations": [map, …]}
//
// the others, concatenated, are n nodes:
//
//	[key, spec (bin, nil for an existing key), [dependency, …], index of annotations or nil, order or nil]
//
// A dependency is the index of a node (int) or a key. A key that is a number, which would look like an index, is {"k":
// key}.
const graphVersion = 1

// Writer encodes the expr_ser of an update-graph. Its zero value is an empty graph. It is not safe for concurrent use.
type Writer struct {
	frames [][]byte // full ones
	buf    []byte   // the one that is being written
	nodes  int
	notes  []byte
	nnotes int
}

// graphFrame is the length in bytes at which a frame of nodes ends.
const graphFrame = 4 << 20

// Annotations adds a set of annotations and returns its index.
func (w *Writer) Annotations(a *Annotations) int {
	w.notes = a.Append(w.notes)
	w.nnotes++
	return w.nnotes - 1
}

// RawAnnotations is Annotations of a map as msgpack, including annotations that ReadAnnotations does not decode.
func (w *Writer) RawAnnotations(raw []byte) int {
	w.notes = append(w.notes, raw...)
	w.nnotes++
	return w.nnotes - 1
}

// None means no annotations, or no order, of a node.
const None = -1

// Len returns the number of nodes.
func (w *Writer) Len() int { return w.nodes }

// Size returns the length of the encoded nodes in bytes.
func (w *Writer) Size() int64 {
	n := int64(len(w.buf) + len(w.notes))
	for _, f := range w.frames {
		n += int64(len(f))
	}
	return n
}

// Grow allocates space for n more bytes, to avoid later copies.
func (w *Writer) Grow(n int) {
	if n = min(n, graphFrame+graphFrame/8); cap(w.buf)-len(w.buf) < n {
		b := make([]byte, len(w.buf), len(w.buf)+n)
		copy(b, w.buf)
		w.buf = b
	}
}

// Call adds a node with the call in the builder, and returns its index. annotations and order may be None.
func (w *Writer) Call(key task.Key, b *task.Builder, annotations int, order int64) int {
	w.node([]byte(key))
	at := len(w.buf)
	// The length of the spec is known only after it is encoded: the header has a fixed size.
	w.buf = append(w.buf, 0xc6, 0, 0, 0, 0)
	w.buf = b.Append(w.buf)
	n := len(w.buf) - at - 5
	w.buf[at+1], w.buf[at+2], w.buf[at+3], w.buf[at+4] = byte(n>>24), byte(n>>16), byte(n>>8), byte(n)
	w.buf = msgpack.AppendArrayHeader(w.buf, len(b.Deps()))
	for _, k := range b.Deps() {
		w.buf = appendDep(w.buf, k)
	}
	return w.end(annotations, order)
}

// Spec adds a node with an encoded call; deps are its keys.
func (w *Writer) Spec(key task.Key, spec []byte, deps []task.Key, annotations int, order int64) int {
	return w.SpecBytes([]byte(key), spec, deps, annotations, order)
}

// SpecBytes is Spec with the key as bytes.
func (w *Writer) SpecBytes(key []byte, spec []byte, deps []task.Key, annotations int, order int64) int {
	w.node(key)
	if spec == nil {
		w.buf = msgpack.AppendNil(w.buf)
	} else {
		w.buf = msgpack.AppendBytes(w.buf, spec)
	}
	w.buf = msgpack.AppendArrayHeader(w.buf, len(deps))
	for _, k := range deps {
		w.buf = appendDep(w.buf, k)
	}
	return w.end(annotations, order)
}

// Linked is Spec without an order, for a node whose dependencies are known: at has the nodes of deps, None for keys
// that are not in the graph.
func (w *Writer) Linked(key task.Key, spec []byte, deps []task.Key, at []int32, annotations int) int {
	w.node([]byte(key))
	w.buf = msgpack.AppendBytes(w.buf, spec)
	w.buf = msgpack.AppendArrayHeader(w.buf, len(deps))
	for i, k := range deps {
		if at[i] == None {
			w.buf = appendDep(w.buf, k)
		} else {
			w.buf = msgpack.AppendUint(w.buf, uint64(at[i]))
		}
	}
	return w.end(annotations, None)
}

func (w *Writer) node(key []byte) {
	if len(w.buf) >= graphFrame {
		w.frames, w.buf = append(w.frames, w.buf), make([]byte, 0, graphFrame+graphFrame/8)
	}
	w.buf = append(w.buf, 0x95) // an array of five
	w.buf = append(w.buf, key...)
}

func (w *Writer) end(annotations int, order int64) int {
	if annotations < 0 {
		w.buf = msgpack.AppendNil(w.buf)
	} else {
		w.buf = msgpack.AppendUint(w.buf, uint64(annotations))
	}
	if order < 0 {
		w.buf = msgpack.AppendNil(w.buf)
	} else {
		w.buf = msgpack.AppendInt(w.buf, order)
	}
	w.nodes++
	return w.nodes - 1
}

func appendDep(dst []byte, k task.Key) []byte {
	r := msgpack.NewReader([]byte(k))
	switch r.Kind() {
	case msgpack.Str, msgpack.Bin, msgpack.Array:
		return append(dst, k...)
	}
	dst = msgpack.AppendMapHeader(dst, 1)
	dst = msgpack.AppendString(dst, "k")
	return append(dst, k...)
}

// Serialized returns the encoded graph, which calls functions of the registry of this process.
func (w *Writer) Serialized() *wire.Serialized { return w.SerializedFor(task.Hash()) }

// SerializedFor returns the encoded graph for workers with a registry: a Hash, the first part of one for workers of any
// build, or "" for any workers.
func (w *Writer) SerializedFor(registry string) *wire.Serialized {
	head := msgpack.AppendMapHeader(make([]byte, 0, 40+len(w.notes)), 3)
	head = msgpack.AppendString(head, "v")
	head = msgpack.AppendInt(head, graphVersion)
	head = msgpack.AppendString(head, "nodes")
	head = msgpack.AppendInt(head, int64(w.nodes))
	head = msgpack.AppendString(head, "annotations")
	head = msgpack.AppendArrayHeader(head, w.nnotes)
	head = append(head, w.notes...)
	frames := append(make([]wire.Frame, 0, 2+len(w.frames)), wire.HeapFrame(head))
	for _, f := range w.frames {
		frames = append(frames, wire.HeapFrame(f))
	}
	if len(w.buf) > 0 {
		frames = append(frames, wire.HeapFrame(w.buf))
	}
	header := msgpack.AppendMapHeader(make([]byte, 0, 128), 4)
	header = msgpack.AppendString(msgpack.AppendString(header, "serializer"), Serializer)
	header = msgpack.AppendInt(msgpack.AppendString(header, "v"), graphVersion)
	header = msgpack.AppendString(msgpack.AppendString(header, "registry"), registry)
	header = msgpack.AppendInt(msgpack.AppendString(header, "num-sub-frames"), int64(len(frames)))
	return &wire.Serialized{Header: header, Frames: frames}
}

// Is reports whether the header of an expr_ser is that of the graph of a Go client.
func Is(header []byte) bool {
	h, err := readGraphHeader(header)
	return err == nil && h.serializer == Serializer
}

type graphHeader struct {
	serializer, registry string
	version              int64
}

func readGraphHeader(b []byte) (graphHeader, error) {
	var h graphHeader
	r := msgpack.NewReader(b)
	n, err := r.ReadMapLen()
	if err != nil {
		return h, err
	}
	for range n {
		k, err := r.ReadName()
		if err != nil {
			return h, err
		}
		switch string(k) {
		case "serializer":
			h.serializer, err = r.ReadString()
		case "registry":
			h.registry, err = r.ReadString()
		case "v":
			h.version, err = r.ReadInt()
		default:
			err = r.Skip()
		}
		if err != nil {
			return h, err
		}
	}
	if len(h.registry) > 128 {
		return h, fmt.Errorf("registry of %d bytes", len(h.registry))
	}
	return h, r.End()
}
