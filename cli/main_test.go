package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestExitCodes(t *testing.T) {
	signalled, cancel := context.WithCancelCause(t.Context())
	cancel(interruption{syscall.SIGINT})
	terminated, cancel2 := context.WithCancelCause(t.Context())
	cancel2(interruption{syscall.SIGTERM})
	for _, tc := range []struct {
		name string
		ctx  context.Context
		err  error
		want int
	}{
		{"done", t.Context(), nil, ExitOK},
		{"done in spite of a signal", signalled, nil, ExitOK},
		{"failed", t.Context(), errors.New("x"), ExitFailure},
		{"silent", t.Context(), silentError{}, ExitFailure},
		{"usage", t.Context(), usagef("x"), ExitUsage},
		{"wrapped usage", t.Context(), fmt.Errorf("y: %w", usagef("x")), ExitUsage},
		{"interrupted", signalled, context.Canceled, ExitInterrupted},
		{"terminated", terminated, context.Canceled, ExitTerminated},
	} {
		if got := exitCode(tc.ctx, tc.err); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

func TestErrorLine(t *testing.T) {
	for want, err := range map[string]error{
		"":                                 silentError{},
		"millstream demo: one; two; three": errors.Join(errors.New("one\n two"), errors.New("three\n")),
		"millstream demo: bad flag (see `millstream demo --help`)": usagef("bad flag"),
	} {
		if got := errorLine("millstream demo", err); got != want {
			t.Errorf("%q, want %q", got, want)
		}
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
	var why interruption
	if !errors.As(context.Cause(ctx), &why) || why.signal != syscall.SIGINT || why.Error() != "interrupted" {
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

// Run works without touching the process: own writers, own tree each time.
func TestRunIsReentrant(t *testing.T) {
	for range 2 {
		var out, errs bytes.Buffer
		if code := Run(t.Context(), []string{"--version"}, nil, &out, &errs); code != ExitOK || !strings.HasPrefix(out.String(), "millstream ") || errs.Len() != 0 {
			t.Errorf("code %d, out %q, err %q", code, out.String(), errs.String())
		}
		out.Reset()
		if code := Run(t.Context(), []string{"bench", "ucx", "--mode", "x"}, nil, &out, &errs); code != ExitUsage || out.Len() != 0 || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("code %d, out %q, err %q", code, out.String(), errs.String())
		}
	}
}

// Every command explains itself: a short line, a long text or an example.
func TestEveryCommandHasHelp(t *testing.T) {
	for _, cmd := range Command().Commands() {
		if cmd.Hidden || cmd.Name() == "help" || cmd.Name() == "completion" {
			continue
		}
		if cmd.Short == "" || cmd.Long == "" || cmd.GroupID == "" {
			t.Errorf("%s: short %q, long %q, group %q", cmd.Name(), cmd.Short, cmd.Long, cmd.GroupID)
		}
		for line := range strings.Lines(cmd.Long) {
			if len([]rune(line)) > 82 {
				t.Errorf("%s: help line of %d characters: %q", cmd.Name(), len([]rune(line)), line)
			}
		}
	}
}

func TestPeerArguments(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want string
		bad  bool
	}{
		{args: []string{"--peers"}, want: "ucx_perftest,ucxx-async,ucxx-core"},
		{args: []string{"--peers", "ucx_perftest"}, want: "ucx_perftest"},
		{args: []string{"--peers=ucxx-core,ucx_perftest"}, want: "ucx_perftest,ucxx-core"},
		{args: []string{"--peers", "ucxx-core,error-mode-none"}, want: "error-mode-none,ucxx-core"},
		{args: []string{"--peers", "--quick"}, want: "ucx_perftest,ucxx-async,ucxx-core"},
		{args: []string{"ucx_perftest"}, bad: true},
		{args: []string{"--peers", "ucx_perftest", "x"}, bad: true},
	} {
		var f benchUCXFlags
		cmd := benchUCXFlagsCommand(&f)
		err := cmd.ParseFlags(tc.args)
		if err == nil {
			err = f.peerArguments(cmd.Flags().Args())
		}
		if err == nil {
			err = f.complete()
		}
		if (err != nil) != tc.bad || err == nil && strings.Join(f.options.Peers, ",") != tc.want {
			t.Errorf("%q: %q, %v", tc.args, f.options.Peers, err)
		}
	}
}
