package lloydfit

import (
	"cmp"
	"context"
	"slices"
)

// relocate moves each center without rows to the row that is farthest from its own center, as scikit-learn does: it
// changes sums and counts, but not labels.
func (f *fitter) relocate(ctx context.Context, centers []float64, sums, counts []float64) error {
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
	rank, size := f.w.Rank()
	table := make([]float64, 3*size*len(empty))
	farthest, err := f.e.farthest(ctx, centers, len(empty))
	if err != nil {
		return err
	}
	for i, x := range farthest {
		copy(table[3*(rank*len(empty)+i):], []float64{x.distance, float64(x.partition), float64(x.row)})
	}
	if err := f.w.Sum(ctx, table); err != nil {
		return err
	}
	var all []far
	for i := 0; i < len(table); i += 3 {
		if table[i] > 0 { // a row at its center is no alternative
			all = append(all, far{table[i], int(table[i+1]), int(table[i+2])})
		}
	}
	slices.SortFunc(all, byDistance)
	all = all[:min(len(all), len(empty))]
	// The rank that has a row sends its coordinates and its label.
	rows := make([]float64, len(all)*(f.d+1))
	for i, x := range all {
		if !f.has(x.partition) {
			continue
		}
		row := rows[i*(f.d+1):]
		label, err := f.e.row(ctx, x.partition, x.row, row[:f.d])
		if err != nil {
			return err
		}
		for j := range f.d {
			row[j] -= f.shift[j]
		}
		row[f.d] = float64(label)
	}
	if len(rows) == 0 {
		return nil
	}
	if err := f.w.Sum(ctx, rows); err != nil {
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

// has reports whether a partition belongs to this rank.
func (f *fitter) has(partition int) bool {
	for _, p := range f.e.partitions() {
		if p.index == partition {
			return true
		}
	}
	return false
}

// among inserts a row into a list of the n farthest.
func among(all []far, x far, n int) []far {
	if len(all) == n && byDistance(x, all[n-1]) >= 0 {
		return all
	}
	at, _ := slices.BinarySearchFunc(all, x, byDistance)
	return slices.Insert(all, at, x)[:min(n, len(all)+1)]
}
