package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func listOf(t *testing.T, text string) (*skipList, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "skips.txt")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return loadSkips(file, "m")
}

func TestSkipListRefuses(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"ucx TestX\n", "want `package test reason`"},
		{"\n# fine\nucx TestX flaky on Tuesdays\n", ":3: reason"},
	} {
		if _, err := listOf(t, c.text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want one with %q", c.text, err, c.want)
		}
	}
	if l, err := loadSkips(filepath.Join(t.TempDir(), "none"), "m"); err != nil || len(l.entries) != 0 {
		t.Errorf("no file: %v, %v; want an empty list", l, err)
	}
}

func TestSkipListFind(t *testing.T) {
	l, err := listOf(t, "* TestGPU* GPU: none\nucx TestVerbs RDMA: none\nucx TestMix/ib RDMA: none\n. TestRoot "+
		"GPU: none\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		pkg, test string
		want      bool
	}{
		{"m/cuda", "TestGPUCopy", true},
		{"m/a/b/c", "TestGPUCopy/deep/er", true},
		{"m/ucx", "TestVerbs", true},
		{"m/ucx", "TestVerbs/sub", true},
		{"m/ucx/inner", "TestVerbs", false},
		{"m/ucx", "TestVerbsMore", false},
		{"m/ucx", "TestMix/ib", true},
		{"m/ucx", "TestMix/tcp", false},
		{"m", "TestRoot", true},
		{"m/ucx", "TestOther/TestGPU", false},
	} {
		if got := l.find(c.pkg, c.test) != nil; got != c.want {
			t.Errorf("find(%s, %s) = %t, want %t", c.pkg, c.test, got, c.want)
		}
	}
}

func TestSkipListCheck(t *testing.T) {
	l, err := listOf(t, "* TestGPU* GPU: none\nucx TestVerbs RDMA: none\nucx TestGone RDMA: none\n")
	if err != nil {
		t.Fatal(err)
	}
	r := newResults(io.Discard)
	for _, test := range []string{"TestVerbs", "TestSneaky", "TestFine"} {
		r.add(event{Action: "run", Package: "m/ucx", Test: test})
	}
	r.add(event{Action: "skip", Package: "m/ucx", Test: "TestSneaky"})
	r.add(event{Action: "skip", Package: "m/ucx", Test: "TestVerbs"})
	problems := strings.Join(l.check(r), "\n")
	for _, want := range []string{"TestSneaky was skipped (no reason given)", ":3: no test TestGone"} {
		if !strings.Contains(problems, want) {
			t.Errorf("problems lack %q:\n%s", want, problems)
		}
	}
	for _, not := range []string{"TestVerbs", "TestGPU", "TestFine"} {
		if strings.Contains(problems, not) {
			t.Errorf("problems name %s:\n%s", not, problems)
		}
	}
}

// TestTreeSkipList keeps the real list readable by the program that reads it.
func TestTreeSkipList(t *testing.T) {
	l, err := loadSkips("../../../tests/skips.txt", "go.millstream.dev")
	if err != nil {
		t.Fatal(err)
	}
	if len(l.entries) == 0 {
		t.Error("the list is empty; if it is meant to be, remove this test")
	}
}
