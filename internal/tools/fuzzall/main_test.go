package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRun lets a script stand in for the go command: a real fuzz run rebuilds the standard library, and
// what is tested here is which targets are run and what becomes of their verdicts.
func TestRun(t *testing.T) {
	dir, bin := t.TempDir(), t.TempDir()
	for name, text := range map[string]string{
		dir + "/go.mod": "module example.org/m\n\ngo 1.26\n",
		dir + "/a_test.go": "package m\nimport \"testing\"\nfunc FuzzGood(f *testing.F) {}\nfunc FuzzBad(f " +
			"*testing.F) {}\n",
		dir + "/b_test.go": "package m\nimport \"testing\"\nfunc FuzzGoodToo(f *testing.F) {}\nfunc TestFuzz(t " +
			"*testing.T) {}\n",
		bin + "/go": "#!/bin/sh\necho \"$PWD $*\" >> " + bin +
			"/log\ncase \"$*\" in *FuzzBad*) exit 1 ;; esac\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	t.Chdir(dir)
	ran := func() string {
		log, err := os.ReadFile(filepath.Join(bin, "log"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(bin, "log")); err != nil {
			t.Fatal(err)
		}
		return string(log)
	}

	if err := run(t.Context(), 90*time.Second, `m\.FuzzGood$`); err != nil {
		t.Errorf("good target: %v", err)
	}
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := ran(), real+" test -run=^$ -fuzz=^FuzzGood$ -fuzztime=1m30s example.org/m\n"; got != want {
		t.Errorf("ran %q, want %q", got, want)
	}
	err = run(t.Context(), time.Second, "")
	if err == nil || !strings.Contains(err.Error(), "1 of 3 targets failed: example.org/m.FuzzBad") {
		t.Errorf("bad target: error %v", err)
	}
	if n := strings.Count(ran(), "\n"); n != 3 {
		t.Errorf("%d targets ran, want all 3: one that fails must not hide the others", n)
	}
	if err := run(t.Context(), time.Second, "nothing"); err == nil {
		t.Error("no target: want an error")
	}
	if err := run(t.Context(), time.Second, "("); err == nil {
		t.Error("bad pattern: want an error")
	}
}
