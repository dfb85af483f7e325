package cmdline

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"testing"
	"time"
)

func TestExitCodes(t *testing.T) {
	signaled, cancel := context.WithCancelCause(t.Context())
	cancel(Interruption{syscall.SIGINT})
	terminated, cancel2 := context.WithCancelCause(t.Context())
	cancel2(Interruption{syscall.SIGTERM})
	for _, tc := range []struct {
		name string
		ctx  context.Context
		err  error
		want int
	}{
		{"done", t.Context(), nil, ExitOK},
		{"done in spite of a signal", signaled, nil, ExitOK},
		{"failed", t.Context(), errors.New("x"), ExitFailure},
		{"silent", t.Context(), SilentError{}, ExitFailure},
		{"usage", t.Context(), Usagef("x"), ExitUsage},
		{"another program", signaled, fmt.Errorf("y: %w", ExitError{7}), 7},
		{"wrapped usage", t.Context(), fmt.Errorf("y: %w", Usagef("x")), ExitUsage},
		{"interrupted", signaled, context.Canceled, ExitInterrupted},
		{"terminated", terminated, context.Canceled, ExitTerminated},
	} {
		if got := exitCode(tc.ctx, tc.err); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestErrorLine(t *testing.T) {
	for want, err := range map[string]error{
		"":                                 SilentError{},
		"millstream demo: one; two; three": errors.Join(errors.New("one\n two"), errors.New("three\n")),
		"millstream demo: bad flag (see `millstream demo --help`)": Usagef("bad flag"),
	} {
		if got := errorLine("millstream demo", err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if got := errorLine("x", ExitError{3}); got != "" {
		t.Errorf("another program failed: got %q, want no line", got)
	}
	if errorLine("x", nil) != "" {
		t.Error("no error has a line")
	}
}

// The first signal cancels with a cause, the second ends the process.
func TestSignals(t *testing.T) {
	exited := make(chan int, 1)
	ctx, stop := signalContext(t.Context(), func(code int) { exited <- code })
	defer stop()
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the first signal did not cancel")
	}
	var why Interruption
	if !errors.As(context.Cause(ctx), &why) || why.Signal != syscall.SIGINT || why.Error() != "interrupted" {
		t.Errorf("cause %v", context.Cause(ctx))
	}
	select {
	case code := <-exited:
		t.Fatalf("the first signal ended the process with %d", code)
	default:
	}
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case code := <-exited:
		if code != ExitTerminated {
			t.Errorf("exit code %d", code)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the second signal did not end the process")
	}
}
