package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/internal/proc/cmdline"
	"go.millstream.dev/internal/testkit/leak"
)

// fakeBench puts a script on PATH in place of the program of the benchmarks.
func fakeBench(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, benchProgram), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// `bench` passes arguments, streams and the exit code through, flags and help included.
func TestBench(t *testing.T) {
	leak.Check(t)
	fakeBench(t, `echo "args: $*"; echo problems >&2; cat; exit 7`)
	for _, tc := range []struct {
		args []string
		want string
	}{
		{[]string{"bench", "ucx", "--quick", "--peers"}, "args: ucx --quick --peers"},
		{[]string{"bench"}, "args: "},
		{[]string{"bench", "--help"}, "args: --help"},
		{[]string{"bench", "ucx", "--help"}, "args: ucx --help"},
		{[]string{"help", "bench", "ucx"}, "args: ucx --help"},
	} {
		var out, errs bytes.Buffer
		code := Run(t.Context(), tc.args, strings.NewReader("input"), &out, &errs)
		if code != 7 || out.String() != tc.want+"\ninput" || errs.String() != "problems\n" {
			t.Errorf("%q: got %d, %q, %q; want 7, %q and problems", tc.args, code, out.String(), errs.String(), tc.want)
		}
	}
}

// Without the program the error names what to do.
func TestBenchMissing(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var out, errs bytes.Buffer
	code := Run(t.Context(), []string{"bench", "ucx"}, nil, &out, &errs)
	if code != ExitFailure || !strings.HasPrefix(errs.String(), "millstream bench: millstream-bench not found in ") ||
		!strings.Contains(errs.String(), "make build") || out.Len() != 0 {
		t.Errorf("got %d, %q, %q", code, out.String(), errs.String())
	}
}

// The signal that ends `bench` reaches the program, whose exit code counts.
func TestBenchInterrupted(t *testing.T) {
	leak.Check(t)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		ready := filepath.Join(t.TempDir(), "ready")
		fakeBench(t, fmt.Sprintf(`trap 'exit 42' %s; : >%s; while :; do sleep 0.05; done`, sig2name[sig], ready))
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			for ctx.Err() == nil {
				if _, err := os.Stat(ready); err == nil {
					cancel(cmdline.Interruption{Signal: sig})
				}
				time.Sleep(time.Millisecond)
			}
		}()
		var out, errs bytes.Buffer
		if code := Run(ctx, []string{"bench"}, nil, &out, &errs); code != 42 {
			t.Errorf("%v: got %d, %q, %q; want 42", sig, code, out.String(), errs.String())
		}
		cancel(nil)
	}
}

var sig2name = map[syscall.Signal]string{syscall.SIGINT: "INT", syscall.SIGTERM: "TERM"}

// The shell gets completions of the program.
func TestBenchCompletion(t *testing.T) {
	leak.Check(t)
	fakeBench(t, `[ "$*" = "__complete ucx --setting s" ] || exit 1; printf 'shm\n:4\n'; echo said >&2`)
	var out, errs bytes.Buffer
	code := Run(t.Context(), []string{"__complete", "bench", "ucx", "--setting", "s"}, nil, &out, &errs)
	if code != ExitOK || out.String() != "shm\n:4\n" {
		t.Errorf("got %d, %q, %q; want shm", code, out.String(), errs.String())
	}
}
