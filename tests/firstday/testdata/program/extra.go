//go:build extra

package main

import (
	"context"

	"go.millstream.dev"
)

// A version of the program with one more function.
var _ = millstream.Func("extra", func(_ context.Context, x int) (int, error) { return x, nil })
