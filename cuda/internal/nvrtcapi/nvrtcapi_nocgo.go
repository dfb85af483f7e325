//go:build !cgo

package nvrtcapi

import "errors"

// Cgo reports whether this binary can load native libraries.
const Cgo = false

// Load fails.
func Load(string, bool) error { return errors.New("built with CGO_ENABLED=0") }

// Path is always "".
func Path() string { return "" }

// Version is 0.
func Version() (major, minor int) { return 0, 0 }

// Text is empty.
func (r Result) Text() string { return "" }

// Compile fails.
func Compile(_, _ string, _, _, _ []string, _ bool) (image []byte, log string, r Result) {
	return nil, "", NotLoaded
}
