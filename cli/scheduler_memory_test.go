package cli

import (
	"runtime/debug"
	"testing"

	"go.millstream.dev/internal/proc/sysmem"
)

func TestLimitHeap(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	t.Setenv("GOMEMLIMIT", "1GiB")
	limitHeap()
	if got := debug.SetMemoryLimit(-1); got != before {
		t.Errorf("soft limit with GOMEMLIMIT set: got %d, want %d as before", got, before)
	}
	t.Setenv("GOMEMLIMIT", "")
	limitHeap()
	if got, want := debug.SetMemoryLimit(-1), sysmem.Total()/10*9; got != want || want == 0 {
		t.Errorf("soft limit: got %d, want %d", got, want)
	}
}
