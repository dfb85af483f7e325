package recovery

import (
	"bytes"
	"testing"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/task/taskgraph"
	"go.millstream.dev/internal/wire/msgpack"
)

// Any invalid records are rejected.
func FuzzRecords(f *testing.F) {
	name := appendNameRecord(nil, "client", []task.Key{task.NewKey("x")})
	f.Add(name)
	var w taskgraph.Writer
	w.Spec(task.NewKey("x"), []byte("M-spec"), nil, taskgraph.None, 0)
	f.Add(bytes.Join(graphParts("client", []byte{0x80}, w.Serialized()), nil))
	parts, err := opParts("variable_set", msgpack.MapOf("name", "v", "data", []byte("v")))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(bytes.Join(parts, nil))
	f.Fuzz(func(t *testing.T, data []byte) {
		if n, keys, err := readNameRecord(data); err == nil {
			if again, k2, err := readNameRecord(appendNameRecord(nil, n, keys)); err != nil || again != n ||
				len(k2) != len(keys) {
				t.Errorf("record read back: got error %v or another one", err)
			}
		}
		if c, raw, expr, err := readGraphRecord(data); err == nil {
			c2, raw2, expr2, err := readGraphRecord(bytes.Join(graphParts(c, raw, expr), nil))
			if err != nil || c != c2 || !bytes.Equal(raw, raw2) || len(expr.Frames) != len(expr2.Frames) {
				t.Errorf("graph record read back: got error %v or another one", err)
			}
			_, _ = graphKeys(raw)
		}
		_, _, _ = readOpRecord(data)
	})
}
