// Package benchtest is the common harness of benchmark tests: the test binary as a process of the benchmark, and runs
// whose figures are collected.
package benchtest

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"go.millstream.dev/internal/bench/benchfmt"
)

// roleVariable makes the test binary a process of a benchmark.
const roleVariable = "MILLSTREAM_BENCHTEST_ROLE"

// Serve runs a process of a benchmark until its input ends.
type Serve func(ctx context.Context, in io.Reader, out io.Writer) error

// Role runs the role of a process that [Self] has started, and exits; otherwise it returns. Call it in TestMain. roles
// are by name.
func Role(roles map[string]Serve) {
	name, ok := os.LookupEnv(roleVariable)
	if !ok {
		return
	}
	serve := roles[name]
	if serve == nil {
		fmt.Fprintf(os.Stderr, "benchtest: unknown role %q\n", name)
		os.Exit(2)
	}
	if err := serve(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Self returns a starter of the test binary in a role, with further environment variables.
func Self(role string, env ...string) func(ctx context.Context) *exec.Cmd {
	return func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, "/proc/self/exe")
		cmd.Env = append(append(os.Environ(), roleVariable+"="+role), env...)
		return cmd
	}
}

// Completer has the options of a benchmark.
type Completer interface{ Complete() error }

// Limit is the time limit of a run.
const Limit = 5 * time.Minute

// Run completes the options, measures, and returns the figures after validating them.
func Run(t *testing.T, o Completer, measure func(ctx context.Context, sink benchfmt.Sink) error) (benchfmt.Figures,
	error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), Limit)
	defer cancel()
	if err := o.Complete(); err != nil {
		t.Fatalf("options %+v: %v", o, err)
	}
	var got benchfmt.Figures
	err := measure(ctx, &got)
	for _, f := range got {
		if err := f.Validate(); err != nil {
			t.Errorf("figure %+v: %v", f, err)
		}
	}
	return got, err
}

// Figures is [Run] for a measurement that must succeed.
func Figures(t *testing.T, o Completer, measure func(ctx context.Context, sink benchfmt.Sink) error) benchfmt.Figures {
	t.Helper()
	got, err := Run(t, o, measure)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// Rejects checks that Complete returns an error for each of the options.
func Rejects[T Completer](t *testing.T, bad ...T) {
	t.Helper()
	for _, o := range bad {
		if err := o.Complete(); err == nil {
			t.Errorf("options %+v: got no error, want an error", o)
		}
	}
}
