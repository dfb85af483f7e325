package taskgraph

import (
	"context"
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

var incF = task.Register1("t.inc", func(_ context.Context, x int) (int, error) { return x + 1, nil })

// specOf encodes a call of incF.
func specOf(t testing.TB, x int) []byte {
	t.Helper()
	var b task.Builder
	b.Begin(incF)
	if err := task.NewParam[int]().Val(&b, x); err != nil {
		t.Fatal(err)
	}
	return b.Append(nil)
}

func mustHeader(h wire.Dict) []byte {
	b, err := msgpack.Append(nil, h)
	if err != nil {
		panic(err)
	}
	return b
}

type readNodeOut struct {
	Key, Spec string
	Deps      []string
	Notes     int
	Order     int64
}

// readAll decodes a graph to a comparable form.
func readAll(s *wire.Serialized) ([]readNodeOut, *Reader, error) {
	g, err := Read(s)
	if err != nil {
		return nil, nil, err
	}
	var out []readNodeOut
	var n Node
	for g.Next(&n) {
		o := readNodeOut{Key: task.Key(n.Key).String(), Spec: string(n.Spec), Notes: n.Annotations, Order: n.Order}
		for _, d := range n.Deps {
			if d.Node >= 0 {
				o.Deps = append(o.Deps, fmt.Sprint("#", d.Node))
			} else {
				o.Deps = append(o.Deps, task.Key(d.Key).String())
			}
		}
		out = append(out, o)
	}
	return out, g, g.Err()
}

func mustKey(t testing.TB, v any) task.Key {
	k, err := task.KeyOf(v)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func TestGraphRoundTrip(t *testing.T) {
	var w Writer
	notes := &Annotations{Workers: []string{"a", "b"}, AllowOtherWorkers: true,
		Resources: map[string]float64{"GPU": 1, "X": 0.5}, Priority: -2, HasPriority: true, Retries: 3, Timeout: 1.5}
	at := w.Annotations(notes)
	var b task.Builder
	b.Begin(incF)
	if err := task.NewParam[int]().Arg(&b, task.RefTo[int](mustKey(t, 5))); err != nil {
		t.Fatal(err)
	}
	w.Call(task.NewKey("one"), &b, at, 0)
	w.Spec(mustKey(t, []any{"x", 1}), []byte("spec"), []task.Key{task.NewKey("one"), mustKey(t, 2.5),
		mustKey(t, []any{"y", 2})},
		None, None)
	w.Spec(task.NewKey("known"), nil, nil, None, 7)
	s := w.Serialized()
	if !Is(s.Header) || Is([]byte{0x80}) {
		t.Error("Is of the header of a graph: got false, or true for another")
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
	if g.Registry != task.Hash() || g.Nodes != 3 || len(g.Annotations) != 1 {
		t.Errorf("got %+v, want the registry, 3 nodes and one set of annotations", g)
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

// Dependencies on nodes of the graph are their indices, also of later nodes; others are keys.
func TestLinkedNodes(t *testing.T) {
	var w Writer
	spec := specOf(t, 1)
	number := mustKey(t, 7)
	w.Linked(mustKey(t, "a"), spec, []task.Key{mustKey(t, "b"), mustKey(t, "old"), number},
		[]int32{1, None, None}, None)
	w.Linked(mustKey(t, "b"), spec, nil, nil, w.Annotations(&Annotations{Retries: 2}))
	got, _, err := readAll(w.Serialized())
	want := []readNodeOut{
		{Key: "a", Spec: string(spec), Deps: []string{"#1", "old", "7"}, Notes: None, Order: None},
		{Key: "b", Spec: string(spec), Notes: 0, Order: None}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v; want %+v", got, err, want)
	}
}

func TestLargeGraph(t *testing.T) {
	var w Writer
	spec := []byte(strings.Repeat("s", 100))
	const n = 100_000
	for i := range n {
		w.Spec(task.NewKey(fmt.Sprint("key-", i)), spec, nil, None, int64(i))
	}
	s := w.Serialized()
	if len(s.Frames) < 3 {
		t.Errorf("%d frames", len(s.Frames))
	}
	got, _, err := readAll(s)
	if err != nil || len(got) != n || got[n-1].Key != fmt.Sprint("key-", n-1) {
		t.Fatalf("%d nodes, %v", len(got), err)
	}
	g, _ := Read(s)
	var node Node
	if a := testing.AllocsPerRun(1000, func() { g.Next(&node) }); a > 0 {
		t.Errorf("%g allocations per node", a)
	}
}

// rawGraph returns a graph with given frames.
func rawGraph(nodes int, notes string, frame []byte) *wire.Serialized {
	head := msgpack.AppendMapHeader(nil, 2)
	head = msgpack.AppendString(head, "nodes")
	head = msgpack.AppendInt(head, int64(nodes))
	head = msgpack.AppendString(head, "annotations")
	head = append(head, notes...)
	return &wire.Serialized{
		Header: mustHeader(wire.NewDict("serializer", Serializer, "v", 1, "registry", "r", "num-sub-frames", 2)),
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
		{"version", &wire.Serialized{Header: mustHeader(wire.NewDict("serializer", Serializer, "v", 2)),
			Frames: []wire.Frame{{}}}},
	} {
		if _, _, err := readAll(c.s); err == nil {
			t.Errorf("%s: got nil, want an error", c.name)
		}
	}
}

func FuzzGraph(f *testing.F) {
	var w Writer
	at := w.Annotations(&Annotations{Workers: []string{"a"}, Retries: 1, Resources: map[string]float64{"g": 1}})
	w.Spec(task.NewKey("a"), []byte("s"), []task.Key{task.NewKey("b"), mustKey(f, 5)}, at, 0)
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

// The bytes of version 1: releases that support it must keep decoding them.
const (
	goldenSpec = "4d5301a5742e696e6390010029"
	goldenHead = "83a17601a56e6f64657302ab616e6e6f746174696f6e739181a77265747269657303"
)

func TestGoldenGraph(t *testing.T) {
	var w Writer
	at := w.Annotations(&Annotations{Retries: 3})
	w.Spec(task.NewKey("a"), specOf(t, 41), nil, at, 0)
	w.Spec(task.NewKey("b"), nil, []task.Key{task.NewKey("a")}, None, None)
	s := w.SerializedFor("r")
	const (
		header = "84aa73657269616c697a6572b06d696c6c73747265616d2d6772617068a17601a87265676973747279a172ae6e756d2d7375622d6672616d657302"
		nodes  = "95a161c40d" + goldenSpec + "900000" + "95a162c091a161c0c0"
	)
	for i, want := range []string{header, goldenHead, nodes} {
		got := s.Header
		if i > 0 {
			got = s.Frames[i-1].Bytes()
		}
		if hex.EncodeToString(got) != want {
			t.Errorf("part %d is written as %x, want %s", i, got, want)
		}
	}
	unhex := func(s string) []byte {
		b, err := hex.DecodeString(s)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	got, g, err := readAll(&wire.Serialized{Header: unhex(header),
		Frames: []wire.Frame{wire.HeapFrame(unhex(goldenHead)), wire.HeapFrame(unhex(nodes))}})
	if err != nil || len(got) != 2 || got[1].Deps[0] != "a" || g.Annotations[0].Retries != 3 {
		t.Errorf("%+v, %v", got, err)
	}
}
