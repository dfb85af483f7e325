package sysmem

import (
	"runtime/debug"
	"testing"
)

func TestLimit(t *testing.T) {
	total, limit := Total(), Limit()
	if total < 64<<20 {
		t.Errorf("Total is %d bytes, want those of a machine", total)
	}
	if limit <= 0 || limit > total {
		t.Errorf("Limit is %d bytes, want at most Total, %d", limit, total)
	}
	old := debug.SetMemoryLimit(32 << 20)
	defer debug.SetMemoryLimit(old)
	if got := Limit(); got != 32<<20 {
		t.Errorf("Limit with GOMEMLIMIT of 32 MiB is %d", got)
	}
}
