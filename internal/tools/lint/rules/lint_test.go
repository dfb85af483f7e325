package rules

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// checkFiles writes a tree and returns what Check finds in it, one problem a line.
func checkFiles(t *testing.T, files map[string]string) string {
	t.Helper()
	root := t.TempDir()
	if _, ok := files["go.mod"]; !ok {
		files["go.mod"] = "module example.org/m\n\ngo 1.26\n"
	}
	for name, text := range files {
		p := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	problems, err := Check(root)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, p := range problems {
		lines = append(lines, p.String())
	}
	return strings.Join(lines, "\n")
}

// expect compares the findings with parts that must be in them, in number and in content.
func expect(t *testing.T, got string, want ...string) {
	t.Helper()
	n := 0
	if got != "" {
		n = strings.Count(got, "\n") + 1
	}
	if n != len(want) {
		t.Errorf("%d problems, want %d:\n%s", n, len(want), got)
	}
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("no problem says %q:\n%s", w, got)
		}
	}
}

// imports is a Go file of package name that imports paths.
func imports(name string, paths ...string) string {
	var b strings.Builder
	b.WriteString("package " + name + "\n\n")
	for _, p := range paths {
		b.WriteString("import _ \"" + p + "\"\n")
	}
	return b.String()
}

func TestLayers(t *testing.T) {
	const m = "example.org/m"
	for _, c := range []struct {
		name  string
		file  string
		text  string
		wants []string
	}{
		{"down", "ucx/a.go", imports("ucx", m+"/mem", m+"/ucx/internal/ucp", "fmt"), nil},
		{"up", "mem/a.go", imports("mem", m+"/ucx"), []string{"mem/a.go:3: mem imports ucx, which is above it"}},
		{"internal up", "internal/proc/a.go", imports("proc", m+"/mem"), []string{"internal imports mem, which " +
			"is above it"}},
		{"internal above", "internal/bench/ucxbench/a.go", imports("ucxbench", m+"/ucx", m+"/internal/proc"), nil},
		{"internal below the one above", "internal/proc/a.go", imports("proc", m+"/internal/bench/ucxbench"),
			[]string{"internal imports internal/bench/ucxbench"}},
		{"neighbors", "ucx/a.go", imports("ucx", m+"/nccl"), []string{"ucx imports nccl of the same layer"}},
		{"own children", "cli/a.go", imports("cli", m+"/cli/bench", m+"/cli/internal/x"), nil},
		{"children inherit", "ucx/internal/x/a.go", imports("x", m+"/ucx", m+"/cli"), []string{"ucx imports cli"}},
		{"state below server", "scheduler/a.go", imports("scheduler", m+"/internal/engine/scheduler/state"), nil},
		{"server above state", "internal/engine/scheduler/state/a.go", imports("state", m+"/scheduler"),
			[]string{"internal/engine/scheduler/state imports scheduler, which is above"}},
		{"transport above comm", "internal/comm/tcp/a.go", imports("tcp", m+"/comm"), nil},
		{"comm not its transport", "comm/a.go", imports("comm", m+"/internal/comm/tcp"),
			[]string{"comm imports internal/comm/tcp"}},
		{"root", "a.go", imports("m", m+"/cluster"), nil},
		{"root without commands", "a.go", imports("m", m+"/cli"), []string{". imports cli of the same layer"}},
		{"nothing imports root", "cli/a.go", imports("cli", m), []string{"cli imports . of the same layer"}},
		{"command", "cmd/millstream/a.go", imports("main", m, m+"/cli"), nil},
		{"unknown package", "widgets/a.go", imports("widgets"),
			[]string{"widgets/a.go:1: package widgets is not in the layers"}},
		{"unknown import", "cli/a.go", imports("cli", m+"/widgets"),
			[]string{"imports widgets, which is not in the layers"}},
		{"test twin may", "mem/a_test.go", imports("mem_test", m+"/cli"), nil},
		{"inner test may not", "mem/a_test.go", imports("mem", m+"/cli"), []string{"mem imports cli"}},
		{"prefix is no parent", "memory/a.go", imports("memory"), []string{"package memory is not in the layers"}},
		{"other modules", "mem/a.go", imports("mem", "example.org/mother/cli"), nil},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, checkFiles(t, map[string]string{c.file: c.text}), c.wants...) })
	}
}

func TestBans(t *testing.T) {
	const m = "example.org/m"
	for _, c := range []struct {
		name  string
		file  string
		text  string
		wants []string
	}{
		{"ucx and cuda", "ucx/a.go", imports("ucx", m+"/cuda"), []string{`ucx must not import "./cuda"`}},
		{"ucx and below cuda", "ucx/inner/a.go", imports("inner", m+"/cuda/x"),
			[]string{`ucx must not import "./cuda/x"`}},
		{"ucx's tests may", "ucx/a_test.go", imports("ucx_test", m+"/cuda"), nil},
		{"cgo in mem", "mem/a.go", imports("mem", "C"), []string{`mem must not import "C"`}},
		{"clock in state", "internal/engine/scheduler/state/a.go", imports("state", "math/rand", "net/http", "time"),
			[]string{`"math/rand"`, `"net/http"`}},
		{"server may", "scheduler/a.go", imports("scheduler", "net/http", "os"), nil},
	} {
		t.Run(c.name, func(t *testing.T) { expect(t, checkFiles(t, map[string]string{c.file: c.text}), c.wants...) })
	}
}

func TestCheckItself(t *testing.T) {
	expect(t, checkFiles(t, map[string]string{"mem/a.go": "package\n"}), "mem/a.go: ")
	expect(t, checkFiles(t, map[string]string{"mem/testdata/a.go": "package\n", "data.bin": "\x00/ro" + "ot/x"}))
	if _, err := Check(t.TempDir()); err == nil {
		t.Error("a tree without go.mod: want an error")
	}
}

// TestTable keeps the tables of layers and bans in step.
func TestTable(t *testing.T) {
	if _, entry, ok := layerOf("internal/tools/lint/rules"); !ok || entry != "internal" {
		t.Errorf("layerOf(internal/tools/lint/rules) = %q, %t", entry, ok)
	}
	seen := map[string]bool{}
	for _, row := range layers {
		for _, name := range row {
			if seen[name] {
				t.Errorf("%s is in the layers twice", name)
			}
			seen[name] = true
		}
	}
	for _, ban := range bans {
		if !seen[ban.from] {
			t.Errorf("a ban names %s, which is not in the layers", ban.from)
		}
	}
}
