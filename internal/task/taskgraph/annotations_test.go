package taskgraph

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// Each annotation, separately and together with all others, is unchanged after decoding.
func TestAnnotations(t *testing.T) {
	all := Annotations{Workers: []string{"a", "b"}, AllowOtherWorkers: true, Resources: map[string]float64{"GPU": 1,
		"A": 0},
		Priority: -1.5, HasPriority: true, Retries: 3, Timeout: 0.25, Trace: "00-1-2-01"}
	cases := []Annotations{{}, all, {HasPriority: true}, {Retries: 1 << 31}}
	whole := reflect.ValueOf(all)
	for i := range whole.NumField() {
		if name := whole.Type().Field(i).Name; name == "Raw" || name == "Priority" {
			continue // Priority requires HasPriority
		}
		one := reflect.New(whole.Type()).Elem()
		one.Field(i).Set(whole.Field(i))
		cases = append(cases, one.Interface().(Annotations))
	}
	for i, a := range cases {
		if got, want := a.IsZero(), i == 0; got != want {
			t.Errorf("%+v: got IsZero %v, want %v", a, got, want)
		}
		b := a.Append([]byte{0xc0})
		r := msgpack.NewReader(b[1:])
		got, err := ReadAnnotations(&r)
		if err != nil || r.End() != nil || string(got.Raw) != string(b[1:]) {
			t.Errorf("%+v: got %v, raw %q, want all of %q", a, err, got.Raw, b[1:])
		}
		got.Raw = nil
		if !reflect.DeepEqual(got, a) {
			t.Errorf("got %+v, want %+v", got, a)
		}
		for end := range len(b) - 1 {
			r := msgpack.NewReader(b[1 : 1+end])
			if got, err := ReadAnnotations(&r); err == nil {
				t.Errorf("%+v: %d of %d bytes are %+v, want an error", a, end, len(b)-1, got)
			}
		}
	}
	if !(*Annotations)(nil).IsZero() {
		t.Error("IsZero of no annotations: got false, want true")
	}
}

// Annotations in the forms of Dask clients, with unknown names and invalid values.
func TestAnnotationForms(t *testing.T) {
	for _, c := range []struct {
		in   wire.Dict
		want Annotations
		err  string
	}{
		{wire.NewDict("workers", "one"), Annotations{Workers: []string{"one"}}, ""},
		{wire.NewDict("workers", []any{}), Annotations{}, ""},
		{wire.NewDict("workers", nil, "retries", nil, "priority", nil, "resources", nil), Annotations{}, ""},
		{wire.NewDict("other", []any{1, wire.NewDict("a", 1)}, "retries", 2), Annotations{Retries: 2}, ""},
		{wire.NewDict("priority", 5), Annotations{Priority: 5, HasPriority: true}, ""},
		{wire.NewDict("resources", wire.Dict{}), Annotations{Resources: map[string]float64{}}, ""},
		{wire.NewDict("resources", wire.NewDict("GPU", 2)), Annotations{Resources: map[string]float64{"GPU": 2}}, ""},
		{wire.NewDict("resources", wire.NewDict("GPU", -1)), Annotations{}, `-1 of resource "GPU"`},
		{wire.NewDict("resources", wire.NewDict("GPU", math.NaN())), Annotations{}, "NaN of resource"},
		{wire.NewDict("resources", []any{}), Annotations{}, "resources: "},
		{wire.NewDict("resources", wire.NewDict("GPU", "one")), Annotations{}, "resources: "},
		{wire.NewDict("resources", wire.NewDict(1, 1)), Annotations{}, "resources: "},
		{wire.NewDict("retries", -1), Annotations{}, "retries: invalid number of retries -1"},
		{wire.NewDict("retries", int64(1)<<31+1), Annotations{}, "retries 2147483649"},
		{wire.NewDict("retries", "x"), Annotations{}, "retries: "},
		{wire.NewDict("workers", []any{1}), Annotations{}, "workers: "},
		{wire.NewDict("workers", 1), Annotations{}, "workers: "},
		{wire.NewDict("allow_other_workers", 1), Annotations{}, "allow_other_workers: "},
		{wire.NewDict("timeout", "x"), Annotations{}, "timeout: "},
	} {
		b := mustHeader(c.in)
		r := msgpack.NewReader(b)
		got, err := ReadAnnotations(&r)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%v: got %+v, %v, want %q", c.in, got, err, c.err)
			}
			continue
		}
		if got.Raw = nil; err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v: got %+v, %v, want %+v", c.in, got, err, c.want)
		}
	}
}

