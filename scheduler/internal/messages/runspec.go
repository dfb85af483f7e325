package messages

import (
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/specs"
	"go.millstream.dev/wire"
)

// runSpec appends a task's spec to a message for a worker: bytes for a call of a Go function, a pickle with its buffers
// in frames for Python.
func runSpec(b *rpc.Batch, body []byte, t *state.Task) []byte {
	spec := t.Spec()
	if task.IsSpec(spec) {
		return msgpack.AppendBytes(body, spec)
	}
	p, err := specs.Read(spec)
	if err != nil {
		return msgpack.AppendNil(body) // graphs with such specs are rejected
	}
	shared := t.Shared()
	size := len(shared) + len(p.Pickle)
	h := make([]byte, 0, size+64+p.N)
	h = append(h, pickledHead...)
	h = msgpack.AppendBytesHeader(h, size)
	h = append(append(h, shared...), p.Pickle...)
	h = append(h, pickledCompression...)
	h = msgpack.AppendArrayHeader(h, p.N)
	for range p.N {
		h = msgpack.AppendNil(h)
	}
	h = append(h, pickledFrames...)
	h = msgpack.AppendInt(h, int64(p.N))
	b.Body = body
	b.Pickled(h)
	p.Buffers(func(buf []byte) { b.Frames = append(b.Frames, wire.HeapFrame(buf)) })
	return b.Body
}

var (
	pickledHead        = fixed(3, "pickled-obj")
	pickledCompression = fixed(0, "compression")
	pickledFrames      = fixed(0, "num-sub-frames")
)
