package message

import (
	"encoding/binary"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// Buffer is the destination of encoded messages: maps, one after the other, and the frames that their markers refer to.
type Buffer struct {
	// Body has the maps. Frames are the frames that its markers refer to, counted from 1.
	Body   []byte
	Frames []wire.Frame

	marks []int // where Body holds the index of a frame
}

// mark appends a marker of the next frame, whose index has a fixed length: it changes when buffers are merged.
func (b *Buffer) mark(name string) {
	b.Body = msgpack.AppendMarker(b.Body, name)
	b.marks = append(b.marks, len(b.Body))
	b.Body = binary.BigEndian.AppendUint32(append(b.Body, 0xce), uint32(1+len(b.Frames)))
}

// Serialized appends a reference to a group of frames, which the buffer retains; nil for nil.
func (b *Buffer) Serialized(s *wire.Serialized) {
	if s == nil {
		b.Body = msgpack.AppendNil(b.Body)
		return
	}
	b.mark(msgpack.Serialized)
	b.Frames = append(b.Frames, wire.HeapFrame(s.Header))
	for _, f := range s.Frames {
		b.Frames = append(b.Frames, f.Retain())
	}
}

// Pickled appends a reference to a pickle, whose header becomes a frame; the caller appends its buffers to Frames.
func (b *Buffer) Pickled(header []byte) {
	b.mark(msgpack.Pickled)
	b.Frames = append(b.Frames, wire.HeapFrame(header))
}

// Merge appends the body of next after its first skip bytes, and its frames, which b then owns.
func (b *Buffer) Merge(next *Buffer, skip int) {
	at := len(b.Body) - skip
	b.Body = append(b.Body, next.Body[skip:]...)
	for _, m := range next.marks {
		index := b.Body[at+m+1 : at+m+5]
		binary.BigEndian.PutUint32(index, binary.BigEndian.Uint32(index)+uint32(len(b.Frames)))
		b.marks = append(b.marks, at+m)
	}
	b.Frames = append(b.Frames, next.Frames...)
	next.Frames = nil
}

// Reset empties the buffer except for the first keep bytes of its body. It keeps the memory of body and marks; the
// caller owns the frames.
func (b *Buffer) Reset(keep int) { *b = Buffer{Body: b.Body[:keep], marks: b.marks[:0]} }
