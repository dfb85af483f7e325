//go:build examples

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/ucx"
)

func TestPingPong(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	for size, want := range map[string]string{"8": "8 bytes: ", "1048576": "1048576 bytes: "} {
		l, err := ucx.Listen(ctx, "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		served := make(chan error, 1)
		go func() { served <- serve(ctx, l) }()
		var out strings.Builder
		if err := run(ctx, &out, []string{l.Addr().String(), size}); err != nil {
			t.Fatal(err)
		}
		if err := <-served; err != nil {
			t.Errorf("the server: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
		if !strings.HasPrefix(out.String(), want) || !strings.Contains(out.String(), " one way over ") {
			t.Errorf("got %q, want %q", out.String(), want)
		}
	}
	for _, args := range [][]string{nil, {"127.0.0.1:1", "0"}, {"127.0.0.1:1", "many"}} {
		if err := run(ctx, &strings.Builder{}, args); err == nil {
			t.Errorf("%q: got no error", args)
		}
	}
}
