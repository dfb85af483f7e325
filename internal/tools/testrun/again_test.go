package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestStressSideBySide: each process of the further runs waits for the other three.
func TestStressSideBySide(t *testing.T) {
	module(t, map[string]string{"p/p_test.go": unsteadily("t.Error(1)", `
		os.WriteFile(fmt.Sprint("process-", os.Getpid()), nil, 0o644)
		for end := time.Now().Add(40 * time.Second); ; time.Sleep(time.Millisecond) {
			m, _ := filepath.Glob("process-*")
			if len(m) == 4 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("processes at once: %d, want 4", len(m))
			}
		}`)})
	text, err := os.ReadFile("p/p_test.go")
	if err != nil {
		t.Fatal(err)
	}
	imports := strings.Replace(string(text), `"os"; `, `"fmt"; "os"; "path/filepath"; "time"; `, 1)
	if err := os.WriteFile("p/p_test.go", []byte(imports), 0o644); err != nil {
		t.Fatal(err)
	}
	if ok, out := testRun(t, options{}); !ok {
		t.Errorf("run = false, want true:\n%s", out)
	}
}

// TestAgainArguments: arguments of go test leave no second chance.
func TestAgainArguments(t *testing.T) {
	module(t, map[string]string{"p/p_test.go": unsteadily("t.Error(1)")})
	if ok, out := testRun(t, options{args: []string{"-short"}}); ok || strings.Contains(out, "again") {
		t.Errorf("run = %t, want false and no further run:\n%s", ok, out)
	}
}

// TestShuffle: a seed gives an order, which is not that of the source, and a failure names the seed.
func TestShuffle(t *testing.T) {
	var text strings.Builder
	text.WriteString("package p\nimport (\"os\"; \"testing\")\nfunc note(t *testing.T) {\n" +
		"f, _ := os.OpenFile(\"../order\", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)\nf.WriteString(t.Name() + " +
		"\"\\n\")\nf.Close()\n}\n")
	for _, name := range []string{"A", "B", "C", "D", "E", "F", "G", "H"} {
		text.WriteString("func Test" + name + "(t *testing.T) { note(t) }\n")
	}
	text.WriteString("func TestPanic(t *testing.T) { t.Error(\"panic: no second chance\") }\n")
	module(t, map[string]string{"p/p_test.go": text.String()})
	var orders []string
	for _, seed := range []string{"7", "7", "8"} {
		ok, out := testRun(t, options{shuffle: seed})
		if want := "scripts/in-env go test -count=1 -shuffle=" + seed + " example.org/m/p\n"; ok ||
			!strings.Contains(out, want) {
			t.Errorf("run = %t, want false and %q:\n%s", ok, want, out)
		}
		order, err := os.ReadFile("order")
		if err != nil {
			t.Fatal(err)
		}
		orders = append(orders, string(order))
		if err := os.Remove("order"); err != nil {
			t.Fatal(err)
		}
	}
	if orders[0] != orders[1] || orders[0] == orders[2] || slices.IsSorted(strings.Fields(orders[0])) {
		t.Errorf("orders of the seeds 7, 7, 8: %q", orders)
	}
}

func TestFailureCount(t *testing.T) {
	for _, c := range []struct {
		names []string
		want  int
	}{
		{[]string{"TestA"}, 1},
		{[]string{"TestA/x", "TestA"}, 1},
		{[]string{"TestA/x/1", "TestA/x", "TestA/y", "TestA/xx", "TestA"}, 3},
	} {
		r := newResults(os.Stdout)
		for _, name := range c.names {
			r.noteFailure("m/p", name, nil)
		}
		if len(r.failures) != 1 || r.failures[0].count() != c.want || r.failures[0].events != len(c.names) {
			t.Errorf("%v: %d failures of %d tests, want 1 of %d", c.names, len(r.failures), r.failures[0].count(),
				c.want)
		}
	}
}

// TestLedgerOfRuns: the second run in which a test is unsteady fails, unless it is of one package alone.
func TestLedgerOfRuns(t *testing.T) {
	module(t, map[string]string{"p/p_test.go": unsteadily("t.Error(1)"), "q/q_test.go": passing})
	file := filepath.Join("state", "runs.json")
	unsteadyRun := func(packages ...string) (bool, string) {
		if err := os.RemoveAll("p/been-here"); err != nil {
			t.Fatal(err)
		}
		return testRun(t, options{ledger: file, packages: packages, shuffle: "3"})
	}
	if ok, out := unsteadyRun("./p"); !ok || exists(file) {
		t.Errorf("one package: run = %t, ledger written: %t; want true, false\n%s", ok, exists(file), out)
	}
	if ok, out := unsteadyRun(); !ok {
		t.Errorf("first run: false, want true\n%s", out)
	}
	if ok, out := testRun(t, options{ledger: file}); !ok {
		t.Errorf("steady run: false, want true\n%s", out)
	}
	ok, out := unsteadyRun()
	if ok || !strings.Contains(out, "error: example.org/m/p TestOnce is flaky again") {
		t.Errorf("third run: %t, want false and the test\n%s", ok, out)
	}
	l, err := loadLedger(file)
	if err != nil || len(l.Runs) != 3 || l.Runs[0].Seed != "3" || len(l.Runs[0].Unsteady) != 1 ||
		len(l.Runs[1].Unsteady) != 0 {
		t.Errorf("ledger %+v, %v; want three runs, the first and the third with a test", l, err)
	}
	if err := os.WriteFile(file, []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t.Context(), options{ledger: file}, os.Stdout); err == nil ||
		!strings.Contains(err.Error(), file) {
		t.Errorf("half a ledger: error %v, want one that names %s", err, file)
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
