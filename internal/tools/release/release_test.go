package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"go.millstream.dev/internal/tools/release/archive"
	"go.millstream.dev/internal/tools/release/sign"
)

// repository returns a git repository with one program, and its commit.
func repository(t *testing.T, files map[string]string) (dir, commit string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		if err := write(dir, &bytes.Buffer{}, archive.File{Name: name, Data: []byte(text)}); err != nil {
			t.Fatal(err)
		}
	}
	author := []string{"-c", "user.name=a", "-c", "user.email=a@example.org"}
	for _, args := range [][]string{{"init", "--quiet"}, {"add", "."}, {"commit", "--quiet", "-m", "first"}} {
		git(t, dir, append(slices.Clone(author), args...)...)
	}
	return dir, git(t, dir, "rev-parse", "HEAD")
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	out, err := output(context.Background(), dir, []string{"GIT_CONFIG_GLOBAL=/dev/null"}, "git", args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

var hello = map[string]string{"go.mod": "module example.org/hello\n\ngo 1.26.0\n",
	"cmd/hello/main.go": "package main\n\nfunc main() { println(\"hello\") }\n"}

// TestReproducible builds a program twice, in two folders, and compares the bytes of its archives. The long form, with
// the programs of this repository and empty caches, is TestReleaseReproducible of make test-release.
func TestReproducible(t *testing.T) {
	repo, commit := repository(t, hello)
	var made [2][]byte
	for i := range made {
		s, err := checkout(t.Context(), repo, commit, "v0.1.0", filepath.Join(t.TempDir(), strings.Repeat("x", i+1)))
		if err != nil {
			t.Fatal(err)
		}
		target := target{arch: "amd64"}
		files, err := s.build(t.Context(), target, "./cmd/hello")
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(files[0].Data, []byte(s.dir)) {
			t.Errorf("the program contains the name of the folder %s", s.dir)
		}
		if !bytes.Contains(files[0].Data, []byte(commit)) {
			t.Errorf("the program does not contain the commit %s", commit)
		}
		if files, err = s.tree(files, nil); err != nil {
			t.Fatal(err)
		}
		f, err := s.tarball(target, files)
		if err != nil {
			t.Fatal(err)
		}
		if want := "millstream-0.1.0-linux-amd64-static.tar.gz"; f.Name != want {
			t.Errorf("got name %s, want %s", f.Name, want)
		}
		made[i] = f.Data
	}
	if !bytes.Equal(made[0], made[1]) {
		t.Errorf("two builds of one commit differ: %d and %d bytes", len(made[0]), len(made[1]))
	}
}

func TestCheckout(t *testing.T) {
	repo, commit := repository(t, hello)
	if err := os.WriteFile(filepath.Join(repo, "go.mod"), []byte("changed"), 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := checkout(t.Context(), repo, "", "v0.1.0", filepath.Join(t.TempDir(), "a"))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := s.read("go.mod"); err != nil || string(text) != hello["go.mod"] {
		t.Errorf("a change that is not committed is released: %q, %v", text, err)
	}
	if s.commit != commit || s.time.IsZero() || git(t, s.dir, "describe", "--tags", "--exact-match") != "v0.1.0" {
		t.Errorf("got commit %s, want %s; time %v", s.commit, commit, s.time)
	}
	git(t, repo, "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "--quiet", "-a", "-m", "second")
	git(t, repo, "tag", "v0.2.0", commit)
	for name, c := range map[string]struct{ commit, version, want string }{
		"version":  {"", "0.1", "not of the form"},
		"commit":   {"none", "v0.1.0", "clone of the repository"},
		"tagged":   {"", "v0.2.0", "tag v0.2.0 is at " + commit[:12]},
		"unwanted": {commit, "v0.2.0", ""},
	} {
		_, err := checkout(t.Context(), repo, c.commit, c.version, filepath.Join(t.TempDir(), "b"))
		if got := errorText(err); !strings.Contains(got, c.want) || (c.want == "") != (err == nil) {
			t.Errorf("%s: got error %q, want one with %q", name, got, c.want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestTargets(t *testing.T) {
	have := func(names ...string) func(string) (string, error) {
		return func(name string) (string, error) {
			if slices.Contains(names, name) {
				return name, nil
			}
			return "", exec.ErrNotFound
		}
	}
	for _, c := range []struct {
		host    string
		have    []string
		want    string
		missing int
	}{
		{"amd64", []string{"gcc", "aarch64-linux-gnu-gcc"},
			"linux-amd64 linux-amd64-static linux-arm64 linux-arm64-static", 0},
		{"amd64", []string{"gcc"}, "linux-amd64 linux-amd64-static linux-arm64-static", 1},
		{"arm64", []string{"gcc"}, "linux-amd64-static linux-arm64 linux-arm64-static", 1},
		{"amd64", nil, "linux-amd64-static linux-arm64-static", 2},
	} {
		list, missing := targets(c.host, have(c.have...))
		var names []string
		for _, t := range list {
			names = append(names, t.name())
		}
		if got := strings.Join(names, " "); got != c.want || len(missing) != c.missing {
			t.Errorf("%s with %q: got %s, missing %q", c.host, c.have, got, missing)
		}
	}
}

// TestExtras checks that the files next to the programs are there, with those of deploy/systemd.
func TestExtras(t *testing.T) {
	s := &source{dir: "../../..", version: "v0.1.0"}
	files, err := s.extras()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Name)
	}
	for _, want := range []string{"share/man/man1/millstream.1", "share/bash-completion/completions/millstream",
		"lib/systemd/system/millstream-worker.service", "share/doc/millstream/LICENSE"} {
		if !slices.Contains(names, want) {
			t.Errorf("no %s in %q", want, names)
		}
	}
	made, err := s.packages(target{arch: "arm64", cgo: true}, files)
	if err != nil {
		t.Fatal(err)
	}
	if made[0].Name != "millstream_0.1.0_arm64.deb" || made[1].Name != "millstream-0.1.0-1.aarch64.rpm" {
		t.Errorf("got packages %s, %s", made[0].Name, made[1].Name)
	}
	if made, err = s.packages(target{arch: "arm64"}, files); err != nil {
		t.Fatal(err)
	}
	if len(made) != 1 || made[0].Name != "millstream-0.1.0-r0.aarch64.apk" {
		t.Errorf("got %d packages without cgo, the first %s", len(made), made[0].Name)
	}
}

func TestPythonVersion(t *testing.T) {
	if got, err := pythonVersion(os.DirFS("../../..")); err != nil || !semver.MatchString("v"+got) {
		t.Errorf("version of this repository: got %q, %v", got, err)
	}
	tree := func(project, pkg string) fstest.MapFS {
		return fstest.MapFS{"python/pyproject.toml": {Data: []byte(project)},
			"internal/dask/python/millstream/__init__.py": {Data: []byte(pkg)}}
	}
	if got, err := pythonVersion(tree("version = \"1.2.3\"\n", "__version__ = \"1.2.3\"\n")); got != "1.2.3" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, bad := range []fstest.MapFS{{}, tree("", ""), tree("version = \"1.2.3\"\n", "__version__ = \"1.2.4\"\n")} {
		if got, err := pythonVersion(bad); err == nil {
			t.Errorf("got %q and no error", got)
		}
	}
}

func TestSigningKey(t *testing.T) {
	var log bytes.Buffer
	key, err := signingKey("", &log)
	if err != nil || !strings.Contains(log.String(), "thrown away") {
		t.Fatalf("without a file: %v, log %q", err, &log)
	}
	text, err := sign.PEM(key)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := signingKey(file, &log); err != nil || !got.Equal(key) {
		t.Errorf("the key of a file differs, %v", err)
	}
	if _, err := signingKey(file+".none", &log); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that does not exist: got error %v", err)
	}
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"surplus"}, "unexpected argument"},
		{[]string{"verify"}, "one folder is needed"},
		{[]string{"verify", t.TempDir()}, "no such file"},
		{[]string{"-version", "v9.9.9"}, "the Python package has"},
	} {
		if err := run(t.Context(), c.args, &bytes.Buffer{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: got error %v, want one with %q", c.args, err, c.want)
		}
	}
	dir := t.TempDir()
	if err := write(dir, &bytes.Buffer{}, archive.File{Name: "a", Data: []byte("a")}); err != nil {
		t.Fatal(err)
	}
	key, err := sign.NewKey()
	if err == nil {
		err = sign.Folder(dir, key)
	}
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	err = run(t.Context(), []string{"verify", dir}, &out)
	if err != nil || !strings.Contains(out.String(), "are right") {
		t.Errorf("verify: %v, %s", err, &out)
	}
}
