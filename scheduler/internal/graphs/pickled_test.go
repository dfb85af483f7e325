package graphs

import (
	"bytes"
	"slices"
	"testing"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/specs"
	"go.millstream.dev/wire"
)

// chunkOf returns the chunk that a materializer sends for some tasks.
func chunkOf(notes []any, tasks ...[]any) msgpack.Raw {
	list := make([]any, len(tasks))
	for i, x := range tasks {
		list[i] = x
	}
	b, err := msgpack.Append(nil, msgpack.MapOf("graph", 1, "notes", notes, "tasks", list))
	if err != nil {
		panic(err)
	}
	return b
}

func TestChunks(t *testing.T) {
	pickle := []byte("\x80\x05N.")
	note, _ := msgpack.Append(nil, map[string]any{"workers": []any{"a"}, "priority": 2.5, "retries": 3,
		"allow_other_workers": true, "resources": map[string]any{"gpu": 1.0}, "else": "x"})
	var c taskReader
	err := c.chunk(&pyproc.Message{Body: chunkOf([]any{note}, []any{"a", []any{}, pickle, []any{}, 4, 0, 0},
		[]any{[]any{"x", 1}, []any{"a"}, 1, []any{0}, 5, nil, 3}), Frames: [][]byte{[]byte("buffer"), pickle}})
	if err == nil {
		err = c.chunk(&pyproc.Message{Body: chunkOf(nil,
			[]any{7, []any{"a", []any{"x", 1}}, pickle, []any{}, 6, 0, 0})})
	}
	if err != nil || len(c.nodes) != 3 {
		t.Fatalf("got %d nodes, error %v, want 3", len(c.nodes), err)
	}
	a, x, last := c.nodes[0], c.nodes[1], c.nodes[2]
	if a.Key != task.NewKey("a") || a.Order != 4 || a.Needs != state.Python || a.Producer || a.Annotations == nil ||
		a.Annotations.Retries != 3 || a.Annotations.Priority != 2.5 || string(a.Annotations.Raw) != string(note) {
		t.Errorf("node a: got %+v", a)
	}
	if len(x.Deps) != 1 || x.Deps[0] != a.Key || x.Needs != state.Go || !x.Producer || x.Annotations != nil {
		t.Errorf("node x: got %+v", x)
	}
	if p, err := specs.Read(x.Spec); err != nil || joined(&p) != "buffer" || !bytes.Equal(p.Pickle, pickle) {
		t.Errorf("spec of x: got %+v, error %v", p, err)
	}
	if last.Annotations != a.Annotations || len(last.Deps) != 2 || last.Deps[1] != x.Key {
		t.Errorf("last node: got %+v", last)
	}
	for name, body := range map[string]msgpack.Raw{
		"no pickle":    chunkOf(nil, []any{"k", []any{}, []byte("x"), []any{}, 0, nil, 0}),
		"no frame":     chunkOf(nil, []any{"k", []any{}, 5, []any{}, 0, nil, 0}),
		"no buffer":    chunkOf(nil, []any{"k", []any{}, pickle, []any{9}, 0, nil, 0}),
		"no notes":     chunkOf(nil, []any{"k", []any{}, pickle, []any{}, 0, 99, 0}),
		"odd flags":    chunkOf(nil, []any{"k", []any{}, pickle, []any{}, 0, nil, 77}),
		"few parts":    chunkOf(nil, []any{"k", []any{}, pickle}),
		"a key":        chunkOf(nil, []any{map[string]any{"x": 1}, []any{}, pickle, []any{}, 0, nil, 0}),
		"a dependency": chunkOf(nil, []any{"k", []any{nil}, pickle, []any{}, 0, nil, 0}),
		"notes":        chunkOf([]any{[]byte{0xc1}}),
		"no map":       {0x91, 0x01},
		"more":         append(chunkOf(nil), 0x01),
	} {
		var c taskReader
		if err := c.chunk(&pyproc.Message{Body: body}); err == nil {
			t.Errorf("%s: got no error", name)
		} else if c.chunk(&pyproc.Message{Body: chunkOf(nil)}) == nil {
			t.Errorf("%s: got no error for a later chunk", name)
		}
	}
}

// FuzzChunk reads any message that a compromised materializer may send.
func FuzzChunk(f *testing.F) {
	pickle := []byte("\x80\x05N.")
	note, _ := msgpack.Append(nil, map[string]any{"workers": "a", "retries": 1})
	f.Add([]byte(chunkOf([]any{note}, []any{"a", []any{"b", []any{"x", 1}}, pickle, []any{0}, 4, 0, 1})),
		[]byte("frame"))
	f.Add([]byte(chunkOf(nil, []any{"a", []any{}, 0, []any{}, -4, nil, 2})), pickle)
	answer, _ := msgpack.Append(nil, map[string]any{"error": map[string]any{"exception": []byte{1}, "traceback": nil,
		"exception_text": "x"}})
	f.Add(answer, []byte{})
	f.Fuzz(func(t *testing.T, body, frame []byte) {
		var c taskReader
		if c.chunk(&pyproc.Message{Body: body, Frames: [][]byte{frame}}) == nil {
			for _, n := range c.nodes {
				if _, err := specs.Read(n.Spec); err != nil || n.Key == "" {
					t.Fatalf("node: got %+v, want a key and a valid spec", n)
				}
			}
		}
		_, _ = readMaterialized(body)
		_, _ = graphNumber(body)
		_, _, _ = specs.Needs(frame)
	})
}

