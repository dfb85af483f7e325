package ucx

import (
	"testing"

	"go.millstream.dev/ucx/internal/ucp"
)

// Without it UCX's tcp transport follows endpoints into freed memory: TestCancel over tcp
// died in one run of five.
func TestQuarantineIsOn(t *testing.T) {
	newWorker(t, Config{}, WorkerConfig{})
	if n := ucp.Quarantined(); n < 2 {
		t.Errorf("%d of UCX's ways to free are led through the quarantine, want those of libuct and libucs", n)
	}
}
