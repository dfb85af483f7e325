package ucx

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A program built without cgo builds, starts, and is told what to do.
func TestWithoutCgo(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "nocgo")
	build := exec.Command("go", "build", "-o", bin, "./testdata/nocgo")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.Command(bin).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 2 {
		t.Fatalf("want two lines, of Available and of NewContext: %q", out)
	}
	for _, line := range lines {
		for _, want := range []string{"CGO_ENABLED=0", "rebuild with a C compiler"} {
			if !strings.Contains(line, want) {
				t.Errorf("%q does not say %q", line, want)
			}
		}
	}
}
