package lloydfit

import (
	"context"
	"fmt"
	"math"
)

// World combines numbers of all ranks. It is the part of a clique that the algorithm needs.
type World interface {
	// Sum adds the numbers of the ranks, in place; every rank calls it with the same count.
	Sum(ctx context.Context, v []float64) error
	// Min takes the minimum of each.
	Min(ctx context.Context, v []float64) error
	// Rank returns the number of this rank and that of ranks.
	Rank() (rank, size int)
}

// Params are the parameters of a fit, the same on all ranks.
type Params struct {
	K, MaxIter int
	Tol        float64
	Init       []float64 // row by row; empty for k-means++
	Seed       uint32
}

// fitter is the part of one rank in a fit. It is owned by the goroutine of the task.
type fitter struct {
	w       World
	p       Params
	d       int
	total   int // partitions of all ranks
	e       Engine
	centers []float64 // row by row
	shift   []float64
	rows    int64 // of all ranks
}

// Result is the result of a fit, the same on every rank.
type Result struct {
	Centers    []float64
	Inertia    float64
	Iterations int
	Converged  bool
	Rows       int64
}

// Fit runs the part of one rank in a fit. total is the number of partitions of all ranks.
func Fit(ctx context.Context, w World, e Engine, total int, p Params) (*Result, error) {
	return newFitter(w, e, total, p).fit(ctx)
}

// Relabel sets the labels of the rows of one rank to the nearest centers.
func Relabel(ctx context.Context, e Engine, centers []float64) error {
	return e.relabel(ctx, shiftOf(e, centers, e.columns()), cast(e, centers))
}

func newFitter(w World, e Engine, total int, p Params) *fitter {
	return &fitter{w: w, p: p, d: e.columns(), total: total, e: e}
}

// fit follows _kmeans_single_lloyd of scikit-learn.
func (f *fitter) fit(ctx context.Context) (*Result, error) {
	counts := make([]float64, f.total) // rows by partition
	for _, x := range f.e.partitions() {
		counts[x.index] = float64(x.rows)
	}
	if err := f.w.Sum(ctx, counts); err != nil {
		return nil, err
	}
	for _, n := range counts {
		f.rows += int64(n)
	}
	if f.rows < int64(f.p.K) {
		return nil, &DataError{fmt.Sprintf("cannot divide %d rows into %d groups", f.rows, f.p.K)}
	}
	if f.centers = append([]float64(nil), f.p.Init...); len(f.centers) == 0 {
		if err := f.plusPlus(ctx, counts); err != nil {
			return nil, err
		}
	}
	f.setShift()
	tol, err := f.tolerance(ctx)
	if err != nil {
		return nil, err
	}
	out := &Result{Rows: f.rows}
	for out.Iterations < f.p.MaxIter && !out.Converged {
		out.Iterations++
		changed, moved, err := f.iterate(ctx, out.Iterations == 1)
		if err != nil {
			return nil, err
		}
		if out.Converged = changed == 0; !out.Converged && moved <= tol {
			break
		}
	}
	centers := f.cast()
	if !out.Converged { // the labels are those before the last move of the centers
		if err := f.e.relabel(ctx, f.shift, centers); err != nil {
			return nil, err
		}
	}
	local, err := f.e.inertia(ctx, centers)
	if err != nil {
		return nil, err
	}
	inertia := []float64{local}
	if err := f.w.Sum(ctx, inertia); err != nil {
		return nil, err
	}
	out.Centers, out.Inertia = f.centers, inertia[0]
	return out, nil
}

// setShift sets the origin of the sums to the mean of the centers.
func (f *fitter) setShift() { f.shift = shiftOf(f.e, f.centers, f.d) }

func shiftOf(e Engine, centers []float64, d int) []float64 {
	k := len(centers) / d
	shift := make([]float64, d)
	for j := range shift {
		var sum float64
		for c := range k {
			sum += centers[c*d+j]
		}
		shift[j] = e.round(sum / float64(k))
	}
	return shift
}

// cast returns the centers rounded to the type of the data.
func (f *fitter) cast() []float64 { return cast(f.e, f.centers) }

func cast(e Engine, v []float64) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = e.round(x)
	}
	return out
}

// tolerance returns Tol times the mean variance of the columns.
func (f *fitter) tolerance(ctx context.Context) (float64, error) {
	if f.p.Tol == 0 {
		return 0, nil
	}
	d := f.d
	all := make([]float64, 2*d) // sums, and sums of squares
	if err := f.e.moments(ctx, f.shift, all); err != nil {
		return 0, err
	}
	if err := f.w.Sum(ctx, all); err != nil {
		return 0, err
	}
	var variance float64
	for j := range d {
		mean := all[j] / float64(f.rows)
		variance += all[d+j]/float64(f.rows) - mean*mean
	}
	return f.p.Tol * variance / float64(d), f.finite(ctx, variance)
}

// iterate moves rows to the nearest centers and centers to the mean of their rows. It returns the number of rows that
// have moved, and the sum of the squared moves of the centers.
func (f *fitter) iterate(ctx context.Context, first bool) (changed, moved float64, err error) {
	centers := f.cast()
	k, d := f.p.K, f.d
	all := make([]float64, k*d+k+1)
	sums, counts := all[:k*d], all[k*d:k*d+k]
	if err := f.e.pass(ctx, f.shift, centers, all); err != nil {
		return 0, 0, err
	}
	if err := f.w.Sum(ctx, all); err != nil {
		return 0, 0, err
	}
	if first {
		var check float64
		for _, s := range sums {
			check += s
		}
		if err := f.finite(ctx, check); err != nil {
			return 0, 0, err
		}
	}
	if err := f.relocate(ctx, centers, sums, counts); err != nil {
		return 0, 0, err
	}
	largest := 0
	for c := range k {
		if counts[c] > counts[largest] {
			largest = c
		}
	}
	for c := range k {
		from := c
		if counts[c] == 0 { // as scikit-learn does
			from = largest
		}
		for j := range d {
			v := f.shift[j] + sums[from*d+j]/counts[from]
			e := v - f.centers[c*d+j]
			moved += e * e
			f.centers[c*d+j] = v
		}
	}
	return all[k*d+k], moved, nil
}

// finite returns an error that names the value that has made a sum infinite or NaN, the same on every rank.
func (f *fitter) finite(ctx context.Context, sum float64) error {
	if !math.IsNaN(sum) && !math.IsInf(sum, 0) {
		return nil
	}
	at := []float64{math.MaxFloat64}
	bad, err := f.e.bad(ctx)
	if err != nil {
		return err
	}
	if bad >= 0 {
		at[0] = float64(bad)
	}
	if err := f.w.Min(ctx, at); err != nil {
		return err
	}
	if at[0] == math.MaxFloat64 {
		return &DataError{"values are too large: their squares are not finite"}
	}
	n := int(at[0])
	return &NotFiniteError{n / f.d, n % f.d}
}

// DataError is returned by Fit, on every rank, for rows that cannot be fitted.
type DataError struct{ Reason string }

func (e *DataError) Error() string { return "kmeans: " + e.Reason }

// NotFiniteError is returned by Fit, on every rank, for a value that is NaN or infinite.
type NotFiniteError struct{ Partition, Column int }

func (e *NotFiniteError) Error() string {
	return fmt.Sprintf("kmeans: partition %d: column %d has a value that is not finite (NaN or infinite)", e.Partition,
		e.Column)
}
