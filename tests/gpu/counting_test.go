package gpu

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"

	"go.millstream.dev/internal/device/cucount"
)

// counting runs the test again in a process into which the counter of driver calls is preloaded, and
// returns nil there where the test was called first. In that process it returns the counter; processes
// that it starts count too.
func counting(t *testing.T) *cucount.Reader {
	t.Helper()
	requireGPU(t)
	if os.Getenv(cucount.DirVariable) != "" {
		r, err := cucount.Open()
		must(t, err)
		t.Cleanup(func() { r.Close() })
		return r
	}
	dir := t.TempDir()
	library, err := cucount.Build(testContext(t), dir)
	must(t, err)
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), cucount.Env(os.Environ(), library, dir)...)
	out, err := cmd.CombinedOutput()
	t.Logf("with the counter:\n%s", out)
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("with the counter: %v", err)
	}
	return nil
}

// calls reads a counter.
func calls(t *testing.T, r *cucount.Reader) cucount.Counts {
	t.Helper()
	c, err := r.Read()
	must(t, err)
	return c
}
