package main

import (
	"fmt"
	"math"
	"slices"

	"go.millstream.dev/internal/bench/series"
)

const (
	history = 10   // runs that the last one is compared with
	least   = 3    // runs that are needed for a comparison
	floor   = 0.10 // change that is never reported, as a fraction
	spreads = 4    // spreads of the earlier runs that are noise
)

// change is a figure of the last run that differs from the earlier ones by more than their noise.
type change struct {
	name        string
	now, before float64 // ratios; before is the median
	noise       float64 // fraction
	worse       bool
}

func (c change) String() string {
	kind := "better"
	if c.worse {
		kind = "worse"
	}
	return fmt.Sprintf("%s: %s: ratio %.3g, before %.3g (%+.0f%%, noise %.0f%%)", kind, c.name, c.now, c.before,
		100*(c.now/c.before-1), 100*c.noise)
}

// compare compares the last run with earlier ones of the same machine. compared is the number of figures that have
// enough of them.
func compare(runs []series.Run) (changes []change, compared int) {
	if len(runs) == 0 {
		return nil, 0
	}
	last := runs[len(runs)-1]
	earlier := map[string][]float64{}
	for _, r := range slices.Backward(runs[:len(runs)-1]) {
		if r.Machine != last.Machine {
			continue
		}
		for _, f := range r.Figures {
			if name := f.Name(); len(earlier[name]) < history {
				earlier[name] = append(earlier[name], f.Ratio)
			}
		}
	}
	for _, f := range last.Figures {
		before := earlier[f.Name()]
		if len(before) < least {
			continue
		}
		compared++
		m := median(before)
		distances := make([]float64, len(before))
		for i, v := range before {
			distances[i] = math.Abs(v-m) / m
		}
		noise := max(floor, spreads*median(distances))
		if d := f.Ratio/m - 1; math.Abs(d) > noise {
			changes = append(changes, change{f.Name(), f.Ratio, m, noise, (d > 0) == (f.Better == "lower")})
		}
	}
	return changes, compared
}

// median returns the middle of the values, which are not changed.
func median(values []float64) float64 {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	if n%2 == 1 {
		return v[n/2]
	}
	return (v[n/2-1] + v[n/2]) / 2
}
