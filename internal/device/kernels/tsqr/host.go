package tsqr

import (
	"context"
	"sync"
)

// Column is a column of numbers in host memory.
type Column interface {
	// Read sets out to the numbers of the rows from a row on.
	Read(out []float64, from int)
}

// Number is a type of the elements of a column.
type Number interface {
	int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64
}

// Slice is a column whose numbers are stored one after the other.
type Slice[T Number] []T

// Read implements Column.
func (c Slice[T]) Read(out []float64, from int) {
	for i, v := range c[from : from+len(out)] {
		out[i] = float64(v)
	}
}

// Strided is a column whose numbers are Stride elements apart, the first at the beginning of Values.
type Strided[T Number] struct {
	Values []T
	Stride int
}

// Read implements Column.
func (c Strided[T]) Read(out []float64, from int) {
	at := from * c.Stride
	for i := range out {
		out[i] = float64(c.Values[at])
		at += c.Stride
	}
}

// Part is a partition of a table: Index is its number among the partitions of all ranks.
type Part struct {
	Index, Rows int
	Columns     []Column
}

// Host is the engine of rows in host memory.
type Host struct {
	d       int
	parts   []Part
	threads [][]span // the rows of each thread, always the same, so that results are
	tile    int
}

// span is a range of rows of a partition.
type span struct {
	part     *Part
	from, to int
}

var _ Engine = (*Host)(nil)

// spanRows is the number of rows of a span.
const spanRows = 1 << 14

// NewHost returns the engine of parts with d columns each, which works with a number of threads.
func NewHost(parts []Part, d, threads int) *Host {
	h := &Host{d: d, parts: parts, tile: min(spanRows, max(64, 1<<15/max(d, 1)))}
	var spans []span
	for i := range parts {
		p := &parts[i]
		for at := 0; at < p.Rows; at += spanRows {
			spans = append(spans, span{p, at, min(p.Rows, at+spanRows)})
		}
	}
	threads = max(1, min(threads, len(spans)))
	for i := range threads {
		h.threads = append(h.threads, spans[len(spans)*i/threads:len(spans)*(i+1)/threads])
	}
	return h
}

// Columns implements Engine.
func (h *Host) Columns() int { return h.d }

// each runs work on all threads and waits for them.
func (h *Host) each(work func(i int, spans []span)) {
	var wg sync.WaitGroup
	for i, spans := range h.threads[1:] {
		wg.Go(func() { work(i+1, spans) })
	}
	work(0, h.threads[0])
	wg.Wait()
}

// Sums implements Engine.
func (h *Host) Sums(_ context.Context, out []float64) error {
	sums := make([][]float64, len(h.threads))
	h.each(func(i int, spans []span) {
		sums[i] = make([]float64, h.d+1)
		tile := make([]float64, h.tile)
		for _, s := range spans {
			sums[i][h.d] += float64(s.to - s.from)
			for at := s.from; at < s.to; at += h.tile {
				x := tile[:min(h.tile, s.to-at)]
				for j, c := range s.part.Columns {
					c.Read(x, at)
					sums[i][j] += sum(x)
				}
			}
		}
	})
	for _, s := range sums {
		for j, v := range s {
			out[j] += v
		}
	}
	return nil
}

func sum(x []float64) float64 {
	var a, b, c, d float64
	i := 0
	for ; i+4 <= len(x); i += 4 {
		p := x[i : i+4 : i+4]
		a += p[0]
		b += p[1]
		c += p[2]
		d += p[3]
	}
	for ; i < len(x); i++ {
		a += x[i]
	}
	return (a + b) + (c + d)
}

// Triangle implements Engine.
func (h *Host) Triangle(ctx context.Context, mean []float64) (*Triangle, error) {
	all := make([]*Triangle, len(h.threads))
	h.each(func(i int, spans []span) {
		t := NewTriangle(h.d)
		all[i] = t
		tile := make([]float64, h.tile*h.d)
		for _, s := range spans {
			for at := s.from; at < s.to && ctx.Err() == nil; at += h.tile {
				n := min(h.tile, s.to-at)
				for j, c := range s.part.Columns {
					x := tile[j*h.tile : j*h.tile+n]
					c.Read(x, at)
					for k := range x {
						x[k] -= mean[j]
					}
				}
				t.add(tile, n, h.tile, false)
			}
		}
	})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, t := range all[1:] {
		all[0].Merge(t)
	}
	return all[0], nil
}

// Bad implements Engine.
func (h *Host) Bad(context.Context) (int, error) {
	bad := -1
	tile := make([]float64, h.tile)
	for _, p := range h.parts {
		for j, c := range p.Columns {
			at := p.Index*h.d + j
			if bad >= 0 && bad < at {
				break
			}
			for from := 0; from < p.Rows; from += h.tile {
				x := tile[:min(h.tile, p.Rows-from)]
				c.Read(x, from)
				if !finite(x) {
					bad = at
					break
				}
			}
		}
	}
	return bad, nil
}

// Apply sets out, of len(add) columns with rows numbers each, to the product of the rows minus mean with the weights of
// each column of out, plus add: weights has as many elements for each column of out as there are columns. mean may be
// nil.
func (p *Part) Apply(mean, weights, add []float64, out [][]float64) {
	d := len(p.Columns)
	x := make([]float64, min(max(p.Rows, 1), 1024))
	for k, o := range out {
		for i := range o {
			o[i] = add[k]
		}
	}
	for from := 0; from < p.Rows; from += len(x) {
		n := min(len(x), p.Rows-from)
		for j, c := range p.Columns {
			c.Read(x[:n], from)
			if mean != nil {
				for i := range x[:n] {
					x[i] -= mean[j]
				}
			}
			for k, o := range out {
				subtract(o[from:from+n], -weights[k*d+j], x[:n])
			}
		}
	}
}
