package benchfmt

import "slices"

// Rounds collects one number per round of an alternating run (ours, theirs,
// ours, theirs …). The best round stands for what the program can do on a
// machine that others share; the median shows how far that is from usual.
type Rounds struct {
	Better Better
	values []float64
}

// Add records the number of one round.
func (r *Rounds) Add(v float64) { r.values = append(r.values, v) }

// Len is the number of rounds recorded.
func (r *Rounds) Len() int { return len(r.values) }

// Best is the smallest number when lower is better, else the largest; 0
// without rounds.
func (r *Rounds) Best() float64 {
	switch {
	case len(r.values) == 0:
		return 0
	case r.Better == Higher:
		return slices.Max(r.values)
	default:
		return slices.Min(r.values)
	}
}

// Median is the middle number, or the mean of the two middle ones; 0 without
// rounds.
func (r *Rounds) Median() float64 {
	n := len(r.values)
	if n == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(r.values))
	if n%2 == 1 {
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}
