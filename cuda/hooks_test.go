//go:build cgo

package cuda_test

import (
	"testing"

	"go.millstream.dev/internal/device/hooks"
)

// Importing this package is enough for other bindings to find the hooks.
func TestHooksRegistered(t *testing.T) {
	h, ok := hooks.Get()
	if !ok || h.SetCurrent == 0 || h.EventQuery == 0 || h.SetCurrent == h.EventQuery {
		t.Errorf("%+v %v", h, ok)
	}
}
