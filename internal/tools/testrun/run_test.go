package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const passing = `package p
import "testing"
func TestOne(t *testing.T) {}
func TestGPUTwo(t *testing.T) { t.Skip("no device") }
`

// unsteadily is a test that does something wrong the first time it is run and something else later, and another one.
func unsteadily(wrong string, later ...string) string {
	return `package p
import ("os"; "testing")
func TestOnce(t *testing.T) {
	if _, err := os.Stat("been-here"); err != nil {
		os.WriteFile("been-here", nil, 0o644)
		` + wrong + `
		return
	}
	` + strings.Join(later, "\n") + `
}
func TestGood(t *testing.T) {}
`
}

// counted is a test that fails in some of its runs, n counted from 0 over all processes.
func counted(bad string) string {
	return `package p
import ("fmt"; "os"; "testing")
func TestCounted(t *testing.T) {
	n := 0
	for ; ; n++ {
		f, err := os.OpenFile(fmt.Sprint("run-", n), os.O_CREATE|os.O_EXCL, 0o644)
		if err == nil {
			f.Close()
			break
		}
	}
	if ` + bad + ` {
		t.Errorf("run %d is bad", n)
	}
}
`
}

// module makes a module in a new folder and goes there.
func module(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	files["go.mod"] = "module example.org/m\n\ngo 1.26\n"
	files["tests/skips.txt"] = "* TestGPU* GPU: none here\n"
	for name, text := range files {
		p := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

// testRun runs the tests of the module in the current folder.
func testRun(t *testing.T, o options) (ok bool, output string) {
	t.Helper()
	o.timeout, o.skips, o.gpu = time.Minute, "tests/skips.txt", "docs/gpu-run.json"
	if len(o.packages) == 0 {
		o.packages = []string{"./..."}
	}
	var out bytes.Buffer
	ok, err := run(t.Context(), o, &out)
	if err != nil {
		t.Fatal(err)
	}
	return ok, out.String()
}

// TestRun runs the real go command over small modules.
func TestRun(t *testing.T) {
	record := `{"device":"d","driver":"1","cuda":"13","ucx":"1.21","commit":"c","date":"2026-01-01","tests":[{"package":"example.org/m/p","name":"NAME"}]}`
	for _, c := range []struct {
		name  string
		files map[string]string
		also  []string
		ok    bool
		want  []string
	}{
		{"good", map[string]string{"p/p_test.go": passing}, nil, true,
			[]string{"ok    example.org/m/p", "skip  example.org/m/p TestGPUTwo: p_test.go:4: no device",
				"no recorded run", "\n1 passed, 0 failed, 1 skipped\n"}},
		{"unlisted skip", map[string]string{"p/p_test.go": strings.ReplaceAll(passing, "TestGPUTwo", "TestTwo")}, nil,
			false,
			[]string{"TestTwo was skipped (p_test.go:4: no device)", "\n1 passed, 0 failed, 1 skipped\n"}},
		{"failure", map[string]string{"p/p_test.go": "package p\nimport \"testing\"\nfunc TestBad(t *testing.T) { " +
			"t.Error(\"the cause\") }\n"}, nil, false,
			[]string{"the cause", "error: example.org/m/p failed", "\n0 passed, 1 failed, 0 skipped\n"}},
		{"failure among others", map[string]string{"p/p_test.go": unsteadily("t.Run(\"sub\", func(t *testing.T) { " +
			"t.Error(\"once\") })")}, nil, true,
			[]string{"once", "again example.org/m/p TestOnce: 10 runs in 4 concurrent copies",
				"flaky example.org/m/p TestOnce", "\n1 passed, 0 failed, 0 skipped, 1 flaky\n"}},
		{"failure in the last of ten further runs", map[string]string{"p/p_test.go": counted("n == 0 || n == 10")}, nil,
			false,
			[]string{"run 10 is bad", "again example.org/m/p TestCounted: ", " runs of a copy passed: exit status 1",
				"error: example.org/m/p failed", "\n0 passed, 1 failed, 0 skipped\n"}},
		{"skipped when run again", map[string]string{"p/p_test.go": unsteadily("t.Error(1)", "t.Skip()")}, nil, false,
			[]string{"0 of 3 runs of a copy passed"}},
		{"one of two failures again", map[string]string{"p/p_test.go": unsteadily("t.Error(1)"),
			"q/q_test.go": counted("true")}, nil, false,
			[]string{"flaky example.org/m/p TestOnce", "error: example.org/m/q failed",
				"\n1 passed, 1 failed, 0 skipped, 1 flaky\n"}},
		{"many subtests", map[string]string{"p/p_test.go": unsteadily("for range 4 { t.Run(\"sub\", func(t " +
			"*testing.T) { t.Error(1) }) }")}, nil, false,
			[]string{"\n1 passed, 5 failed, 0 skipped\n"}},
		{"panic among others", map[string]string{"p/p_test.go": unsteadily("panic(1)")}, nil, false,
			[]string{"error: example.org/m/p failed", " 1 failed, "}},
		{"words of the race detector", map[string]string{"p/p_test.go": unsteadily("t.Error(\"WARNING: DATA RACE\")")},
			nil, false, []string{"\n1 passed, 1 failed, 0 skipped\n"}},
		{"words of the race detector about another test",
			map[string]string{"p/p_test.go": unsteadily("t.Error(\"race detected during execution of test\")")}, nil,
			false,
			[]string{"\n1 passed, 1 failed, 0 skipped\n"}},
		{"words of leak.Check about the system",
			map[string]string{"p/p_test.go": unsteadily("t.Fatal(\"leak: open /proc/self/fd: too many open files\")")},
			nil, false,
			[]string{"\n1 passed, 1 failed, 0 skipped\n"}},
		{"words of leak.Check", map[string]string{"p/p_test.go": unsteadily("t.Error(\"leak: left behind: 1 " +
			"goroutines\")")}, nil, false,
			[]string{"\n1 passed, 1 failed, 0 skipped\n"}},
		{"failure among others, and a leak at the end", map[string]string{"p/p_test.go": unsteadily("t.Error(1)"),
			"p/main_test.go": "package p\nimport (\"fmt\"; \"os\"; \"testing\")\nfunc TestMain(m *testing.M) { c := " +
				"m.Run(); if c != 0 { fmt.Println(\"leak after all tests of the package: left behind: 1 " +
				"goroutines\") }; os.Exit(c) }\n"},
			nil, false, []string{"error: example.org/m/p failed", " 1 failed, "}},
		{"failure among others, and a leak elsewhere", map[string]string{"p/p_test.go": unsteadily("t.Error(1)"),
			"q/q_test.go": "package q\nimport (\"os\"; \"testing\")\nfunc TestMain(m *testing.M) { m.Run(); " +
				"os.Exit(1) }\nfunc TestGood(t *testing.T) {}\n"}, nil, false,
			[]string{"error: example.org/m/p failed", "error: example.org/m/q failed"}},
		{"does not compile", map[string]string{"p/p_test.go": "package p\nfunc f() { undefinedThing() }\n"}, nil, false,
			[]string{"undefinedThing", "error: example.org/m/p failed"}},
		{"no tests", map[string]string{"p/p.go": "package p\n"}, nil, false, []string{"no test ran"}},
		{"gpu test not in the record", map[string]string{"p/p_test.go": passing,
			"docs/gpu-run.json": strings.ReplaceAll(record, "NAME", "TestGPUOld")}, nil, false,
			[]string{"docs/gpu-run.json: TestGPUTwo (p/p_test.go) is missing"}},
		{"gpu test in the record", map[string]string{"p/p_test.go": passing,
			"docs/gpu-run.json": strings.ReplaceAll(record, "NAME", "TestGPUTwo")}, nil, true,
			[]string{"stale example.org/m/p: TestGPUTwo\n", "the sources of 1 of 1 GPU tests have changed",
				"\n1 passed, 0 failed, 1 skipped\n"}},
		{"also with a tag", map[string]string{"p/p_test.go": passing, "p/t_test.go": "//go:build strict\n\npackage " +
			"p\nimport \"testing\"\nfunc TestStrict(t *testing.T) { t.Error(\"only strict\") }\n"},
			[]string{"strict=./p/...", "strict=./nothere/..."}, false,
			[]string{"only strict", "./nothere/...: no such folder", "2 passed, 1 failed, 2 skipped"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			module(t, c.files)
			ok, out := testRun(t, options{also: c.also})
			if ok != c.ok {
				t.Errorf("ok = %t, want %t", ok, c.ok)
			}
			for _, s := range c.want {
				if !strings.Contains(out, s) {
					t.Errorf("output lacks %q", s)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}
