package main

import (
	"strings"
	"testing"
)

func TestLongestFirst(t *testing.T) {
	all, err := longestFirst(t.Context(), []string{"../../../...", "../../../bench/..."})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(all[0], "/"+longest[0]) {
		t.Errorf("%s comes first", all[0])
	}
	// A name that means no package is out of date, and one that means two is not clear.
	for i, name := range longest {
		n := 0
		for _, pkg := range all {
			if rank(pkg) == i {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%d packages are called %s", n, name)
		}
	}
	one, err := longestFirst(t.Context(), []string{"."})
	if err != nil || len(one) != 1 {
		t.Errorf("one package: %v, %v", one, err)
	}
}

func TestEnvironment(t *testing.T) {
	find := func() (value string) {
		for _, kv := range environment() {
			if v, ok := strings.CutPrefix(kv, "GORACE="); ok {
				value = v // the last one counts
			}
		}
		return value
	}
	t.Setenv("GORACE", "halt_on_error=1")
	if got := find(); got != "halt_on_error=1 atexit_sleep_ms=0" {
		t.Errorf("GORACE is %q", got)
	}
	t.Setenv("GORACE", "atexit_sleep_ms=500")
	if got := find(); got != "atexit_sleep_ms=500" {
		t.Errorf("GORACE is %q", got)
	}
}
