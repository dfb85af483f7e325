//go:build !cgo

package native

import (
	"context"
	"errors"
	"fmt"

	"go.millstream.dev/clique"
)

var errNoCgo = errors.New("program built without cgo, which shared libraries need; build with " +
	"CGO_ENABLED=1")

// Library is a shared library with algorithms.
type Library struct{}

// Algorithm is a function of a library.
type Algorithm struct{}

// Open returns an error: shared libraries need cgo.
func Open(path string) (*Library, error) { return nil, fmt.Errorf("native: %s: %w", path, errNoCgo) }

// Path returns "".
func (l *Library) Path() string { return "" }

// Algorithm returns an error: shared libraries need cgo.
func (l *Library) Algorithm(name string) (*Algorithm, error) {
	return nil, fmt.Errorf("native: %s: %w", name, errNoCgo)
}

// Name returns "".
func (a *Algorithm) Name() string { return "" }

// Run returns an error: shared libraries need cgo.
func (a *Algorithm) Run(context.Context, *clique.Rank, Call) ([]Result, error) {
	return nil, fmt.Errorf("native: %w", errNoCgo)
}
