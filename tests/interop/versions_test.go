package interop

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/dask/commpeer"
	"go.millstream.dev/tests/interop/pypeer"
)

// Every release of Dask in dask-versions.txt, as either end of a comm, exchanges messages,
// bytes and numpy arrays with Go.
func TestDaskVersions(t *testing.T) {
	list, err := os.ReadFile("dask-versions.txt")
	if err != nil {
		t.Fatal(err)
	}
	python, err := pypeer.Python()
	if err != nil {
		t.Fatal(err)
	}
	start := func(ctx context.Context) *exec.Cmd {
		return exec.CommandContext(ctx, python, "../../internal/bench/benchpeer/peers/bench_comm.py")
	}
	seen := 0
	for line := range strings.Lines(string(list)) {
		version := strings.TrimSpace(line)
		if version == "" || strings.HasPrefix(version, "#") {
			continue
		}
		seen++
		t.Run(version, func(t *testing.T) {
			packages, err := filepath.Abs("../../.local/dask/" + version)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := os.Stat(filepath.Join(packages, "distributed")); err != nil {
				t.Fatalf("%v: run scripts/setup peers", err)
			}
			ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
			defer cancel()
			const address = "tcp://127.0.0.1:0"
			env := []string{"PYTHONPATH=" + packages}
			talk, err := commpeer.Converse(ctx, start, address, env)
			if err != nil {
				t.Fatal(err)
			}
			if talk.Distributed != version {
				t.Errorf("the peer is distributed %s", talk.Distributed)
			}
			if talk.Sum != 499999500000 {
				t.Errorf("Python's sum is %v", talk.Sum)
			}
			if err := commpeer.ServePython(ctx, start, address, env); err != nil {
				t.Errorf("Python as the client: %v", err)
			}
		})
	}
	if seen < 6 {
		t.Errorf("%d releases are listed, want six at least", seen)
	}
}
