package transfer

import (
	"testing"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// FuzzData reads replies of a peer to get_data.
func FuzzData(f *testing.F) {
	add := func(v any) {
		m, err := wire.Encode(v, wire.EncodeOptions{})
		if err != nil {
			f.Fatal(err)
		}
		var frames [3][]byte
		for i := range min(3, len(m.Frames)) {
			frames[i] = m.Frames[i].Bytes()
		}
		f.Add(frames[0], frames[1], frames[2])
	}
	add(msgpack.MapOf("status", "OK", "data", msgpack.Map{{Key: "k", Value: wire.Serialize{Value: []byte("x")}},
		{Key: "n", Value: 5}, {Key: []any{"t", 1}, Value: []any{1}}}))
	add(msgpack.MapOf("status", "busy"))
	add(msgpack.MapOf("status", "uncaught-error", "exception_text", "x"))
	add([]any{})
	f.Fuzz(func(t *testing.T, body, header, frame []byte) {
		m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame(body), wire.HeapFrame(header), wire.HeapFrame(frame)}}
		keys := []task.Key{task.NewKey("k"), task.NewKey("n")}
		values, stored, _, err := readData(m, keys)
		if err == nil && (len(values) != len(stored) || len(values) > len(keys)) {
			t.Fatalf("%d values for %d keys", len(values), len(keys))
		}
		for _, v := range values {
			_, _ = v.Encoded()
		}
	})
}
