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
	source, modules := filepath.Join(rig.Root(), "python"), filepath.Join(rig.Root(), "internal", "dask", "python")
	t.Run("tests", func(t *testing.T) {
		out := python(t, modules, "-m", "unittest", "discover", "-s", filepath.Join(source, "tests"))
		if !strings.Contains(out, "\nOK") {
			t.Errorf("no tests have passed:\n%s", out)
		}
	})
	install := func(t *testing.T, to string, options ...string) {
		t.Helper()
		args := []string{"-m", "pip", "--quiet", "--disable-pip-version-check", "install", "--no-build-isolation",
			"--no-index", "--no-deps", "--target", to}
		python(t, "", append(args, options...)...)
	}
	check := func(t *testing.T, to string) {
		t.Helper()
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
	}
	// A copy: the build leaves files beside the source.
	clone := func(t *testing.T) (from string) {
		t.Helper()
		dir := t.TempDir()
		for _, name := range []string{"python", "internal/dask/python"} {
			if err := os.CopyFS(filepath.Join(dir, name), os.DirFS(filepath.Join(rig.Root(), name))); err != nil {
				t.Fatal(err)
			}
		}
		return filepath.Join(dir, "python")
	}
	t.Run("pip", func(t *testing.T) {
		from, to := clone(t), t.TempDir()
		install(t, to, from)
		check(t, to)
	})
	t.Run("source distribution", func(t *testing.T) {
		from, dist, to := clone(t), t.TempDir(), t.TempDir()
		python(t, from, "-c", "import _build; _build.build_sdist('"+dist+"')")
		found, err := filepath.Glob(filepath.Join(dist, "*.tar.gz"))
		if err != nil || len(found) != 1 {
			t.Fatalf("archives: got %v, %v, want one", found, err)
		}
		install(t, to, found[0])
		check(t, to)
	})
}
