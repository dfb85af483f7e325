package modproxy

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/tools/release/archive"
)

const (
	program   = "package main\n\nimport \"example.org/Mill\"\n\nfunc main() { println(mill.Word) }\n"
	nestedMod = "module example.org/Mill/nested\n\ngo 1.26.0\n\n"
)

// repository has a module, one nested in it that needs it, and one in testdata.
var repository = []archive.File{
	{Name: "go.mod", Data: []byte("module example.org/Mill\n\ngo 1.26.0\n")},
	{Name: "LICENSE", Data: []byte("license\n")},
	{Name: "mill.go", Data: []byte("package mill\n\nconst Word = \"ground\"\n")},
	{Name: "cmd/mill/main.go", Data: []byte(program)},
	{Name: "vendor/x/x.go", Data: []byte("package x\n")},
	{Name: "nested/go.mod", Data: []byte(nestedMod + "require example.org/Mill v0.0.0\n\n" +
		"replace example.org/Mill => ../\n")},
	{Name: "nested/go.sum", Data: []byte("zzz v1.0.0 h1:x=\n")},
	{Name: "nested/main.go", Data: []byte(program)},
	{Name: "nested/deep/go.mod", Data: []byte("module example.org/Mill/nested/deep\n")},
}

func names(files []archive.File) []string {
	var out []string
	for _, f := range files {
		out = append(out, f.Name)
	}
	return out
}

func root() *Module {
	return &Module{Path: "example.org/Mill", Version: "v0.1.0", Time: time.Unix(1_800_000_000, 0), Commit: "abc",
		Files: Select(repository, "")}
}

func TestSelect(t *testing.T) {
	got, want := names(root().Files), []string{"go.mod", "LICENSE", "mill.go", "cmd/mill/main.go"}
	if !slices.Equal(got, want) {
		t.Errorf("root: got %q, want %q", got, want)
	}
	got, want = names(Select(repository, "nested")), []string{"go.mod", "go.sum", "main.go", "LICENSE"}
	if !slices.Equal(got, want) {
		t.Errorf("nested: got %q, want %q", got, want)
	}
}

func TestRequire(t *testing.T) {
	files := Require(Select(repository, "nested"), root())
	if got, want := string(files[0].Data), nestedMod+"require example.org/Mill v0.1.0\n"; got != want {
		t.Errorf("go.mod: got %q, want %q", got, want)
	}
	lines := strings.Split(strings.TrimSpace(string(files[1].Data)), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "example.org/Mill v0.1.0 h1:") ||
		!strings.HasPrefix(lines[1], "example.org/Mill v0.1.0/go.mod h1:") {
		t.Errorf("go.sum: got %q", lines)
	}
	list := "require (\n\tother v1.0.0\n\texample.org/Mill v0.0.0\n)\n"
	files = Require([]archive.File{{Name: "go.mod", Data: []byte(list)}}, root())
	if got, want := string(files[0].Data), "require (\n\tother v1.0.0\n\texample.org/Mill v0.1.0\n)\n"; got != want {
		t.Errorf("a list: got %q, want %q", got, want)
	}
}

// TestInstall installs programs of both modules with the go command, from the proxy alone. The go command checks the
// sums of go.sum, which Sums has computed.
func TestInstall(t *testing.T) {
	proxy := t.TempDir()
	nested := &Module{Path: "example.org/Mill/nested", Version: "v0.1.0", Time: root().Time,
		Files: Require(Select(repository, "nested"), root())}
	for i, f := range nested.Files {
		if f.Name == "go.sum" { // without the line of a module that does not exist
			nested.Files[i].Data = []byte(root().Sums())
		}
	}
	for _, m := range []*Module{root(), nested} {
		files, err := m.Write()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			name := filepath.Join(proxy, f.Name)
			if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, f.Data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	dir := t.TempDir()
	for pkg, program := range map[string]string{"example.org/Mill/cmd/mill": "mill",
		"example.org/Mill/nested": "nested"} {
		cmd := exec.Command("go", "install", pkg+"@v0.1.0")
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOPROXY=file://"+proxy, "GOMODCACHE="+filepath.Join(dir, "mod"), "GONOSUMDB=*",
			"GOFLAGS=-modcacherw", "GOWORK=off", "GOBIN="+filepath.Join(dir, "bin"), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", pkg, err, out)
		}
		out, err := exec.Command(filepath.Join(dir, "bin", program)).CombinedOutput()
		if err != nil || string(out) != "ground\n" {
			t.Errorf("%s: got %q, %v", program, out, err)
		}
	}
}

func TestInvalid(t *testing.T) {
	for name, files := range map[string][]archive.File{
		"no go.mod":   {{Name: "a.go"}},
		"a bad name":  {{Name: "go.mod", Data: []byte("module a\n")}, {Name: "a:b.go"}},
		"equal names": {{Name: "go.mod", Data: []byte("module a\n")}, {Name: "A.go"}, {Name: "a.go"}},
	} {
		m := &Module{Path: "a", Version: "v0.1.0", Files: files}
		if _, err := m.Write(); err == nil || !strings.HasPrefix(err.Error(), "modproxy: a") {
			t.Errorf("%s: got error %v", name, err)
		}
	}
	a, errA := root().Write()
	b, errB := root().Write()
	if errA != nil || errB != nil || !bytes.Equal(a[3].Data, b[3].Data) {
		t.Errorf("two zips of one module differ, or %v, %v", errA, errB)
	}
}
