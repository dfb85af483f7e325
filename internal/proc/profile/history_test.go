package profile

import (
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

func at(seconds float64) *float64 { return &seconds }

// Cycles are selected by time as in Dask: those that end within the range, and the one that contains its end.
func TestHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := NewHistory(time.Second, 0)
		begin := float64(time.Now().Unix())
		for i := range 4 { // cycles from i to i+1
			h.Add(time.Now(), "inc", stackOf("f"), int64(math.Pow10(i)))
			time.Sleep(time.Second / 2)
			h.Add(time.Now(), "dec", stackOf("f", "g"), 5*int64(math.Pow10(i)))
			time.Sleep(time.Second / 2)
		}
		h.Add(time.Now(), "inc", stackOf("f"), 10_000)
		inc, none := "inc", "none"
		for _, c := range []struct {
			q    Query
			want int64
		}{
			{Query{}, 16666},
			{Query{Key: &inc}, 11111},
			{Query{Key: &none}, 0},
			{Query{Start: at(begin + 2)}, 16660},
			{Query{Start: at(begin + 2.5)}, 16600},
			{Query{Stop: at(begin + 1.5)}, 66},
			{Query{Start: at(begin + 2), Stop: at(begin + 2.5)}, 660},
			{Query{Start: at(begin + 100)}, 0},
			{Query{Stop: at(begin - 1)}, 0},
			{Query{Start: at(begin + 2), Key: &inc}, 11110},
		} {
			var tree Tree
			h.AddTo(&tree, c.q)
			if tree.Count() != c.want {
				t.Errorf("%+v: got %d, want %d", c.q, tree.Count(), c.want)
			}
		}
		counts := h.Counts(begin+1.5, nil)
		var got string
		for _, c := range counts {
			got += fmt.Sprint(c.Time-begin, " ", c.Count, " ", c.Keys, "; ")
		}
		if want := "2 60 map[dec:50 inc:10]; 3 600 map[dec:500 inc:100]; 4 6000 map[dec:5000 inc:1000]; " +
			"4 10000 map[inc:10000]; "; got != want {
			t.Errorf("counts: got %s, want %s", got, want)
		}
		if got := h.Counts(0, at(begin+2.5)); len(got) != 2 {
			t.Errorf("counts until 2.5: got %v, want two cycles", got)
		}
	})
}

// A history keeps a bounded number of cycles, nodes and prefixes.
func TestHistoryBounds(t *testing.T) {
	now := time.Unix(1e9, 0)
	h := NewHistory(time.Second, 10)
	for i := range 25 {
		h.Add(now.Add(time.Duration(i)*time.Second), "p", stackOf("f"), 1)
	}
	if len(h.past) != 10 {
		t.Errorf("cycles: got %d, want 10", len(h.past))
	}
	big := NewHistory(time.Second, 0)
	for i := range 30 {
		for j := range 5000 {
			big.Add(now.Add(time.Duration(i)*time.Second), "p", stackOf(fmt.Sprint("f", j)), 1)
		}
	}
	if big.nodes > historyNodes || len(big.past) == 0 {
		t.Errorf("nodes: got %d in %d cycles, want at most %d", big.nodes, len(big.past), historyNodes)
	}
	many := NewHistory(time.Hour, 0)
	for i := range 2 * maxPrefixes {
		many.Add(now, fmt.Sprint("p", i), stackOf("f"), 1)
	}
	if n := many.recent.trees[others].Count(); len(many.recent.trees) != maxPrefixes+1 || n != maxPrefixes {
		t.Errorf("prefixes: got %d, %d of others, want %d and %d", len(many.recent.trees), n, maxPrefixes+1,
			maxPrefixes)
	}
	back := NewHistory(time.Second, 0) // a clock that is set back
	back.Add(now, "p", stackOf("f"), 1)
	back.Add(now.Add(-time.Hour), "p", stackOf("f"), 1)
	if len(back.past) != 1 {
		t.Errorf("clock set back: got %d past cycles, want 1", len(back.past))
	}
}
