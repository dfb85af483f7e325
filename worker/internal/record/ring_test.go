package record

import (
	"slices"
	"sync"
	"testing"
)

func TestRing(t *testing.T) {
	for _, c := range []struct {
		limit, added int
		want         []int
	}{
		{3, 0, []int{}},
		{3, 2, []int{0, 1}},
		{3, 3, []int{0, 1, 2}},
		{3, 5, []int{2, 3, 4}},
		{3, 6, []int{3, 4, 5}},
		{0, 2, []int{1}},
		{-1, 2, []int{1}},
	} {
		r := NewRing[int](c.limit)
		for i := range c.added {
			r.Add(i)
		}
		if got := r.All(); !slices.Equal(got, c.want) {
			t.Errorf("%d values in a ring of %d: got %v, want %v", c.added, c.limit, got, c.want)
		}
	}
}

// The caller owns the result of All.
func TestRingCopies(t *testing.T) {
	r := NewRing[int](2)
	r.Add(1)
	r.All()[0] = 9
	if got := r.All()[0]; got != 1 {
		t.Errorf("got %d, want 1", got)
	}
}

func TestRingConcurrent(t *testing.T) {
	r := NewRing[int](10)
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 1000 {
				r.Add(i)
				if n := len(r.All()); n > 10 {
					t.Errorf("%d values in a ring of 10", n)
					return
				}
			}
		})
	}
	all.Wait()
}
