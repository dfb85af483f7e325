//go:build more

package main

import (
	"context"

	"go.millstream.dev"
)

var _ = millstream.Func("app.more", func(_ context.Context, x int) (int, error) { return x, nil })
