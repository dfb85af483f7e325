//go:build examples

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"go.millstream.dev/ucx"
)

func TestGRPC(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	c, err := ucx.NewContext(ucx.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	w, err := c.NewWorker(ucx.WorkerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	l, err := w.ListenConn(ctx, "127.0.0.1:0", nil)
	if err != nil {
		t.Fatal(err)
	}
	serving, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- serve(serving, l) }()
	long := strings.Repeat("mill ", 1<<15)
	for _, text := range []string{"", "over ucx", long} {
		var out strings.Builder
		if err := run(ctx, &out, []string{"call", l.Addr().String(), text}); err != nil {
			t.Fatal(err)
		}
		got, rest, _ := strings.Cut(out.String(), "\n")
		if got != strings.ToUpper(text) || !strings.HasSuffix(rest, " per call\n") {
			t.Errorf("got %d bytes and %q, want %d bytes in upper case", len(got), rest, len(text))
		}
	}
	// Errors of the server arrive with their code.
	tooLong := strings.Repeat("x", 5<<20)
	err = run(ctx, &strings.Builder{}, []string{"call", l.Addr().String(), tooLong})
	if got := status.Code(err); got != codes.ResourceExhausted {
		t.Errorf("a message beyond the limit of the server: got %v (%v), want ResourceExhausted", got, err)
	}
	stop()
	if err := <-served; err != nil {
		t.Errorf("the server: %v", err)
	}
	if err := run(ctx, &strings.Builder{}, []string{"call"}); err == nil {
		t.Error("missing arguments: got no error")
	}
}