// The record of a Python graph in the journal is read as the same tasks.
func TestPickledRecord(t *testing.T) {
	shared := []byte("\x80\x05")
	note := &state.Annotations{Retries: 2, Raw: []byte("\x82\xa7retries\x02\xa1x\x01")}
	g := &Graph{Tasks: state.Graph{Ordered: true, Nodes: []state.Node{
		{Key: task.NewKey("a"), Spec: []byte("\x80\x05N."), Order: 3, Needs: state.Python},
		{Key: task.NewKey("b"), Spec: specs.Append(nil, specs.Go, []byte("N."), [][]byte{[]byte("buf")}, true),
			Shared: &shared, Deps: []task.Key{task.NewKey("a"), anyKey(7)}, Order: 4, Annotations: note,
			Needs: state.Go},
		{Key: task.NewKey("c"), Spec: specs.Append(nil, specs.Producer, []byte("\x80\x05N."), nil, false),
			Annotations: note, Needs: state.Python, Producer: true},
	}}}
	back := &Graph{}
	if err := back.Read(g.record()); err != nil {
		t.Fatal(err)
	}
	if !back.Tasks.Ordered || len(back.Tasks.Nodes) != 3 {
		t.Fatalf("graph: got %+v, want 3 ordered nodes", back.Tasks)
	}
	for i, n := range back.Tasks.Nodes {
		want := g.Tasks.Nodes[i]
		if n.Key != want.Key || n.Needs != want.Needs || n.Producer != want.Producer || n.Order != want.Order ||
			!slices.Equal(n.Deps, want.Deps) {
			t.Errorf("node %d: got %+v", i, n)
		}
	}
	b := back.Tasks.Nodes[1]
	p, err := specs.Read(b.Spec)
	if err != nil || string(p.Pickle) != "\x80\x05N." || joined(&p) != "buf" || b.Annotations.Retries != 2 ||
		string(b.Annotations.Raw) != string(note.Raw) {
		t.Errorf("node b: got %+v %+v, error %v", p, b.Annotations, err)
	}
}

func TestOrders(t *testing.T) {
	raw, _ := msgpack.Append(nil, msgpack.MapOf("a", 1, []any{"x", 2}, -5))
	got, ok := readOrders(raw)
	if !ok || got[task.NewKey("a")] != 1 || got[anyKey([]any{"x", 2})] != -5 {
		t.Errorf("orders: got %v, %v", got, ok)
	}
	for _, raw := range [][]byte{nil, {0xc0}} {
		if got, ok := readOrders(raw); !ok || got != nil {
			t.Errorf("orders of %x: got %v, %v, want none", raw, got, ok)
		}
	}
	for _, raw := range [][]byte{{0x01}, {0x81, 0xa1, 'a', 0xc0}, {0x81, 0xc0, 0x01}} {
		if _, ok := readOrders(raw); ok {
			t.Errorf("orders of %x: got true, want false", raw)
		}
	}
}

func TestShortNotes(t *testing.T) {
	for name, c := range map[string]struct {
		in   any
		want *state.Annotations
		ok   bool
	}{
		"none":      {nil, nil, true},
		"empty":     {&wire.Pickled{Data: []byte(emptyDict)}, nil, true},
		"empty map": {msgpack.Map{}, nil, true},
		"a map":     {msgpack.MapOf("retries", 2), &state.Annotations{Retries: 2}, true},
		"a pickle": {&wire.Pickled{Data: []byte("\x80\x04}\x8c\x08priorityK\x05s.")},
			&state.Annotations{Priority: 5, HasPriority: true}, true},
		"odd":        {msgpack.MapOf("retries", "often"), nil, false},
		"no pickle":  {&wire.Pickled{Data: []byte("hello")}, nil, false},
		"a number":   {7, nil, false},
		"no letters": {msgpack.MapOf(struct{}{}, 1), nil, false},
	} {
		got, ok, err := shortNotes(c.in)
		if ok != c.ok || ok && err != nil || (got == nil) != (c.want == nil) {
			t.Errorf("%s: got %+v, %v, error %v", name, got, ok, err)
			continue
		}
		if got != nil && (got.Retries != c.want.Retries || got.Priority != c.want.Priority ||
			got.HasPriority != c.want.HasPriority || len(got.Raw) == 0) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

// Imports that Python has opened once are known, up to a bound.
func TestLearn(t *testing.T) {
	m := New(Config{})
	if !m.allKnown(nil) || m.allKnown([]string{"a"}) {
		t.Error("imports before learn: got known ones")
	}
	m.known = map[string]bool{"a": true, "b": true}
	if !m.allKnown([]string{"a", "b"}) || m.allKnown([]string{"a", "c"}) {
		t.Error("imports after learn: got unknown ones")
	}
	m.learn(&wire.Serialized{Header: []byte{0xc0}})
	if len(m.known) != 2 {
		t.Errorf("imports: got %d, want 2", len(m.known))
	}
}

func anyKey(v any) task.Key {
	b, err := msgpack.KeyBytes(v)
	if err != nil {
		panic(err)
	}
	return task.Key(b)
}

// joined returns the concatenated buffers of a spec.
func joined(p *specs.Spec) (all string) {
	p.Buffers(func(b []byte) { all += string(b) })
	return all
}
