package downstream

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.millstream.dev/tests/dask/rig"
)

// Tests of xarray and joblib that pass on Dask's scheduler pass on ours, but for those with a reason in reasons.toml.
func TestDownstream(t *testing.T) {
	python := filepath.Join(rig.Root(), ".local", "downstream", "env", "bin", "python")
	if _, err := os.Stat(python); err != nil {
		t.Fatalf("no downstream packages at %s; run scripts/setup downstream", python)
	}
	own, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, python, filepath.Join(rig.Root(), "tests", "downstream", "run.py"), "--short",
		"--jobs", "3",
		"--millstream", own, "--out", t.TempDir())
	// The runner's children end with it.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "unexplained differences: 0") {
		t.Fatalf("got %v, want no unexplained differences:\n%s", err, out)
	}
	t.Log(string(out))
}
