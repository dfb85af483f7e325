package lloydfit

import (
	"context"
	"fmt"
	"sync"

	"go.millstream.dev/internal/device/kernels/lloyd"
)

// chunkRows is the number of rows of a chunk.
const chunkRows = 1 << 16

// Part is a partition of a rank in the form of the kernels: a slice for each column, aligned for its type, and the
// label of each row, -1 before the first pass. Index is its number among the partitions of all ranks.
type Part[T lloyd.Float] struct {
	Index   int
	Columns [][]T
	Labels  []int32
}

// NewPart returns a part of columns with the same number of rows. It keeps labels, which it sets to -1.
func NewPart[T lloyd.Float](index int, columns [][]T, labels []int32) *Part[T] {
	for i := range labels {
		labels[i] = -1
	}
	return &Part[T]{index, columns, labels}
}

// rows returns the number of rows.
func (p *Part[T]) rows() int { return len(p.Labels) }

// slice returns the columns of a range of rows.
func (p *Part[T]) slice(from, to int) [][]T {
	out := make([][]T, len(p.Columns))
	for i, c := range p.Columns {
		out[i] = c[from:to]
	}
	return out
}

// chunk is a range of rows of a partition.
type chunk[T lloyd.Float] struct {
	part     *Part[T]
	from, to int
}

// thread has the chunks of one thread of the rank and their sums. The chunks are always the same, so that the order of
// sums is the same in every run.
type thread[T lloyd.Float] struct {
	chunks  []chunk[T]
	sums    []float64
	counts  []int64
	changed int
	value   float64
	moments []float64
}

// host is the Engine of rows in host memory. Its threads run only within each.
type host[T lloyd.Float] struct {
	d       int
	parts   []*Part[T]
	threads []*thread[T]
}

var _ Engine = (*host[float32])(nil)

// NewHost returns the Engine of parts with d columns each for k centers, which works with a number of threads.
func NewHost[T lloyd.Float](parts []*Part[T], threads, k, d int) Engine {
	return newHost(parts, threads, k, d)
}

func newHost[T lloyd.Float](parts []*Part[T], threads, k, d int) *host[T] {
	h := &host[T]{d: d, parts: parts}
	var chunks []chunk[T]
	for _, x := range parts {
		for at := 0; at < x.rows(); at += chunkRows {
			chunks = append(chunks, chunk[T]{x, at, min(x.rows(), at+chunkRows)})
		}
	}
	threads = max(1, min(threads, len(chunks)))
	for i := range threads {
		h.threads = append(h.threads, &thread[T]{
			chunks: chunks[len(chunks)*i/threads : len(chunks)*(i+1)/threads],
			sums:   make([]float64, k*d), counts: make([]int64, k),
		})
	}
	return h
}

// each runs work on all threads and waits for them.
func (h *host[T]) each(work func(t *thread[T])) {
	var wg sync.WaitGroup
	for _, t := range h.threads[1:] {
		wg.Go(func() { work(t) })
	}
	work(h.threads[0])
	wg.Wait()
}

func (h *host[T]) columns() int { return h.d }

func (h *host[T]) partitions() []partition {
	out := make([]partition, len(h.parts))
	for i, p := range h.parts {
		out[i] = partition{p.Index, p.rows()}
	}
	return out
}

func (h *host[T]) round(v float64) float64 { return float64(T(v)) }

// convert converts numbers that were rounded to the type to it.
func (h *host[T]) convert(v []float64) []T {
	out := make([]T, len(v))
	for i, x := range v {
		out[i] = T(x)
	}
	return out
}

func (h *host[T]) pass(_ context.Context, shift, centers, all []float64) error {
	s, at := h.convert(shift), h.convert(centers)
	h.each(func(t *thread[T]) {
		t.changed = 0
		for _, c := range t.chunks {
			t.changed += lloyd.Pass(c.part.slice(c.from, c.to), at, s, c.part.Labels[c.from:c.to], t.sums, t.counts)
		}
	})
	counts := all[len(centers):]
	for _, t := range h.threads {
		for i, s := range t.sums {
			all[i] += s
		}
		for i, n := range t.counts {
			counts[i] += float64(n)
		}
		all[len(all)-1] += float64(t.changed)
	}
	return nil
}

func (h *host[T]) relabel(_ context.Context, shift, centers []float64) error {
	s, at := h.convert(shift), h.convert(centers)
	h.each(func(t *thread[T]) {
		for _, c := range t.chunks {
			lloyd.Pass(c.part.slice(c.from, c.to), at, s, c.part.Labels[c.from:c.to], nil, nil)
		}
	})
	return nil
}

func (h *host[T]) inertia(_ context.Context, centers []float64) (sum float64, err error) {
	at := h.convert(centers)
	h.each(func(t *thread[T]) {
		t.value = 0
		for _, c := range t.chunks {
			t.value += lloyd.Inertia(c.part.slice(c.from, c.to), at, c.part.Labels[c.from:c.to])
		}
	})
	for _, t := range h.threads {
		sum += t.value
	}
	return sum, nil
}

func (h *host[T]) moments(_ context.Context, shift, out []float64) error {
	s, d := h.convert(shift), h.d
	h.each(func(t *thread[T]) {
		t.moments = make([]float64, 2*d)
		for _, c := range t.chunks {
			for j := range d {
				var sum, squares float64
				for _, v := range c.part.Columns[j][c.from:c.to] {
					e := float64(v - s[j])
					sum += e
					squares += e * e
				}
				t.moments[j] += sum
				t.moments[d+j] += squares
			}
		}
	})
	for _, t := range h.threads {
		for i, v := range t.moments {
			out[i] += v
		}
	}
	return nil
}

func (h *host[T]) farthest(_ context.Context, centers []float64, n int) ([]far, error) {
	var all []far
	at := h.convert(centers)
	for _, p := range h.parts {
		// Compute the distances to the centers of the labels, one center after the other.
		best := make([]float64, p.rows())
		one := make([]float64, p.rows())
		for c := range len(at) / h.d {
			lloyd.Distances(p.Columns, at[c*h.d:(c+1)*h.d], one)
			for i, l := range p.Labels {
				if int(l) == c {
					best[i] = one[i]
				}
			}
		}
		for i, e := range best {
			all = among(all, far{e, p.Index, i}, n)
		}
	}
	return all, nil
}

func (h *host[T]) find(partition int) (*Part[T], error) {
	for _, p := range h.parts {
		if p.Index == partition {
			return p, nil
		}
	}
	return nil, fmt.Errorf("kmeans: partition %d belongs to another rank", partition)
}

func (h *host[T]) row(_ context.Context, partition, row int, out []float64) (int32, error) {
	p, err := h.find(partition)
	if err != nil {
		return 0, err
	}
	for j, c := range p.Columns {
		out[j] = float64(c[row])
	}
	return p.Labels[row], nil
}

func (h *host[T]) bad(context.Context) (int, error) {
	at := -1
	for _, x := range h.parts {
		if j := lloyd.Finite(x.Columns); j >= 0 && (at < 0 || x.Index*h.d+j < at) {
			at = x.Index*h.d + j
		}
	}
	return at, nil
}
