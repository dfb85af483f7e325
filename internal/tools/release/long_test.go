//go:build release

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/tools/release/archive"
	"go.millstream.dev/internal/tools/tree"
)

// The tests of `make test-release`, on HEAD of this repository. They take minutes.

func head(t *testing.T, dir string) *source {
	t.Helper()
	root, err := tree.Root(".")
	if err != nil {
		t.Fatal(err)
	}
	number, err := pythonVersion(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	s, err := checkout(t.Context(), root, "HEAD", "v"+number, dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// command runs a program in an environment of its own variables added to that of the test, and prints the time.
func command(t *testing.T, dir string, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), env...)
	begin := time.Now()
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
	t.Logf("%s %s: %.1f s", filepath.Base(name), strings.Join(args, " "), time.Since(begin).Seconds())
	return strings.TrimSpace(string(out))
}

// TestReleaseReproducible builds the program with cgo twice, in folders with names of different length and with empty
// build caches, so that nothing of the first build is used by the second.
func TestReleaseReproducible(t *testing.T) {
	var made [2][]byte
	for i := range made {
		t.Setenv("GOCACHE", filepath.Join(t.TempDir(), "cache"))
		s := head(t, filepath.Join(t.TempDir(), strings.Repeat("source", i+1)))
		list, _ := targets(runtime.GOARCH, exec.LookPath)
		built, err := s.build(t.Context(), list[0], programs[0])
		if err != nil {
			t.Fatal(err)
		}
		made[i] = built[0].Data
	}
	if !bytes.Equal(made[0], made[1]) {
		t.Errorf("two builds of one commit differ: %d and %d bytes", len(made[0]), len(made[1]))
	}
}

// program is a Dask program that knows nothing of Millstream.
const program = `import dask
from distributed import Client

if __name__ == "__main__":
    with Client() as client:
        squares = [dask.delayed(pow)(n, 2) for n in range(1000)]
        print("sum", dask.delayed(sum)(squares).compute(), client.submit(max, [1, 2]).result())
`

// TestReleaseWheel installs the wheel into an empty virtual environment and runs a Dask program on a Millstream
// scheduler: two commands, whose times are printed. pip fetches Dask.
func TestReleaseWheel(t *testing.T) {
	dir := t.TempDir()
	s := head(t, filepath.Join(dir, "source"))
	if err := s.hostWheels(t.Context(), runtime.GOARCH, dir, exec.LookPath, os.Stderr); err != nil {
		t.Fatal(err)
	}
	wheels, err := filepath.Glob(filepath.Join(dir, "millstream-*.whl"))
	if err != nil || len(wheels) != 1 {
		t.Fatalf("got wheels %q, %v", wheels, err)
	}
	if err := os.WriteFile(filepath.Join(dir, "program.py"), []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	python := os.Getenv("MILLSTREAM_PYTHON")
	clean := []string{"MILLSTREAM_PYTHON=", "VIRTUAL_ENV=", "PIP_DISABLE_PIP_VERSION_CHECK=1"}
	command(t, dir, nil, python, "-m", "venv", "env")
	bin := filepath.Join(dir, "env/bin")
	begin := time.Now()
	command(t, dir, clean, filepath.Join(bin, "pip"), "install", "--quiet", wheels[0])
	out := command(t, dir, clean, filepath.Join(bin, "python"), "-m", "millstream", "program.py")
	t.Logf("from an empty environment to the first result: %.1f s", time.Since(begin).Seconds())
	if !strings.Contains(out, "sum 332833500 2") {
		t.Errorf("got %s", out)
	}
	if got := command(t, dir, clean, filepath.Join(bin, "millstream"), "version"); !strings.Contains(got, s.version) {
		t.Errorf("millstream version: got %s, want %s in it", got, s.version)
	}
	command(t, dir, clean, filepath.Join(bin, "pip"), "install", "--quiet", "--find-links", dir,
		"millstream[dask-names]")
	got := command(t, dir, clean, filepath.Join(bin, "dask-scheduler"), "--version")
	if !strings.Contains(got, "millstream "+s.version) {
		t.Errorf("dask-scheduler --version: got %s", got)
	}
}

// TestReleaseModule installs the programs of the modules with the go command into an empty module cache. This module
// comes from the proxy alone; others from the download cache of this machine, which has the layout of a proxy.
func TestReleaseModule(t *testing.T) {
	dir := t.TempDir()
	s := head(t, filepath.Join(dir, "source"))
	files, err := s.proxy(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := write(dir, os.Stderr, files...); err != nil {
		t.Fatal(err)
	}
	cache, err := output(t.Context(), dir, nil, "go", "env", "GOMODCACHE")
	if err != nil {
		t.Fatal(err)
	}
	empty := t.TempDir()
	env := []string{"GOPROXY=file://" + dir + "/go,file://" + cache + "/cache/download", "GOMODCACHE=" + empty + "/mod",
		"GONOSUMDB=*", "GOFLAGS=-modcacherw", "GOWORK=off", "GOBIN=" + empty + "/bin", "CGO_ENABLED=0"}
	for _, pkg := range programs {
		module := "go.millstream.dev/" + strings.TrimPrefix(pkg, "./")
		command(t, empty, env, "go", "install", module+"@"+s.version)
	}
	got := command(t, empty, nil, filepath.Join(empty, "bin/millstream"), "version")
	if !strings.HasPrefix(got, "millstream "+s.version+" ") {
		t.Errorf("got %s, want version %s", got, s.version)
	}
	command(t, empty, nil, filepath.Join(empty, "bin/millstream-bench"), "--help")
	// A program of another module, with the library and its OpenTelemetry module.
	user := filepath.Join(empty, "user")
	if err := write(user, os.Stderr, archive.File{Name: "go.mod", Data: []byte("module user\n\ngo 1.26.0\n")},
		archive.File{Name: "main.go", Data: []byte("package main\n\nimport (\n\t_ \"go.millstream.dev\"\n\t" +
			"_ \"go.millstream.dev/otel\"\n)\n\nfunc main() {}\n")}); err != nil {
		t.Fatal(err)
	}
	env = append(env, "GOFLAGS=-modcacherw -mod=mod")
	command(t, user, env, "go", "get", "go.millstream.dev@"+s.version, "go.millstream.dev/otel@"+s.version)
	command(t, user, env, "go", "build", "-o", "program", ".")
}
