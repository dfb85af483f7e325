package tsqr

import (
	"fmt"
	"math"
)

// Triangle is an upper triangle of d columns: the factor R of the rows that were added to it. The zero rows of a
// Triangle of fewer rows than columns are part of it. It must be used by one goroutine at a time.
type Triangle struct {
	d int
	r []float64 // column by column
}

// NewTriangle returns the Triangle of no rows.
func NewTriangle(d int) *Triangle { return &Triangle{d: d, r: make([]float64, d*d)} }

// Columns returns the number of columns.
func (t *Triangle) Columns() int { return t.d }

// At returns the element of a row and a column.
func (t *Triangle) At(row, column int) float64 { return t.r[column*t.d+row] }

// Packed returns the columns of the triangle down to its diagonal, one after the other.
func (t *Triangle) Packed() []float64 {
	out := make([]float64, 0, packedLen(t.d))
	for j := range t.d {
		out = append(out, t.r[j*t.d:j*t.d+j+1]...)
	}
	return out
}

func packedLen(d int) int { return d * (d + 1) / 2 }

// unpack sets the triangle to the result of Packed.
func (t *Triangle) unpack(v []float64) {
	for j := range t.d {
		copy(t.r[j*t.d:j*t.d+j+1], v)
		v = v[j+1:]
	}
}

// Clone returns a copy.
func (t *Triangle) Clone() *Triangle { return &Triangle{d: t.d, r: append([]float64(nil), t.r...)} }

// AddRow adds one row.
func (t *Triangle) AddRow(row []float64) { t.add(append([]float64(nil), row...), 1, 1, false) }

// Merge adds the rows of another Triangle of the same number of columns.
func (t *Triangle) Merge(other *Triangle) {
	t.add(append([]float64(nil), other.r...), t.d, t.d, true)
}

// add adds rows, column by column with a distance of stride elements, and overwrites them. In an upper tile the
// elements below the diagonal are zero. Reflection j works on row j of the triangle and on the rows of the tile, since
// the other rows of the triangle are zero in column j.
func (t *Triangle) add(tile []float64, rows, stride int, upper bool) {
	d := t.d
	for j := range d {
		n := rows
		if upper {
			n = min(rows, j+1)
		}
		x := tile[j*stride : j*stride+n]
		squares := dot(x, x)
		if squares == 0 {
			continue
		}
		a := t.r[j*d+j]
		norm := -math.Copysign(math.Sqrt(a*a+squares), a)
		tau := (norm - a) / norm
		scale(x, 1/(a-norm))
		t.r[j*d+j] = norm
		for k := j + 1; k < d; k++ {
			y := tile[k*stride : k*stride+n]
			w := tau * (t.r[k*d+j] + dot(x, y))
			t.r[k*d+j] -= w
			subtract(y, w, x)
		}
	}
}

// dot returns the sum of the products, in four chains that the processor runs at once.
func dot(x, y []float64) float64 {
	y = y[:len(x)]
	var a, b, c, d float64
	i := 0
	for ; i+4 <= len(x); i += 4 {
		p, q := x[i:i+4:i+4], y[i:i+4:i+4]
		a += p[0] * q[0]
		b += p[1] * q[1]
		c += p[2] * q[2]
		d += p[3] * q[3]
	}
	for ; i < len(x); i++ {
		a += x[i] * y[i]
	}
	return (a + b) + (c + d)
}

// subtract subtracts w*x from y.
func subtract(y []float64, w float64, x []float64) {
	y = y[:len(x)]
	i := 0
	for ; i+4 <= len(x); i += 4 {
		p, q := x[i:i+4:i+4], y[i:i+4:i+4]
		q[0] -= w * p[0]
		q[1] -= w * p[1]
		q[2] -= w * p[2]
		q[3] -= w * p[3]
	}
	for ; i < len(x); i++ {
		y[i] -= w * x[i]
	}
}

func scale(x []float64, by float64) {
	for i := range x {
		x[i] *= by
	}
}

// FromPacked returns the Triangle of d columns whose Packed is v.
func FromPacked(v []float64, d int) (*Triangle, error) {
	if d < 1 || d > MaxColumns || len(v) != packedLen(d) {
		return nil, fmt.Errorf("%d numbers are no triangle of %d columns", len(v), d)
	}
	t := NewTriangle(d)
	t.unpack(v)
	return t, nil
}

// FromColumns returns the Triangle with the upper elements of r, d columns of d elements; it keeps r.
func FromColumns(r []float64, d int) *Triangle {
	for j := range d {
		clear(r[j*d+j+1 : (j+1)*d])
	}
	return &Triangle{d: d, r: r}
}
