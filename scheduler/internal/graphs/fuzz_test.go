package graphs

import (
	"testing"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/task/taskgraph"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// Graphs of any bytes are read or rejected; graphs that are read have keys and specs that can be read again.
func FuzzGraph(f *testing.F) {
	var w taskgraph.Writer
	w.Spec(task.NewKey("x"), []byte("MS\x01spec"), []task.Key{task.NewKey("y")},
		w.Annotations(&taskgraph.Annotations{Workers: []string{"a"}, Retries: 1}), 0)
	g := w.Serialized()
	body, err := msgpack.Append(nil, msgpack.MapOf("op", "update-graph", "keys", []any{"x"}, "fifo_timeout", "1 s",
		"actors", []any{"x"}, "user_priority", 3))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(body, g.Frames[0].Bytes(), g.Frames[1].Bytes())
	f.Fuzz(func(t *testing.T, body, head, nodes []byte) {
		g := &Graph{}
		expr := &wire.Serialized{Header: g0.Header, Frames: []wire.Frame{wire.HeapFrame(head), wire.HeapFrame(nodes)}}
		if err := g.Read(expr); err == nil {
			for _, n := range g.Tasks.Nodes {
				if n.Key == "" {
					t.Error("node: got no key")
				}
			}
			g.Recycle()
		}
		if ops := message.ReadOps(body); ops.Next() {
			_, _ = ReadUpdate(&ops, &message.UpdateGraph{})
		}
	})
}

var g0 = func() *wire.Serialized { var w taskgraph.Writer; return w.Serialized() }()
