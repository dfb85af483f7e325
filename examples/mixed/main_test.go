//go:build examples

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"go.millstream.dev"
	"go.millstream.dev/cli"
)

func TestMain(m *testing.M) {
	millstream.Main()
	cli.Serve()
	os.Exit(m.Run())
}

// start starts a process that ends with the test.
func start(ctx context.Context, t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(ctx, name, args...)
	var log bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = t.TempDir(), &log, &log, 30*time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		err := cmd.Wait()
		if t.Failed() {
			t.Logf("%s %q: %v\n%s", filepath.Base(name), args, err, log.String())
		}
	})
}

func TestMixed(t *testing.T) {
	python := os.Getenv("MILLSTREAM_PYTHON")
	if python == "" {
		t.Fatal("MILLSTREAM_PYTHON is not set: run the test with scripts/in-env")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(cancel) // after the processes have ended
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "scheduler.json")
	start(ctx, t, self, "scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", file, "--no-dashboard")
	var scheduler struct{ Address string }
	for scheduler.Address == "" {
		if text, err := os.ReadFile(file); err == nil {
			_ = json.Unmarshal(text, &scheduler)
		}
		if ctx.Err() != nil {
			t.Fatal("the scheduler wrote no file")
		}
		time.Sleep(5 * time.Millisecond)
	}
	start(ctx, t, self, "worker", scheduler.Address, "--no-python", "--nthreads", "1", "--no-dashboard")
	start(ctx, t, python, "-m", "distributed.cli.dask_worker", scheduler.Address, "--name", "snake", "--nthreads", "1",
		"--no-nanny", "--no-dashboard", "--host", "127.0.0.1")
	var out bytes.Buffer
	if err := run(ctx, &out, scheduler.Address); err != nil {
		t.Fatal(err)
	}
	if got, want := out.String(), "energy 4000.000000, Python on worker snake\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if err := run(ctx, &out, ""); err == nil {
		t.Error("no scheduler: got no error")
	}
}
