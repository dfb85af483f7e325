package rpc

import (
	"encoding/binary"
	"sync"

	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/wire"
)

// listHead is the length in bytes of the longest form of a msgpack list header, with which every batch begins: the
// number of messages is known only at its end.
const listHead = 5

// Batch is one message of a stream: a list of maps, and the frames that they refer to. It is made by a Writer or
// NewBatch. After each Begin the caller appends one map to Body.
type Batch struct {
	// Body is the concatenation of the maps. Frames are the frames that its markers refer to.
	message.Buffer

	n     int
	own   bool   // it has markers that merge cannot renumber: its frames must be the first
	after uint64 // the position that must be committed before it is sent
}

// NewBatch returns an empty batch with capacity for size bytes.
func NewBatch(size int) *Batch {
	return &Batch{Buffer: message.Buffer{Body: make([]byte, listHead, listHead+size)}}
}

// Begin counts another message.
func (b *Batch) Begin() { b.n++ }

// merge appends the messages of next, which must not be used afterwards.
func (b *Batch) merge(next *Batch) {
	b.Merge(&next.Buffer, listHead)
	b.n += next.n
	b.own = b.own || next.own
	b.after = max(b.after, next.after)
	next.recycle()
}

const (
	// mergeBytes is the size up to which queued batches are sent as one.
	mergeBytes = 2 * batchBytes
	// mergeFrames and mergeFrameBytes bound the frames of merged batches.
	mergeFrames, mergeFrameBytes = 2048, 4 << 20
)

// joins reports whether next, of size more, may be sent together with b, of the given size.
func (b *Batch) joins(size int64, next *Batch, more int64) bool {
	switch {
	case len(b.Body)+len(next.Body) > mergeBytes, len(b.Frames)+len(next.Frames) > mergeFrames:
		return false
	case next.own && len(b.Frames) > 0:
		return false
	}
	return len(next.Frames) == 0 || size+more <= mergeFrameBytes
}

// size returns the memory of the batch, in bytes.
func (b *Batch) size() int64 {
	n := int64(len(b.Body))
	for _, f := range b.Frames {
		n += int64(f.Len())
	}
	return n
}

// Message returns the batch as it is sent. It takes over the frames and the memory of the batch.
func (b *Batch) Message() *wire.Message {
	b.Body[0] = 0xdd // a list with a length of four bytes
	binary.BigEndian.PutUint32(b.Body[1:listHead], uint32(b.n))
	return &wire.Message{Frames: append([]wire.Frame{wire.HeapFrame(b.Body)}, b.Frames...)}
}

func (b *Batch) release() {
	for _, f := range b.Frames {
		f.Release()
	}
}

// spareBatches are sent batches of all writers, for reuse: this saves garbage collections.
var spareBatches sync.Pool

func freshBatch() *Batch {
	if b, ok := spareBatches.Get().(*Batch); ok {
		return b
	}
	return NewBatch(512)
}

// recycle keeps a batch's memory for reuse.
func (b *Batch) recycle() {
	if cap(b.Body) <= 4*batchBytes {
		b.Reset(listHead)
		b.n, b.own, b.after = 0, false, 0
		spareBatches.Put(b)
	}
}
