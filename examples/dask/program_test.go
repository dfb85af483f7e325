//go:build examples

package dask

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
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

func TestProgram(t *testing.T) {
	python := os.Getenv("MILLSTREAM_PYTHON")
	if python == "" {
		t.Fatal("MILLSTREAM_PYTHON is not set: run the test with scripts/in-env")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	file := filepath.Join(t.TempDir(), "scheduler.json")
	for _, args := range [][]string{
		{"scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", file, "--no-dashboard"},
		{"worker", "--scheduler-file", file, "--nworkers", "2", "--nthreads", "1", "--no-dashboard"},
	} {
		cmd := exec.CommandContext(ctx, os.Args[0], args...)
		var log bytes.Buffer
		cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &log, &log, 10*time.Second
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = cmd.Process.Signal(os.Interrupt)
			if err := cmd.Wait(); err != nil {
				t.Errorf("%v: %v\n%s", args, err, log.String())
			}
		}()
	}
	var scheduler struct{ Address string }
	for scheduler.Address == "" && ctx.Err() == nil {
		if text, err := os.ReadFile(file); err == nil {
			_ = json.Unmarshal(text, &scheduler)
		}
		time.Sleep(5 * time.Millisecond)
	}
	cmd := exec.CommandContext(ctx, python, "program.py")
	cmd.Env = append(os.Environ(), "DASK_SCHEDULER_ADDRESS="+scheduler.Address)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "sum of squares 2666466670000 on ") {
		t.Errorf("got %s: %v", out, err)
	}
}
