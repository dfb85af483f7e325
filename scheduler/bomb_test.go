package scheduler

import (
	"runtime"
	"testing"

	"github.com/klauspost/compress/zstd"

	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// bomb returns a pickle whose buffer decompresses to size zeros.
func bomb(t testing.TB, size int) *wire.Pickled {
	t.Helper()
	enc, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		t.Fatal(err)
	}
	defer enc.Close()
	b := enc.EncodeAll(make([]byte, size), nil)
	return &wire.Pickled{Data: []byte("\x80\x05\x97."), Buffers: []wire.Frame{wire.HeapFrame(b)},
		Compression: []string{"zstd"}}
}

// Compressed values that are forwarded are not decompressed, in requests and in the loop.
func TestDecompressionBombs(t *testing.T) {
	leak.Check(t)
	s, _, honest := hostile(t)
	const size = 256 << 20
	b := bomb(t, size)
	c := connect(t, s, "bomber")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	c.call("variable_set", "name", "bomb", "data", b)
	c.call("set_metadata", "keys", []any{"bomb"}, "value", b)
	c.call("log_event", "topic", "bomb", "msg", b)
	c.send(msgpack.MapOf("op", "log-event", "topic", "bomb", "msg", b))
	v, _ := answerOn(t, callOn(t, s, "variable_get", "name", "bomb")).(msgpack.Map).Get("value")
	if got, ok := v.(*wire.Pickled); !ok || got.Buffers[0].Len() != b.Buffers[0].Len() {
		t.Errorf("variable: got %T, want the unchanged pickle", v)
	}
	honest()
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > size/2 {
		t.Errorf("allocated bytes: got %d, want at most %d", got, size/2)
	}
	honest()
}
