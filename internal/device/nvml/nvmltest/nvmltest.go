// Package nvmltest has a libnvidia-ml for tests of programs that load it.
package nvmltest

import (
	_ "embed"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.millstream.dev/internal/device/nvml"
)

//go:embed native/fake.c
var source []byte

// Use compiles the library, lets nvml.Open load it for the rest of the test, and returns its path. words are those of
// FAKE_NVML, see native/fake.c.
func Use(t *testing.T, words ...string) string {
	t.Helper()
	dir := t.TempDir()
	file, library := filepath.Join(dir, "fake.c"), filepath.Join(dir, "libnvidia-ml.so.1")
	if err := os.WriteFile(file, source, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("cc", "-shared", "-fPIC", "-o", library, file).CombinedOutput(); err != nil {
		t.Fatalf("compile the fake library: %v\n%s", err, out)
	}
	t.Setenv(nvml.Variable, library)
	t.Setenv("FAKE_NVML", strings.Join(words, " "))
	return library
}
