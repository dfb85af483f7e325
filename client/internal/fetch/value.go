package fetch

import (
	"fmt"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// Value is a result in a message: in the body or in frames.
type Value struct {
	raw []byte
	ser *wire.Serialized

	repeated bool // the value of several futures
	owned    bool // no other value has the memory of the frames
}

// As decodes a result. The decoded value shares no memory with other results: large values on the Go heap keep the
// memory of their frame, others are copied.
func As[T any](v Value) (T, error) {
	if v.ser == nil {
		return task.ReadBody[T](v.raw)
	}
	var out T
	if v.owned {
		err := task.DecodeOwned(v.ser, &out)
		return out, err
	}
	err := task.DecodeInto(v.ser, &out)
	return out, err
}

// readValue reads an element of the data of a reply: a marker, or the value itself.
func readValue(m *wire.Message, raw []byte) (Value, error) {
	r := msgpack.NewReader(raw)
	name, frame, err := r.ReadMarker()
	if err != nil {
		return Value{}, err
	}
	if name != msgpack.Serialized {
		return Value{raw: raw}, nil
	}
	at := uint64(frame)
	if frame <= 0 || at >= uint64(len(m.Frames)) || m.Frames[at].OnDevice() {
		return Value{}, fmt.Errorf("client: result refers to frame %d of %d", frame, len(m.Frames))
	}
	header := m.Frames[at].Bytes()
	count, err := subFrames(header)
	if err != nil {
		return Value{}, err
	}
	if count > uint64(len(m.Frames))-at-1 {
		return Value{}, fmt.Errorf("client: result of %d frames has only %d", count, uint64(len(m.Frames))-at-1)
	}
	return Value{ser: &wire.Serialized{Header: header, Frames: m.Frames[at+1 : at+1+count]}}, nil
}

// subFrames returns the number of frames that a header announces.
func subFrames(header []byte) (uint64, error) {
	r := msgpack.NewReader(header)
	n, err := r.ReadMapLen()
	if err != nil {
		return 0, err
	}
	for range n {
		name, err := r.ReadName()
		if err != nil {
			return 0, err
		}
		if string(name) == "num-sub-frames" {
			return r.ReadUint()
		}
		if err := r.Skip(); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("client: header of a result has no num-sub-frames")
}
