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

// unsteadily is a test that does something wrong the first time it is run, and another one.
func unsteadily(wrong string) string {
	return `package p
import ("os"; "testing")
func TestOnce(t *testing.T) {
	if _, err := os.Stat("been-here"); err != nil {
		os.WriteFile("been-here", nil, 0o644)
		` + wrong + `
	}
}
func TestGood(t *testing.T) {}
`
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
			[]string{"ok    example.org/m/p", "skip  example.org/m/p TestGPUTwo: p_test.go:4: no device", "no recorded run", "\n1 passed, 0 failed, 1 skipped\n"}},
		{"unlisted skip", map[string]string{"p/p_test.go": strings.ReplaceAll(passing, "TestGPUTwo", "TestTwo")}, nil, false,
			[]string{"TestTwo was skipped (p_test.go:4: no device)", "\n1 passed, 0 failed, 1 skipped\n"}},
		{"failure", map[string]string{"p/p_test.go": "package p\nimport \"testing\"\nfunc TestBad(t *testing.T) { t.Error(\"the cause\") }\n"}, nil, false,
			[]string{"the cause", "error: example.org/m/p failed", "\n0 passed, 1 failed, 0 skipped\n"}},
		{"failure among others", map[string]string{"p/p_test.go": unsteadily("t.Run(\"sub\", func(t *testing.T) { t.Error(\"once\") })")}, nil, true,
			[]string{"once", "again example.org/m/p TestOnce, by itself", "unsteady  example.org/m/p TestOnce", "\n1 passed, 0 failed, 0 skipped, 1 unsteady\n"}},
		{"panic among others", map[string]string{"p/p_test.go": unsteadily("panic(1)")}, nil, false, []string{"error: example.org/m/p failed", " 1 failed, "}},
		{"words of the race detector", map[string]string{"p/p_test.go": unsteadily("t.Error(\"WARNING: DATA RACE\")")}, nil, false, []string{"\n1 passed, 1 failed, 0 skipped\n"}},
		{"words of the race detector about another test", map[string]string{"p/p_test.go": unsteadily("t.Error(\"race detected during execution of test\")")}, nil, false,
			[]string{"\n1 passed, 1 failed, 0 skipped\n"}},
		{"words of leak.Check", map[string]string{"p/p_test.go": unsteadily("t.Error(\"leak: left behind: 1 goroutines\")")}, nil, false,
			[]string{"\n1 passed, 1 failed, 0 skipped\n"}},
		{"failure among others, and a leak at the end", map[string]string{"p/p_test.go": unsteadily("t.Error(1)"),
			"p/main_test.go": "package p\nimport (\"fmt\"; \"os\"; \"testing\")\nfunc TestMain(m *testing.M) { c := m.Run(); if c != 0 { fmt.Println(\"leak after all tests of the package: left behind: 1 goroutines\") }; os.Exit(c) }\n"},
			nil, false, []string{"error: example.org/m/p failed", " 1 failed, "}},
		{"failure among others, and a leak elsewhere", map[string]string{"p/p_test.go": unsteadily("t.Error(1)"),
			"q/q_test.go": "package q\nimport (\"os\"; \"testing\")\nfunc TestMain(m *testing.M) { m.Run(); os.Exit(1) }\nfunc TestGood(t *testing.T) {}\n"}, nil, false,
			[]string{"error: example.org/m/p failed", "error: example.org/m/q failed"}},
		{"does not compile", map[string]string{"p/p_test.go": "package p\nfunc f() { undefinedThing() }\n"}, nil, false,
			[]string{"undefinedThing", "error: example.org/m/p failed"}},
		{"no tests", map[string]string{"p/p.go": "package p\n"}, nil, false, []string{"no test ran at all"}},
		{"gpu test not in the record", map[string]string{"p/p_test.go": passing, "docs/gpu-run.json": strings.ReplaceAll(record, "NAME", "TestGPUOld")}, nil, false,
			[]string{"docs/gpu-run.json: TestGPUTwo (p/p_test.go) is missing"}},
		{"gpu test in the record", map[string]string{"p/p_test.go": passing, "docs/gpu-run.json": strings.ReplaceAll(record, "NAME", "TestGPUTwo")}, nil, true,
			[]string{"\n1 passed, 0 failed, 1 skipped\n"}},
		{"also with a tag", map[string]string{"p/p_test.go": passing, "p/t_test.go": "//go:build strict\n\npackage p\nimport \"testing\"\nfunc TestStrict(t *testing.T) { t.Error(\"only strict\") }\n"},
			[]string{"strict=./p/...", "strict=./nothere/..."}, false, []string{"only strict", "./nothere/...: no such folder", "2 passed, 1 failed, 2 skipped"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			c.files["go.mod"] = "module example.org/m\n\ngo 1.26\n"
			c.files["tests/skips.txt"] = "* TestGPU* GPU: none here\n"
			for name, text := range c.files {
				p := filepath.Join(dir, name)
				if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			t.Chdir(dir)
			var out bytes.Buffer
			ok, err := run(t.Context(), options{timeout: time.Minute, also: c.also, packages: []string{"./..."}, skips: "tests/skips.txt", gpu: "docs/gpu-run.json"}, &out)
			if err != nil {
				t.Fatal(err)
			}
			if ok != c.ok {
				t.Errorf("ok = %t, want %t", ok, c.ok)
			}
			for _, s := range c.want {
				if !strings.Contains(out.String(), s) {
					t.Errorf("output lacks %q", s)
				}
			}
			if t.Failed() {
				t.Log(out.String())
			}
		})
	}
}
