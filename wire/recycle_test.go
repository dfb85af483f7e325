package wire

import (
	"bytes"
	"testing"
)

func TestBlock(t *testing.T) {
	for _, n := range []int{0, 1, leastBlock - 1, leastBlock, 3 * leastBlock, mostBlock, mostBlock + 1} {
		b := Block(n)
		if len(b) != n {
			t.Errorf("Block(%d) has %d bytes", n, len(b))
		}
		m := &Message{Frames: []Frame{HeapFrame(b)}}
		m.Recycle()
		if m.Frames != nil {
			t.Errorf("a message of %d bytes still has its frames", n)
		}
	}
	// A block that is too short for the next message is not given out.
	(&Message{Frames: []Frame{HeapFrame(make([]byte, leastBlock))}}).Recycle()
	if n := len(Block(4 * leastBlock)); n != 4*leastBlock {
		t.Errorf("%d bytes", n)
	}
}

// Messages with more frames than their body are only released: the frames may lie in one
// piece of memory.
func TestRecycleKeepsFramesApart(t *testing.T) {
	whole := bytes.Repeat([]byte{7}, 4*leastBlock)
	(&Message{Frames: []Frame{HeapFrame(whole[:leastBlock]), HeapFrame(whole[leastBlock:])}}).Recycle()
	for range 16 {
		clear(Block(leastBlock))
	}
	if bytes.IndexByte(whole, 0) >= 0 {
		t.Error("memory of frames was given out")
	}
}
