//go:build !cgo

package ucxcomm

import (
	"context"
	"strings"
	"testing"

	"go.millstream.dev/comm"
)

// Without cgo there is no UCX; dialing and listening say so, at once.
func TestWithoutCgo(t *testing.T) {
	ctx := context.Background()
	_, err := comm.Dial(ctx, "ucxx://127.0.0.1:1", comm.DialConfig{})
	if err == nil || !strings.Contains(err.Error(), "CGO_ENABLED=0") {
		t.Errorf("Dial: %v", err)
	}
	if _, err = comm.Listen(ctx, "ucx://127.0.0.1:0", comm.ListenConfig{}); err == nil ||
		!strings.Contains(err.Error(), "CGO_ENABLED=0") {
		t.Errorf("Listen: %v", err)
	}
}
