package expr

import (
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// TestCastTo: bytes at any address as numbers.
func TestCastTo(t *testing.T) {
	b := memory.NewGoAllocator().Allocate(64)
	for i := range b {
		b[i] = byte(i)
	}
	for off := range 9 {
		part := b[off : off+33]
		if got := castTo[uint64](part); len(got) != 4 || byte(got[1]) != byte(off+8) {
			t.Errorf("at %d: %d numbers, %#x", off, len(got), got)
		}
		if got := castTo[uint16](part); len(got) != 16 || byte(got[3]>>8) != byte(off+7) {
			t.Errorf("at %d: %d numbers", off, len(got))
		}
	}
	if castTo[uint32](b[:3]) != nil {
		t.Error("three bytes: got a number")
	}
}
