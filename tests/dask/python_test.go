package dask

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.millstream.dev/tests/dask/rig"
)

// The Python package: its own tests, and that pip installs it where there is no network.
func TestPythonPackage(t *testing.T) {
	r := rig.New(t)
	python := func(t *testing.T, path string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(r.Context, r.Interpreter, args...)
		cmd.Dir = t.TempDir()
		cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONWARNINGS=ignore", "PYTHONPATH="+path,
			"TMPDIR="+t.TempDir(), "HOME="+t.TempDir())
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("python %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	source := filepath.Join(rig.Root(), "python")
	t.Run("tests", func(t *testing.T) {
		out := python(t, source, "-m", "unittest", "discover", "-s", filepath.Join(source, "tests"))
		if !strings.Contains(out, "\nOK") {
			t.Errorf("no tests have passed:\n%s", out)
		}
	})
	t.Run("pip", func(t *testing.T) {
		// A copy: the build leaves files beside the source.
		from, to := filepath.Join(t.TempDir(), "python"), t.TempDir()
		if err := os.CopyFS(from, os.DirFS(source)); err != nil {
			t.Fatal(err)
		}
		python(t, "", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-build-isolation",
			"--no-index", "--no-deps", "--target", to, from)
		got := python(t, to, "-c", "import millstream; print(millstream.__version__, millstream.__file__, "+
			"millstream.go('f'))")
		text, err := os.ReadFile(filepath.Join(source, "pyproject.toml"))
		if err != nil {
			t.Fatal(err)
		}
		version, rest, _ := strings.Cut(got, " ")
		if !strings.Contains(string(text), "version = \""+version+"\"") || !strings.HasPrefix(rest, to) ||
			!strings.Contains(rest, "Go function f") {
			t.Errorf("installed: %s", got)
		}
	})
}
