package rpc

import (
	"encoding/binary"
	"sync"

	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/wire"
)

// listHead is the length in bytes of a msgpack list's head of the longest form, which every batch begins with: how many
// messages follow is known only at its end.
const listHead = 5

// Batch is one message of a stream: a list of maps, and the frames that they refer to. A Writer makes it, or NewBatch.
// After each Begin the caller appends one map to Body.
type Batch struct {
	// Body is the list, one map behind the other. Frames are what its markers refer to.
	message.Buffer

	n     int
	own   bool   // it has markers that Merge does not know: its frames must be the first
	after uint64 // the position that must be committed before it leaves
}

// NewBatch returns an empty batch with room for so many bytes.
func NewBatch(size int) *Batch {
	return &Batch{Buffer: message.Buffer{Body: make([]byte, listHead, listHead+size)}}
}

// Begin notes that another message follows.
func (b *Batch) Begin() { b.n++ }

// merge appends the messages of next, which is of no use afterwards.
func (b *Batch) merge(next *Batch) {
	b.Merge(&next.Buffer, listHead)
	b.n += next.n
	b.own = b.own || next.own
	b.after = max(b.after, next.after)
	next.recycle()
}

const (
	// mergeBytes is up to where batches that wait are sent as one.
	mergeBytes = 2 * batchBytes
	// mergeFrames and mergeFrameBytes bound the frames of what is sent as one.
	mergeFrames, mergeFrameBytes = 2048, 4 << 20
)

// joins reports whether next, of a size, may be sent together with b, of another.
func (b *Batch) joins(size int64, next *Batch, more int64) bool {
	switch {
	case len(b.Body)+len(next.Body) > mergeBytes, len(b.Frames)+len(next.Frames) > mergeFrames:
		return false
	case next.own && len(b.Frames) > 0:
		return false
	}
	return len(next.Frames) == 0 || size+more <= mergeFrameBytes
}

// size returns what it takes in memory, in bytes.
func (b *Batch) size() int64 {
	n := int64(len(b.Body))
	for _, f := range b.Frames {
		n += int64(f.Len())
	}
	return n
}

// Message returns the batch as it goes over the wire. It has the frames of the batch, and its memory.
func (b *Batch) Message() *wire.Message {
	b.Body[0] = 0xdd // a list whose length has four bytes
	binary.BigEndian.PutUint32(b.Body[1:listHead], uint32(b.n))
	return &wire.Message{Frames: append([]wire.Frame{wire.HeapFrame(b.Body)}, b.Frames...)}
}

func (b *Batch) release() {
	for _, f := range b.Frames {
		f.Release()
	}
}

// spareBatches are batches that have been sent, of all writers: what the collector does not see does not make it run.
var spareBatches sync.Pool

func freshBatch() *Batch {
	if b, ok := spareBatches.Get().(*Batch); ok {
		return b
	}
	return NewBatch(512)
}

// recycle keeps a batch's memory for another one.
func (b *Batch) recycle() {
	if cap(b.Body) <= 4*batchBytes {
		b.Reset(listHead)
		b.n, b.own, b.after = 0, false, 0
		spareBatches.Put(b)
	}
}
