package lloydfit

import (
	"context"
	"math"
)

// plusPlus chooses the initial centers by greedy k-means++, with the random numbers and the rule of scikit-learn. Every
// rank draws the same numbers.
func (f *fitter) plusPlus(ctx context.Context, counts []float64) error {
	random := newMT19937(f.p.Seed)
	trials := 2 + int(math.Log(float64(f.p.K)))
	f.centers = make([]float64, f.p.K*f.d)
	// The first is any row.
	at := int64(random.float() * float64(f.rows))
	first := make([]float64, f.d)
	for p, n := range counts {
		if at >= int64(n) {
			at -= int64(n)
			continue
		}
		if err := f.row(ctx, p, int(at), first); err != nil {
			return err
		}
		break
	}
	if err := f.w.Sum(ctx, first); err != nil {
		return err
	}
	copy(f.centers, first)
	near, err := f.e.seeds(ctx, cast(f.e, first), trials)
	if err != nil {
		return err
	}
	defer near.close()
	for c := 1; c < f.p.K; c++ {
		// The share of each partition in the potential: the table of a search.
		pots := make([]float64, f.total)
		if err := near.potentials(ctx, pots); err != nil {
			return err
		}
		if err := f.w.Sum(ctx, pots); err != nil {
			return err
		}
		var pot float64
		for _, e := range pots {
			pot += e
		}
		if err := f.finite(ctx, pot); err != nil {
			return err
		}
		candidates := make([]float64, trials*f.d)
		for t := range trials {
			if err := f.candidate(ctx, near, random.float()*pot, pots, candidates[t*f.d:(t+1)*f.d]); err != nil {
				return err
			}
		}
		if err := f.w.Sum(ctx, candidates); err != nil {
			return err
		}
		left := make([]float64, trials)
		if err := near.try(ctx, cast(f.e, candidates), left); err != nil {
			return err
		}
		if err := f.w.Sum(ctx, left); err != nil {
			return err
		}
		best := 0
		for t, e := range left {
			if e < left[best] {
				best = t
			}
		}
		near.keep(best)
		copy(f.centers[c*f.d:], candidates[best*f.d:(best+1)*f.d])
	}
	return nil
}

// row sets out to a row, on the rank that has it.
func (f *fitter) row(ctx context.Context, partition, row int, out []float64) error {
	if !f.has(partition) {
		return nil
	}
	_, err := f.e.row(ctx, partition, row, out)
	return err
}

// candidate sets out to the row at which the potential, summed through all partitions, reaches a value; on the rank
// that has it.
func (f *fitter) candidate(ctx context.Context, near seeds, value float64, pots, out []float64) error {
	last := len(pots) - 1
	for last > 0 && pots[last] == 0 {
		last--
	}
	for partition, pot := range pots {
		if value > pot && partition < last {
			value -= pot
			continue
		}
		for _, p := range f.e.partitions() {
			if p.index != partition || p.rows == 0 {
				continue
			}
			row, err := near.find(ctx, partition, value)
			if err != nil {
				return err
			}
			return f.row(ctx, partition, row, out)
		}
		return nil
	}
	return nil
}
