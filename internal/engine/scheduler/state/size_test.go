package state

import (
	"testing"
	"unsafe"
)

// What a million tasks take is decided here: a field more is a decision.
func TestTaskSize(t *testing.T) {
	if n := unsafe.Sizeof(Task{}); n > 352 {
		t.Errorf("a task takes %d bytes, want at most 352", n)
	} else {
		t.Logf("a task takes %d bytes", n)
	}
}