// The size of a graph is that reported by its writer, and the index of each node and set is its position.
func TestWriter(t *testing.T) {
	var w Writer
	if w.Len() != 0 || w.Size() != 0 {
		t.Errorf("an empty graph has %d nodes and %d bytes", w.Len(), w.Size())
	}
	w.Grow(10)
	raw := mustHeader(wire.NewDict("retries", 4, "mine", "x"))
	for i := range 3 {
		if at := w.RawAnnotations(raw); at != i {
			t.Errorf("set %d: got index %d", i, at)
		}
		if at := w.Spec(task.NewKey(fmt.Sprint("k", i)), []byte("s"), nil, i, int64(i)); at != i {
			t.Errorf("node %d: got index %d", i, at)
		}
		w.Grow(1 << 30)
	}
	got, g, err := readAll(w.SerializedFor(""))
	if err != nil || len(got) != 3 || w.Len() != 3 || g.Registry != "" {
		t.Fatalf("got %+v, %v, registry %q", got, err, g.Registry)
	}
	if want := int64(3*len(raw) + 3*len("\x95\xa2k0\xc4\x01s\x90\x00\x00")); w.Size() != want {
		t.Errorf("got %d bytes, want %d", w.Size(), want)
	}
	for i, n := range got {
		if n.Key != fmt.Sprint("k", i) || n.Notes != i || n.Order != int64(i) {
			t.Errorf("node %d: got %+v", i, n)
		}
		if a := g.Annotations[i]; a.Retries != 4 || string(a.Raw) != string(raw) {
			t.Errorf("set %d: got %+v, want %q as it was", i, a, raw)
		}
	}
	empty, g, err := readAll(new(Writer).Serialized())
	if err != nil || len(empty) != 0 || g.Nodes != 0 {
		t.Errorf("an empty graph: got %v, %v", empty, err)
	}
}

// Every key is decoded as a dependency: numbers do not become indexes.
func TestDependencyKeys(t *testing.T) {
	keys := []task.Key{task.NewKey("text"), mustKey(t, []byte("bytes")), mustKey(t, 0), mustKey(t, 1), mustKey(t, -1),
		mustKey(t, 2.5), mustKey(t, []any{"t", 1})}
	var w Writer
	w.Spec(task.NewKey("a"), []byte("s"), keys, None, None)
	w.Spec(task.NewKey("b"), []byte("s"), nil, None, None)
	g, err := Read(w.Serialized())
	if err != nil {
		t.Fatal(err)
	}
	var n Node
	if !g.Next(&n) || len(n.Deps) != len(keys) {
		t.Fatalf("got %+v, %v, want %d dependencies", n, g.Err(), len(keys))
	}
	for i, d := range n.Deps {
		if d.Node != None || task.Key(d.Key) != keys[i] {
			t.Errorf("dependency %d: got node %d, key %q, want the key %v", i, d.Node, d.Key, keys[i])
		}
	}
	if !g.Next(&n) || len(n.Deps) != 0 || g.Next(&n) || g.Err() != nil {
		t.Errorf("the second node: got %+v, %v, want no dependencies and the end", n, g.Err())
	}
}

// The index of a dependency must be that of a node of the graph.
func TestDependencyIndexes(t *testing.T) {
	for index, ok := range map[byte]bool{0: true, 1: true, 2: false, 0x7f: false, 0xff: false} {
		node := []byte{0x95, 0xa1, 'a', 0xc0, 0x91, index, 0xc0, 0xc0}
		other := []byte{0x95, 0xa1, 'b', 0xc0, 0x90, 0xc0, 0xc0}
		if got, _, err := readAll(rawGraph(2, "\x90", append(node, other...))); (err == nil) != ok {
			t.Errorf("dependency on node %d of 2: got %v, %v, want it read: %v", int8(index), got, err, ok)
		}
	}
}
