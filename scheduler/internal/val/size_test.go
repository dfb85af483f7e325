package val

import (
	"testing"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// Pickled values count with all their bytes.
func TestMeasurePickled(t *testing.T) {
	p := &wire.Pickled{Data: make([]byte, 1000), Buffers: []wire.Frame{wire.HeapFrame(make([]byte, 2000))}}
	if got, _ := Size(msgpack.MapOf("x", p)); got < 3000 {
		t.Errorf("size of a pickle of 3000 bytes: got %d", got)
	}
}
