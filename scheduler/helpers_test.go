package scheduler

import (
	"testing"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
)

func unpickle(t testing.TB, b []byte) *wire.Exception {
	t.Helper()
	e, err := pickle.LoadException(b, pickle.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// pickledNone returns an expression in the form of a Python client.
func pickledNone() *wire.Serialized {
	h, err := msgpack.Append(nil, msgpack.MapOf("serializer", "pickle", "writeable", []any{}, "num-sub-frames", 1))
	if err != nil {
		panic(err)
	}
	return &wire.Serialized{Header: h, Frames: []wire.Frame{wire.HeapFrame([]byte("\x80\x04N."))}}
}
