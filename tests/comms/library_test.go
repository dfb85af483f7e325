package comms

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.millstream.dev/tests/dask/rig"
)

func TestMain(m *testing.M) { rig.Main(m) }

// TestLibrary builds the library once for all tests.
func TestLibrary(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(filepath.Join(rig.Root(), "scripts", "build-library"), dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the library: %v\n%s", err, out)
	}
	t.Run("header", func(t *testing.T) { testHeader(t, dir) })
	t.Run("c", func(t *testing.T) { testC(t, dir) })
	t.Run("c-kill", func(t *testing.T) { testKill(t, dir) })
	t.Run("c-native", func(t *testing.T) { testNative(t, dir) })
	t.Run("dask", func(t *testing.T) { testDask(t, dir) })
	t.Run("replaced", func(t *testing.T) { testReplaced(t, dir) })
	t.Run("ours", func(t *testing.T) { testOurScheduler(t, dir) })
	t.Run("learn", func(t *testing.T) { testLearn(t, dir) })
}

// testHeader: the header is valid in C and C++, and the library exports the functions of the header and no others.
func testHeader(t *testing.T, dir string) {
	header := filepath.Join(dir, "millstream.h")
	for _, language := range []string{"c", "c++"} {
		cmd := exec.Command("c++", "-x", language, "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-pedantic",
			"-include", header, "/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", language, err, out)
		}
	}
	text, err := os.ReadFile(header)
	if err != nil {
		t.Fatal(err)
	}
	symbols, err := exec.Command("nm", "-D", "--defined-only", filepath.Join(dir, "libmillstream.so")).Output()
	if err != nil {
		t.Fatal(err)
	}
	exported := map[string]bool{}
	for line := range strings.Lines(string(symbols)) {
		f := strings.Fields(line) // value, type, name@@version
		if len(f) != 3 || f[1] == "A" {
			continue
		}
		name, _, _ := strings.Cut(f[2], "@")
		exported[name] = true
		if !strings.Contains(string(text), name+"(") {
			t.Errorf("%s is exported but not in the header", f[2])
		}
	}
	declared := 0
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "MILLSTREAM_API") {
			continue
		}
		name, _, _ := strings.Cut(line[strings.Index(line, "millstream_v1_"):], "(")
		name = name[strings.LastIndexByte(name, '*')+1:]
		declared++
		if !exported[name] {
			t.Errorf("%s is declared but not exported", name)
		}
	}
	if declared < 25 {
		t.Errorf("found %d functions in the header, want all", declared)
	}
}
