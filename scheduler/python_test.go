package scheduler

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Dask clients, workers and nannies are served. Graphs that only Python can open are tested in tests/dask, with Python
// processes.
func TestPython(t *testing.T) {
	python := os.Getenv("MILLSTREAM_PEER_PYTHON")
	if python == "" {
		python = filepath.Join("..", ".local", "venv", "bin", "python")
	}
	if _, err := os.Stat(python); err != nil {
		t.Fatalf("no Python with distributed at %s; run scripts/setup peers", python)
	}
	s := start(t, Config{})
	cmd := exec.Command(python, filepath.Join("testdata", "dask_peer.py"), s.Address())
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	if os.Getenv("LOUD") != "" {
		cmd.Stderr = os.Stderr
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(3*time.Minute, func() { _ = cmd.Process.Kill() })
	defer late.Stop()
	checks := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var r struct {
			Check string
			OK    bool
			Got   string
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			continue // a library that prints
		}
		checks++
		if !r.OK {
			t.Errorf("%s: got %s", r.Check, r.Got)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("Python: got error %v (LOUD=1 shows its log)", err)
	}
	if checks != 47 {
		t.Errorf("checks: got %d, want 47", checks)
	}
}
