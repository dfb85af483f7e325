package kmeans

import (
	"context"
	"fmt"
	"math"
	"sync"

	"go.millstream.dev/clique"
	"go.millstream.dev/frame"
	"go.millstream.dev/internal/lloyd"
)

// world joins numbers of all ranks: what the algorithm needs of a clique.
type world interface {
	// sum adds the ranks' numbers up, in place; every rank calls it with as many.
	sum(ctx context.Context, v []float64) error
	// min takes the least of each.
	min(ctx context.Context, v []float64) error
	rank() (rank, size int)
}

type ranks struct{ r *clique.Rank }

func (w ranks) sum(ctx context.Context, v []float64) error {
	return clique.AllReduce(ctx, w.r, v, v, clique.Sum)
}
func (w ranks) min(ctx context.Context, v []float64) error {
	return clique.AllReduce(ctx, w.r, v, v, clique.Min)
}
func (w ranks) rank() (int, int) { return w.r.Rank(), w.r.Size() }

// chunkRows is how many rows a thread takes at once.
const chunkRows = 1 << 16

// chunk is some rows of a partition.
type chunk[T lloyd.Float] struct {
	part     *part[T]
	from, to int
}

// thread is what one of the rank's threads has: always the same chunks, so that the order of
// sums is the same in every run, and their sums.
type thread[T lloyd.Float] struct {
	chunks  []chunk[T]
	sums    []float64
	counts  []int64
	changed int
	value   float64
}

// fitter is one rank's part in a fit. The task's goroutine owns it; its threads work only
// within each.
type fitter[T lloyd.Float] struct {
	w       world
	p       params
	d       int
	total   int // partitions of the frame
	parts   []*part[T]
	threads []*thread[T]
	centres []float64 // row by row
	shift   []T
	rows    int64 // of all ranks
}

// result is what a fit comes to, the same on every rank.
type result struct {
	Centres    []float64
	Inertia    float64
	Iterations int
	Converged  bool
	Rows       int64
}

func newFitter[T lloyd.Float](w world, parts []*part[T], total, threads int, p params) *fitter[T] {
	f := &fitter[T]{w: w, p: p, d: len(p.Columns), total: total, parts: parts}
	var chunks []chunk[T]
	for _, x := range parts {
		for at := 0; at < x.rows(); at += chunkRows {
			chunks = append(chunks, chunk[T]{x, at, min(x.rows(), at+chunkRows)})
		}
	}
	threads = max(1, min(threads, len(chunks)))
	for i := range threads {
		f.threads = append(f.threads, &thread[T]{
			chunks: chunks[len(chunks)*i/threads : len(chunks)*(i+1)/threads],
			sums:   make([]float64, p.K*f.d), counts: make([]int64, p.K),
		})
	}
	return f
}

// each runs work on all threads and waits for them.
func (f *fitter[T]) each(work func(t *thread[T])) {
	var wg sync.WaitGroup
	for _, t := range f.threads[1:] {
		wg.Go(func() { work(t) })
	}
	work(f.threads[0])
	wg.Wait()
}

// add is the sum of what each thread says about itself.
func (f *fitter[T]) add(work func(t *thread[T]) float64) float64 {
	f.each(func(t *thread[T]) { t.value = work(t) })
	var sum float64
	for _, t := range f.threads {
		sum += t.value
	}
	return sum
}

// fit is scikit-learn's _kmeans_single_lloyd.
func (f *fitter[T]) fit(ctx context.Context) (*result, error) {
	counts := make([]float64, f.total) // rows by partition
	for _, x := range f.parts {
		counts[x.index] = float64(x.rows())
	}
	if err := f.w.sum(ctx, counts); err != nil {
		return nil, err
	}
	for _, n := range counts {
		f.rows += int64(n)
	}
	if f.rows < int64(f.p.K) {
		return nil, fmt.Errorf("kmeans: %d rows cannot be divided into %d groups", f.rows, f.p.K)
	}
	if f.centres = append([]float64(nil), f.p.Init...); len(f.centres) == 0 {
		if err := f.plusPlus(ctx, counts); err != nil {
			return nil, err
		}
	}
	f.setShift()
	tol, err := f.tolerance(ctx)
	if err != nil {
		return nil, err
	}
	out := &result{Rows: f.rows}
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
	centres := f.cast()
	if !out.Converged { // the labels are one move of the centres behind
		f.each(func(t *thread[T]) {
			for _, c := range t.chunks {
				lloyd.Pass(c.part.slice(c.from, c.to), centres, f.shift, c.part.labels[c.from:c.to], nil, nil)
			}
		})
	}
	inertia := []float64{f.add(func(t *thread[T]) float64 {
		var sum float64
		for _, c := range t.chunks {
			sum += lloyd.Inertia(c.part.slice(c.from, c.to), centres, c.part.labels[c.from:c.to])
		}
		return sum
	})}
	if err := f.w.sum(ctx, inertia); err != nil {
		return nil, err
	}
	out.Centres, out.Inertia = f.centres, inertia[0]
	return out, nil
}

