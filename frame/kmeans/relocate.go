package kmeans

import (
	"cmp"
	"context"
	"slices"

	"go.millstream.dev/internal/lloyd"
)

// far is a row and its distance from its centre.
type far struct {
	distance       float64
	partition, row int
}

// relocate gives each centre that has lost all its rows the row that is farthest from its own
// centre, as scikit-learn does: sums and counts are changed, labels are not.
func (f *fitter[T]) relocate(ctx context.Context, centres []T, sums, counts []float64) error {
	var empty []int
	for c, n := range counts {
		if n == 0 {
			empty = append(empty, c)
		}
	}
	if len(empty) == 0 {
		return nil
	}
	// The farthest rows of every rank, in one table.
	rank, size := f.w.rank()
	table := make([]float64, 3*size*len(empty))
	for i, x := range f.farthest(centres, len(empty)) {
		copy(table[3*(rank*len(empty)+i):], []float64{x.distance, float64(x.partition), float64(x.row)})
	}
	if err := f.w.sum(ctx, table); err != nil {
		return err
	}
	var all []far
	for i := 0; i < len(table); i += 3 {
		if table[i] > 0 { // a row at its centre helps nobody
			all = append(all, far{table[i], int(table[i+1]), int(table[i+2])})
		}
	}
	slices.SortFunc(all, byDistance)
	all = all[:min(len(all), len(empty))]
	// Who has a row tells its coordinates and its label.
	rows := make([]float64, len(all)*(f.d+1))
	for i, x := range all {
		for _, p := range f.parts {
			if p.index != x.partition {
				continue
			}
			row := rows[i*(f.d+1):]
			for j, c := range p.columns {
				row[j] = float64(c[x.row]) - float64(f.shift[j])
			}
			row[f.d] = float64(p.labels[x.row])
		}
	}
	if len(rows) == 0 {
		return nil
	}
	if err := f.w.sum(ctx, rows); err != nil {
		return err
	}
	for i := range all {
		row := rows[i*(f.d+1):]
		to, from := empty[i], int(row[f.d])
		for j := range f.d {
			sums[to*f.d+j] = row[j]
			sums[from*f.d+j] -= row[j]
		}
		counts[to] = 1
		counts[from]--
	}
	return nil
}

func byDistance(x, y far) int {
	return cmp.Or(cmp.Compare(y.distance, x.distance), cmp.Compare(x.partition, y.partition), cmp.Compare(x.row, y.row))
}

// farthest are the n rows of this rank that are farthest from the centres of their labels.
func (f *fitter[T]) farthest(centres []T, n int) []far {
	var all []far
	for _, p := range f.parts {
		// The distances to the centres of the labels: one centre after the other.
		best := make([]float64, p.rows())
		one := make([]float64, p.rows())
		for c := range f.p.K {
			lloyd.Distances(p.columns, centres[c*f.d:(c+1)*f.d], one)
			for i, l := range p.labels {
				if int(l) == c {
					best[i] = one[i]
				}
			}
		}
		for i, e := range best {
			if x := (far{e, p.index, i}); len(all) < n || byDistance(x, all[len(all)-1]) < 0 {
				at, _ := slices.BinarySearchFunc(all, x, byDistance)
				all = slices.Insert(all, at, x)[:min(n, len(all)+1)]
			}
		}
	}
	return all
}
