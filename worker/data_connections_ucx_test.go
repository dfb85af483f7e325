//go:build cgo

package worker_test

import (
	"strings"
	"testing"

	_ "go.millstream.dev/comm/ucxcomm"
	"go.millstream.dev/worker"
)

// The lane of a cluster on one machine: UCX, and so shared memory.
func TestLaneUCX(t *testing.T) {
	from, _, lanes := throughLane(t, worker.DataConnections{Listen: "ucxx://127.0.0.1:0"})
	if len(from.DataAddresses()) != 1 || strings.Join(lanes, " ") != "ucxx ucxx ucxx" {
		t.Errorf("lanes %v, data went over %v", from.DataAddresses(), lanes)
	}
}
