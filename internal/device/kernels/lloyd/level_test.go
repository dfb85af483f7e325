//go:build cgo

package lloyd

import "testing"

// Every instruction set that this processor has gives the same labels as the plain way.
func TestPass(t *testing.T) {
	best := level
	defer func() { level = best }()
	for level = best; level >= 0; level-- {
		testPass[float64](t, 1e-9)
		testPass[float32](t, 1e-3)
	}
	level = best
}
