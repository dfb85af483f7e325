package main

import (
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

func TestLedger(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "runs.json")
	day := func(n int) time.Time { return time.Date(2026, 1, n, 0, 0, 0, 0, time.UTC) }
	for _, c := range []struct {
		name   string
		steady int // runs between the two
		want   int
	}{
		{"next run", 0, 1}, {"tenth run", 8, 1}, {"eleventh run", 9, 0},
	} {
		l := new(ledger)
		if p := l.add(ledgerRun{Time: day(1), Unsteady: []string{"m/p TestA"}}); len(p) != 0 {
			t.Errorf("%s: the first time: %q", c.name, p)
		}
		for i := range c.steady {
			if p := l.add(ledgerRun{Time: day(2 + i), Unsteady: []string{"m/q TestA"}[:min(1, max(0, 1-i))]}); len(
				p) != 0 {
				t.Errorf("%s: another test: %q", c.name, p)
			}
		}
		if p := l.add(ledgerRun{Time: day(20), Unsteady: []string{"m/p TestA"}}); len(p) != c.want {
			t.Errorf("%s: problems %q, want %d", c.name, p, c.want)
		}
		if err := l.save(file); err != nil {
			t.Fatal(err)
		}
		got, err := loadLedger(file)
		if err != nil || len(got.Runs) != min(c.steady+2, ledgerRuns) ||
			!reflect.DeepEqual(got.Runs[len(got.Runs)-1], l.Runs[len(l.Runs)-1]) {
			t.Errorf("%s: loaded %+v, %v; want %+v", c.name, got, err, l)
		}
	}
}
