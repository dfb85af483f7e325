//go:build !cgo

package lloyd

import "testing"

func TestPass(t *testing.T) {
	testPass[float64](t, 1e-9)
	testPass[float32](t, 1e-3)
}
