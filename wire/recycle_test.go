package wire

import (
	"bytes"
	"testing"

	"go.millstream.dev/internal/wire/block"
)

func TestRecycle(t *testing.T) {
	m := &Message{Frames: []Frame{HeapFrame(block.Get(32 << 10))}}
	if m.Recycle(); m.Frames != nil {
		t.Errorf("got %d frames after Recycle, want none", len(m.Frames))
	}
}

// Messages with more frames than their body are only released: the frames may lie in one
// piece of memory.
func TestRecycleKeepsFramesApart(t *testing.T) {
	const size = 8 << 10
	whole := bytes.Repeat([]byte{7}, 4*size)
	(&Message{Frames: []Frame{HeapFrame(whole[:size]), HeapFrame(whole[size:])}}).Recycle()
	for range 16 {
		clear(block.Get(size))
	}
	if bytes.IndexByte(whole, 0) >= 0 {
		t.Error("memory of frames was given out")
	}
}
