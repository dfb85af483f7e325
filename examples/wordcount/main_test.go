package main

import (
	"bytes"
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

func files(t *testing.T) (names []string) {
	t.Helper()
	for name, text := range map[string]string{"a": "The mill, the stream.", "b": "the Stream (again)", "c": ""} {
		names = append(names, filepath.Join(t.TempDir(), name))
		if err := os.WriteFile(names[len(names)-1], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return names
}

const want = "     3 the\n     2 stream\n     1 again\n     1 mill\n"

func TestRun(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), &out, "", files(t)); err != nil {
		t.Fatal(err)
	}
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	if err := run(t.Context(), &out, "", []string{"no such file"}); err == nil {
		t.Error("a file that does not exist has words")
	}
}

// The program is its own scheduler and its own workers.
func TestDeployed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "scheduler.json")
	for _, args := range [][]string{
		{"scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", file, "--no-dashboard"},
		{"worker", "--scheduler-file", file, "--nworkers", "2", "--nthreads", "1", "--no-dashboard"},
	} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
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
	for deadline := time.Now().Add(time.Minute); scheduler.Address == ""; time.Sleep(5 * time.Millisecond) {
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &scheduler)
		}
		if err != nil && time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := run(t.Context(), &out, scheduler.Address, files(t)); err != nil || out.String() != want {
		t.Errorf("%v, %q, want %q", err, out.String(), want)
	}
}
