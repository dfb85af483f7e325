package benchfmt

import "slices"

// Rounds collects one number per round of an alternating run (ours, theirs, ours, theirs …). The best round shows what
// the program can do on a shared machine, the median how far that is from usual.
type Rounds struct {
	Better Better
	values []float64
}

// Add adds the number of one round.
func (r *Rounds) Add(v float64) { r.values = append(r.values, v) }

// Len returns the number of rounds.
func (r *Rounds) Len() int { return len(r.values) }

// Best returns the smallest number if lower is better, else the largest; 0 without rounds.
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

// Median returns the median; 0 without rounds.
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
