//go:build examples

package main

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/cuda"
	"go.millstream.dev/ucx"
)

// TestTransfer moves host memory, and GPU memory where there is a GPU.
func TestTransfer(t *testing.T) {
	kinds := map[string]bool{"host": true}
	if err := cuda.Available(); err == nil {
		kinds["device"] = false
	} else {
		// Without a GPU the program says so before it connects.
		err := run(t.Context(), &strings.Builder{}, []string{"send", "127.0.0.1:1"})
		if !errors.Is(err, cuda.ErrUnavailable) {
			t.Errorf("got error %v, want %v", err, cuda.ErrUnavailable)
		}
	}
	for name, host := range kinds {
		t.Run(name, func(t *testing.T) { transfer(t, name, host) })
	}
}

func transfer(t *testing.T, name string, host bool) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	memory, err := resource(0, host)
	if err != nil {
		t.Fatal(err)
	}
	l, err := ucx.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	received := make(chan error, 1)
	var there, here strings.Builder
	go func() { received <- receive(ctx, &there, l, memory) }()
	args := []string{"-bytes", "1000003", "send", l.Addr().String()}
	if host {
		args = append([]string{"-host"}, args...)
	}
	if err := run(ctx, &here, args); err != nil {
		t.Fatal(err)
	}
	if err := <-received; err != nil {
		t.Fatal(err)
	}
	if want := "1000003 bytes in " + name + " memory, 0 wrong\n"; there.String() != want {
		t.Errorf("the receiver: got %q, want %q", there.String(), want)
	}
	if got := here.String(); !strings.Contains(got, " GB/s from "+name+" memory over ") {
		t.Errorf("the sender: got %q", got)
	}
	t.Log(here.String())
}

func TestArguments(t *testing.T) {
	for _, args := range [][]string{nil, {"-host", "listen"}, {"-host", "other", "127.0.0.1:1"},
		{"-host", "-bytes", "0", "send", "127.0.0.1:1"}} {
		if err := run(t.Context(), &strings.Builder{}, args); err == nil {
			t.Errorf("%q: got no error", args)
		}
	}
}
