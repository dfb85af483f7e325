package downstream

import (
	"os"
	"path/filepath"
	"testing"

	"go.millstream.dev/tests/dask/rig"
)

// deployment runs a program of tests/dask/peers with the packages of this folder.
func deployment(t *testing.T, program string, checks int) {
	t.Helper()
	r := rig.With(t, rig.Setting{Protocol: "tcp"})
	r.Interpreter = filepath.Join(rig.Root(), ".local", "downstream", "env", "bin", "python")
	if _, err := os.Stat(r.Interpreter); err != nil {
		t.Fatalf("no downstream packages at %s; run scripts/setup downstream", r.Interpreter)
	}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if res := r.Python("", program, own, t.TempDir()); len(res.Checks) < checks {
		t.Errorf("%d checks were made, want %d", len(res.Checks), checks)
	}
}

// A cluster of dask-jobqueue, with a queue that runs its jobs on this machine.
func TestJobqueue(t *testing.T) { deployment(t, "jobqueue.py", 9) }

// The server of dask-gateway starts our scheduler, and scales, adapts and ends the cluster through it.
func TestGateway(t *testing.T) { deployment(t, "gateway.py", 9) }
