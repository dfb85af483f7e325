package graphs

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/specs"
)

func chunkMessage(t *testing.T, notes []any, tasks []any, frames ...string) *pyproc.Message {
	t.Helper()
	body, err := msgpack.Append(nil, msgpack.MapOf("notes", notes, "tasks", tasks, "other", []any{1}))
	if err != nil {
		t.Fatal(err)
	}
	m := &pyproc.Message{Body: body}
	for _, f := range frames {
		m.Frames = append(m.Frames, []byte(f))
	}
	return m
}

func note(t *testing.T, pairs ...any) []byte {
	t.Helper()
	b, err := msgpack.Append(nil, msgpack.MapOf(pairs...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

var pickledNone = []byte("\x80\x05N.")

// Tasks of several chunks are one graph: their keys, dependencies, specs and annotations, which may be in an earlier
// chunk.
func TestChunksOfOneGraph(t *testing.T) {
	var c taskReader
	first := chunkMessage(t, []any{note(t, "retries", 2), note(t, "priority", 5)}, []any{
		[]any{"a", []any{}, pickledNone, []any{}, 0, 0, 0},
		[]any{[]any{"b", 1}, []any{"a", "x"}, 0, []any{1, []byte("in place")}, 1, nil, specs.Producer},
	}, string(pickledNone), "frame")
	second := chunkMessage(t, nil, []any{[]any{"c", []any{[]any{"b", 1}}, pickledNone, []any{}, 7, 1, specs.Go}})
	for _, m := range []*pyproc.Message{first, second} {
		if err := c.chunk(m); err != nil {
			t.Fatal(err)
		}
	}
	want := []struct {
		key, deps string
		needs     state.Can
		producer  bool
		order     int64
		buffers   string
	}{
		{"a", "[]", state.Python, false, 0, "[]"}, {"('b', 1)", "[a x]", state.Python, true, 1, "[frame in place]"},
		{"c", "[('b', 1)]", state.Go, false, 7, "[]"},
	}
	if len(c.nodes) != len(want) {
		t.Fatalf("got %d tasks, want %d", len(c.nodes), len(want))
	}
	for i, w := range want {
		n := c.nodes[i]
		p, err := specs.Read(n.Spec)
		var buffers []string
		p.Buffers(func(b []byte) { buffers = append(buffers, string(b)) })
		if err != nil || string(p.Pickle) != string(pickledNone) || fmt.Sprint(buffers) != w.buffers {
			t.Errorf("task %d: got the spec %q with %q, %v, want %s", i, p.Pickle, buffers, err, w.buffers)
		}
		if n.Key.String() != w.key || fmt.Sprint(n.Deps) != w.deps || n.Needs != w.needs || n.Producer != w.producer ||
			n.Order != w.order {
			t.Errorf("task %d: got %+v, want %+v", i, n, w)
		}
	}
	if c.nodes[0].Annotations != c.notes[0] || c.nodes[1].Annotations != nil || c.nodes[2].Annotations != c.notes[1] {
		t.Error("annotations: got those of other tasks")
	}
	// Results do not change with the message.
	clear(first.Body)
	clear(first.Frames[0])
	if key := c.nodes[1].Deps[0]; key != task.NewKey("a") || c.nodes[1].Spec[len(c.nodes[1].Spec)-1] != 'e' {
		t.Errorf("after the message was released: got %v and %q", key, c.nodes[1].Spec)
	}
}

// Messages of a materializer are not trusted: an invalid chunk is rejected, and so are all later ones.
func TestBadChunks(t *testing.T) {
	good := []any{"a", []any{}, pickledNone, []any{}, 0, nil, 0}
	with := func(i int, v any) []any {
		out := append([]any(nil), good...)
		out[i] = v
		return []any{out}
	}
	for what, m := range map[string]*pyproc.Message{
		"no body":              {},
		"a list":               {Body: msgpack.Raw{0x90}},
		"trailing":             {Body: msgpack.Raw{0x80, 0x80}},
		"cut":                  {Body: msgpack.Raw{0x81}},
		"six parts":            chunkMessage(t, nil, []any{good[:6]}),
		"eight parts":          chunkMessage(t, nil, []any{append(good[:7:7], 1)}),
		"no task":              chunkMessage(t, nil, []any{"task"}),
		"a map as key":         chunkMessage(t, nil, with(0, msgpack.Map{})),
		"a map as dependency":  chunkMessage(t, nil, with(1, []any{msgpack.Map{}})),
		"no list":              chunkMessage(t, nil, with(1, 5)),
		"another frame":        chunkMessage(t, nil, with(2, 1), "\x80"),
		"a negative frame":     chunkMessage(t, nil, with(2, -1), "\x80"),
		"no pickle":            chunkMessage(t, nil, with(2, []byte("text"))),
		"an empty pickle":      chunkMessage(t, nil, with(2, []byte{})),
		"a text as pickle":     chunkMessage(t, nil, with(2, "text")),
		"another buffer":       chunkMessage(t, nil, with(3, []any{7})),
		"order is a text":      chunkMessage(t, nil, with(4, "x")),
		"annotations of none":  chunkMessage(t, nil, with(5, 0)),
		"annotations are text": chunkMessage(t, []any{note(t)}, with(5, "0")),
		"unknown flags":        chunkMessage(t, nil, with(6, 4)),
		"negative flags":       chunkMessage(t, nil, with(6, -1)),
		"note is not a map":    chunkMessage(t, []any{[]byte{0x90}}, nil),
		"note with a tail":     chunkMessage(t, []any{append(note(t), 1)}, nil),
		"note is not bytes":    chunkMessage(t, []any{1}, nil),
		"no priority":          chunkMessage(t, []any{note(t, "priority", math.NaN())}, nil),
	} {
		var c taskReader
		err := c.chunk(m)
		if err == nil || !strings.Contains(err.Error(), "invalid message from the materializer") {
			t.Errorf("%s: got %v, want an error", what, err)
		}
		if again := c.chunk(chunkMessage(t, nil, []any{good})); !errors.Is(again, err) || len(c.nodes) > 0 {
			t.Errorf("%s: a good chunk after it: got %v and %d tasks, want the first error", what, again, len(c.nodes))
		}
	}
	for what, c := range map[string]*taskReader{"bytes of tasks": {bytes: maxGraphBytes},
		"bytes of notes": {bytes: maxGraphBytes}} {
		m := chunkMessage(t, nil, []any{good})
		if what == "bytes of notes" {
			m = chunkMessage(t, []any{note(t, "retries", 1)}, nil)
		}
		if err := c.chunk(m); !errors.Is(err, errGraphSize) {
			t.Errorf("%s: got %v, want %v", what, err, errGraphSize)
		}
	}
}