// setShift puts the origin of the sums between the centres.
func (f *fitter[T]) setShift() {
	f.shift = make([]T, f.d)
	for j := range f.shift {
		var sum float64
		for c := range f.p.K {
			sum += f.centres[c*f.d+j]
		}
		f.shift[j] = T(sum / float64(f.p.K))
	}
}

func (f *fitter[T]) cast() []T {
	out := make([]T, len(f.centres))
	for i, c := range f.centres {
		out[i] = T(c)
	}
	return out
}

// tolerance is Tol times the mean variance of the columns.
func (f *fitter[T]) tolerance(ctx context.Context) (float64, error) {
	if f.p.Tol == 0 {
		return 0, nil
	}
	d := f.d
	all := make([]float64, 2*d) // sums, and sums of squares
	f.each(func(t *thread[T]) {
		t.sums = make([]float64, max(len(t.sums), 2*d))
		for _, c := range t.chunks {
			for j := range d {
				var sum, squares float64
				for _, v := range c.part.columns[j][c.from:c.to] {
					e := float64(v - f.shift[j])
					sum += e
					squares += e * e
				}
				t.sums[j] += sum
				t.sums[d+j] += squares
			}
		}
	})
	for _, t := range f.threads {
		for i := range all {
			all[i] += t.sums[i]
		}
		t.sums = make([]float64, f.p.K*d)
	}
	if err := f.w.sum(ctx, all); err != nil {
		return 0, err
	}
	var variance float64
	for j := range d {
		mean := all[j] / float64(f.rows)
		variance += all[d+j]/float64(f.rows) - mean*mean
	}
	return f.p.Tol * variance / float64(d), f.finite(ctx, variance)
}

// iterate moves rows to the nearest centres and centres to the middle of their rows. It returns
// how many rows have moved, and the sum of the squared moves of the centres.
func (f *fitter[T]) iterate(ctx context.Context, first bool) (changed, moved float64, err error) {
	centres := f.cast()
	f.each(func(t *thread[T]) {
		t.changed = 0
		for _, c := range t.chunks {
			t.changed += lloyd.Pass(c.part.slice(c.from, c.to), centres, f.shift, c.part.labels[c.from:c.to], t.sums, t.counts)
		}
	})
	k, d := f.p.K, f.d
	all := make([]float64, k*d+k+1)
	sums, counts := all[:k*d], all[k*d:k*d+k]
	for _, t := range f.threads {
		for i, s := range t.sums {
			sums[i] += s
		}
		for i, n := range t.counts {
			counts[i] += float64(n)
		}
		all[k*d+k] += float64(t.changed)
	}
	if err := f.w.sum(ctx, all); err != nil {
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
	if err := f.relocate(ctx, centres, sums, counts); err != nil {
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
		if counts[c] == 0 { // as scikit-learn: somewhere sensible
			from = largest
		}
		for j := range d {
			v := float64(f.shift[j]) + sums[from*d+j]/counts[from]
			e := v - f.centres[c*d+j]
			moved += e * e
			f.centres[c*d+j] = v
		}
	}
	return all[k*d+k], moved, nil
}

// finite looks for the value that has spoilt a sum, and is the same error on every rank.
func (f *fitter[T]) finite(ctx context.Context, sum float64) error {
	if !math.IsNaN(sum) && !math.IsInf(sum, 0) {
		return nil
	}
	at := []float64{math.MaxFloat64}
	for _, x := range f.parts {
		if j := lloyd.Finite(x.columns); j >= 0 {
			at[0] = min(at[0], float64(x.index*f.d+j))
		}
	}
	if err := f.w.min(ctx, at); err != nil {
		return err
	}
	if at[0] == math.MaxFloat64 {
		return fmt.Errorf("kmeans: the numbers are too large: their squares are not finite")
	}
	n := int(at[0])
	return &frame.Error{Kind: frame.ErrSchema, Partition: n / f.d, Reason: fmt.Sprintf("column %q has a value that is not finite (NaN or infinite)", f.p.Columns[n%f.d])}
}
