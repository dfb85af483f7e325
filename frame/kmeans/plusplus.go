package kmeans

import (
	"context"
	"math"

	"go.millstream.dev/internal/lloyd"
)

// plusPlus chooses the initial centres by greedy k-means++, with the draws and the rule of
// scikit-learn's. Every rank draws the same numbers.
func (f *fitter[T]) plusPlus(ctx context.Context, counts []float64) error {
	random := newMT19937(f.p.Seed)
	trials := 2 + int(math.Log(float64(f.p.K)))
	f.centres = make([]float64, f.p.K*f.d)
	// The first is any row.
	at := int64(random.float() * float64(f.rows))
	first := make([]float64, f.d)
	for p, n := range counts {
		if at < int64(n) {
			f.row(p, int(at), first)
			break
		}
		at -= int64(n)
	}
	if err := f.w.sum(ctx, first); err != nil {
		return err
	}
	copy(f.centres, first)
	closest := make([][]float64, len(f.parts)) // squared distances to the nearest centre so far
	for i, p := range f.parts {
		closest[i] = make([]float64, p.rows())
		f.distances(p, first, closest[i])
	}
	tried := make([][][]float64, trials)
	for t := range tried {
		tried[t] = make([][]float64, len(f.parts))
		for i, p := range f.parts {
			tried[t][i] = make([]float64, p.rows())
		}
	}
	for c := 1; c < f.p.K; c++ {
		// How much of the potential each partition has: the table of a search.
		pots := make([]float64, f.total)
		for i, p := range f.parts {
			for _, e := range closest[i] {
				pots[p.index] += e
			}
		}
		if err := f.w.sum(ctx, pots); err != nil {
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
			f.candidate(random.float()*pot, pots, closest, candidates[t*f.d:(t+1)*f.d])
		}
		if err := f.w.sum(ctx, candidates); err != nil {
			return err
		}
		left := make([]float64, trials)
		for t := range trials {
			for i, p := range f.parts {
				f.distances(p, candidates[t*f.d:(t+1)*f.d], tried[t][i])
				for r, e := range tried[t][i] {
					tried[t][i][r] = min(e, closest[i][r])
					left[t] += tried[t][i][r]
				}
			}
		}
		if err := f.w.sum(ctx, left); err != nil {
			return err
		}
		best := 0
		for t, e := range left {
			if e < left[best] {
				best = t
			}
		}
		closest, tried[best] = tried[best], closest
		copy(f.centres[c*f.d:], candidates[best*f.d:(best+1)*f.d])
	}
	return nil
}

// row sets out to a row, on the rank that has it.
func (f *fitter[T]) row(partition, row int, out []float64) {
	for _, p := range f.parts {
		if p.index == partition {
			for j, c := range p.columns {
				out[j] = float64(c[row])
			}
		}
	}
}

func (f *fitter[T]) distances(p *part[T], point, out []float64) {
	at := make([]T, len(point))
	for j, x := range point {
		at[j] = T(x)
	}
	lloyd.Distances(p.columns, at, out)
}

// candidate sets out to the row at which the potential, added up through all partitions,
// reaches a value; on the rank that has it.
func (f *fitter[T]) candidate(value float64, pots []float64, closest [][]float64, out []float64) {
	last := len(pots) - 1
	for last > 0 && pots[last] == 0 {
		last--
	}
	for partition, pot := range pots {
		if value > pot && partition < last {
			value -= pot
			continue
		}
		for i, p := range f.parts {
			if p.index != partition || p.rows() == 0 {
				continue
			}
			row, sum := p.rows()-1, 0.0
			for r, e := range closest[i] {
				if sum += e; sum >= value {
					row = r
					break
				}
			}
			f.row(partition, row, out)
		}
		return
	}
}
