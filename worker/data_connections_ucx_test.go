//go:build cgo

package worker_test

import (
	"strings"
	"testing"

	_ "go.millstream.dev/comm/ucxcomm"
	"go.millstream.dev/worker"
)

// The data connections of a cluster on one machine use UCX, and so shared memory.
func TestDataConnectionUCX(t *testing.T) {
	from, _, schemes := fetchLarge(t, worker.DataConnections{Listen: "ucxx://127.0.0.1:0"})
	if len(from.DataAddresses()) != 1 || strings.Join(schemes, " ") != "ucxx ucxx ucxx" {
		t.Errorf("got data addresses %v, schemes %v, want one and ucxx", from.DataAddresses(), schemes)
	}
}
