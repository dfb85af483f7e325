package task

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

type readNodeOut struct {
	Key, Spec string
	Deps      []string
	Notes     int
	Order     int64
}

// readAll reads a graph into something that can be compared.
func readAll(s *wire.Serialized) ([]readNodeOut, *GraphReader, error) {
	g, err := ReadGraph(s)
	if err != nil {
		return nil, nil, err
	}
	var out []readNodeOut
	var n Node
	for g.Next(&n) {
		o := readNodeOut{Key: Key(n.Key).String(), Spec: string(n.Spec), Notes: n.Annotations, Order: n.Order}
		for _, d := range n.Deps {
			if d.Node >= 0 {
				o.Deps = append(o.Deps, fmt.Sprint("#", d.Node))
			} else {
				o.Deps = append(o.Deps, Key(d.Key).String())
			}
		}
		out = append(out, o)
	}
	return out, g, g.Err()
}

func mustKey(t testing.TB, v any) Key {
	k, err := KeyOf(v)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestGraphRoundTrip(t *testing.T) {
	var w GraphWriter
	notes := &Annotations{Workers: []string{"a", "b"}, AllowOtherWorkers: true,
		Resources: map[string]float64{"GPU": 1, "X": 0.5}, Priority: -2, HasPriority: true, Retries: 3, Timeout: 1.5}
	at := w.Annotations(notes)
	var b Builder
	b.Begin(incF)
	if err := NewParam[int]().Arg(&b, RefTo[int](mustKey(t, 5))); err != nil {
		t.Fatal(err)
	}
	w.Call(NewKey("one"), &b, at, 0)
	w.Spec(mustKey(t, []any{"x", 1}), []byte("spec"), []Key{NewKey("one"), mustKey(t, 2.5), mustKey(t, []any{"y", 2})},
		None, None)
	w.Spec(NewKey("known"), nil, nil, None, 7)
	s := w.Serialized()
	if !IsGraph(s.Header) || IsGraph([]byte{0x80}) {
		t.Error("what is a graph?")
	}
	got, g, err := readAll(s)
	if err != nil {
		t.Fatal(err)
	}
	want := []readNodeOut{
		{"one", string(b.Append(nil)), []string{"5"}, 0, 0},
		{"('x', 1)", "spec", []string{"one", "2.5", "('y', 2)"}, None, None},
		{"known", "", nil, None, 7},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	if g.Registry != Hash() || g.Nodes != 3 || len(g.Annotations) != 1 {
		t.Errorf("%+v", g)
	}
	a := g.Annotations[0]
	if len(a.Raw) == 0 {
		t.Error("the raw annotations are missing")
	}
	a.Raw = nil
	if !reflect.DeepEqual(a, *notes) {
		t.Errorf("annotations %+v, want %+v", a, *notes)
	}
}

func TestLargeGraph(t *testing.T) {
	var w GraphWriter
	spec := []byte(strings.Repeat("s", 100))
	const n = 100_000
	for i := range n {
		w.Spec(NewKey(fmt.Sprint("key-", i)), spec, nil, None, int64(i))
	}
	s := w.Serialized()
	if len(s.Frames) < 3 {
		t.Errorf("%d frames", len(s.Frames))
	}
	got, _, err := readAll(s)
	if err != nil || len(got) != n || got[n-1].Key != fmt.Sprint("key-", n-1) {
		t.Fatalf("%d nodes, %v", len(got), err)
	}
	g, _ := ReadGraph(s)
	var node Node
	if a := testing.AllocsPerRun(1000, func() { g.Next(&node) }); a > 0 {
		t.Errorf("%g allocations per node", a)
	}
}

// rawGraph makes a graph of hand-written frames.
func rawGraph(nodes int, notes string, frame []byte) *wire.Serialized {
	head := msgpack.AppendMapHeader(nil, 2)
	head = msgpack.AppendString(head, "nodes")
	head = msgpack.AppendInt(head, int64(nodes))
	head = msgpack.AppendString(head, "annotations")
	head = append(head, notes...)
	return &wire.Serialized{
		Header: mustHeader(wire.NewDict("serializer", GraphSerializer, "v", 1, "registry", "r", "num-sub-frames", 2)),
		Frames: []wire.Frame{wire.HeapFrame(head), wire.HeapFrame(frame)},
	}
}

func TestGraphMistakes(t *testing.T) {
	node := []byte("\x95\xa1k\xc4\x01s\x90\xc0\xc0")
	if _, _, err := readAll(rawGraph(1, "\x90", node)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		s    *wire.Serialized
	}{
		{"too few nodes", rawGraph(2, "\x90", node)},
		{"too many nodes", rawGraph(1, "\x90", append(node[:len(node):len(node)], node...))},
		{"promises", rawGraph(1<<25, "\x90", node)},
		{"more promises", rawGraph(1<<30, "\x90", node)},
		{"four parts", rawGraph(1, "\x90", []byte("\x94\xa1k\xc4\x01s\x90\xc0"))},
		{"key", rawGraph(1, "\x90", []byte("\x95\xc0\xc4\x01s\x90\xc0\xc0"))},
		{"spec", rawGraph(1, "\x90", []byte("\x95\xa1k\xa1s\x90\xc0\xc0"))},
		{"index", rawGraph(1, "\x90", []byte("\x95\xa1k\xc4\x01s\x91\x05\xc0\xc0"))},
		{"map", rawGraph(1, "\x90", []byte("\x95\xa1k\xc4\x01s\x91\x81\xa1x\x05\xc0\xc0"))},
		{"annotations", rawGraph(1, "\x90", []byte("\x95\xa1k\xc4\x01s\x90\x00\xc0"))},
		{"order", rawGraph(1, "\x90", []byte("\x95\xa1k\xc4\x01s\x90\xc0\xff"))},
		{"resource", rawGraph(1, "\x91\x81\xa9resources\x81\xa1x\xff", node)},
		{"retries", rawGraph(1, "\x91\x81\xa7retries\xff", node)},
		{"no frames", &wire.Serialized{Header: rawGraph(1, "\x90", node).Header}},
		{"family", &wire.Serialized{Header: mustHeader(wire.NewDict("serializer", "pickle")),
			Frames: []wire.Frame{{}}}},
		{"version", &wire.Serialized{Header: mustHeader(wire.NewDict("serializer", GraphSerializer, "v", 2)),
			Frames: []wire.Frame{{}}}},
	} {
		if _, _, err := readAll(c.s); err == nil {
			t.Errorf("%s is no error", c.name)
		}
	}
}

func FuzzGraph(f *testing.F) {
	var w GraphWriter
	at := w.Annotations(&Annotations{Workers: []string{"a"}, Retries: 1, Resources: map[string]float64{"g": 1}})
	w.Spec(NewKey("a"), []byte("s"), []Key{NewKey("b"), mustKey(f, 5)}, at, 0)
	w.Spec(mustKey(f, []any{"x", 1}), nil, nil, None, None)
	s := w.Serialized()
	f.Add(s.Header, s.Frames[0].Bytes(), s.Frames[1].Bytes())
	f.Fuzz(func(t *testing.T, header, head, frame []byte) {
		got, g, err := readAll(&wire.Serialized{Header: header,
			Frames: []wire.Frame{wire.HeapFrame(head), wire.HeapFrame(frame)}})
		if err == nil && len(got) != g.Nodes {
			t.Fatalf("%d nodes of %d", len(got), g.Nodes)
		}
	})
}
