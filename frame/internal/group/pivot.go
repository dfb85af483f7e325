package group

import (
	"math/bits"
	"slices"
)

// pivot reorders values so that the one at a number is where it would be in order, with none greater before it and
// none less after it.
func pivot(v []uint64, at int) {
	for tries := 2 * bits.Len(uint(len(v))); len(v) > 24; tries-- {
		if tries == 0 {
			break // values that are chosen to be slow
		}
		p := middle(v)
		// Less than p, then equal to p, then greater.
		lo, hi := partition(v, p)
		switch {
		case at < lo:
			v = v[:lo]
		case at >= hi:
			v, at = v[hi:], at-hi
		default:
			return
		}
	}
	slices.Sort(v)
}

// middle returns a value near the median: that of nine, or of three.
func middle(v []uint64) uint64 {
	n := len(v)
	if n < 200 {
		return median3(v[0], v[n/2], v[n-1])
	}
	s := n / 8
	return median3(median3(v[0], v[s], v[2*s]), median3(v[3*s], v[4*s], v[5*s]), median3(v[6*s], v[7*s], v[n-1]))
}

func median3(a, b, c uint64) uint64 { return max(min(a, b), min(max(a, b), c)) }

// partition moves values less than p to the front and those greater than p to the end, and returns the range of those
// equal to p.
func partition(v []uint64, p uint64) (lo, hi int) {
	// The position is computed without a branch, because no branch could be predicted.
	n := 0
	for i, x := range v {
		v[i] = v[n]
		v[n] = x
		if x < p {
			n++
		}
	}
	lo, hi = n, n
	for i := n; i < len(v); i++ {
		x := v[i]
		if x == p {
			v[i] = v[hi]
			v[hi] = x
			hi++
		}
	}
	return lo, hi
}
