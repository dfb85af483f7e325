package state

import (
	"testing"
	"unsafe"
)

// The size of a task determines the memory of a million tasks: new fields need a decision.
func TestTaskSize(t *testing.T) {
	if n := unsafe.Sizeof(Task{}); n > 360 {
		t.Errorf("size of a task: got %d bytes, want at most 360", n)
	} else {
		t.Logf("a task takes %d bytes", n)
	}
}
