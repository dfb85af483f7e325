package tsqr

import "math"

// SVD is the singular value decomposition of a d by d matrix A: A times the columns of V are the columns of US, whose
// lengths are the singular values. Matrices are stored column by column.
type SVD struct {
	Values []float64 // in decreasing order
	V, US  []float64
}

// maxSweeps bounds the sweeps of SVD, of which a matrix of doubles needs about ten.
const maxSweeps = 60

// SVD returns the singular values and vectors of the triangle, by one-sided Jacobi rotations: they are accurate also
// for small singular values, and V is orthogonal also for a triangle with dependent columns.
func (t *Triangle) SVD() SVD { return decompose(append([]float64(nil), t.r...), t.d) }

// leading returns the leading n by n part of the triangle.
func (t *Triangle) leading(n int) *Triangle {
	out := NewTriangle(n)
	for j := range n {
		copy(out.r[j*n:(j+1)*n], t.r[j*t.d:j*t.d+n])
	}
	return out
}

func decompose(a []float64, d int) SVD {
	v := make([]float64, d*d)
	for j := range d {
		v[j*d+j] = 1
	}
	// A scale that keeps squares in range; a power of two, so that it changes no digit.
	var largest float64
	for _, x := range a {
		largest = max(largest, math.Abs(x))
	}
	if largest == 0 || math.IsInf(largest, 0) || math.IsNaN(largest) {
		return SVD{make([]float64, d), v, a}
	}
	_, e := math.Frexp(largest)
	scale(a, math.Ldexp(1, -e))
	column := func(m []float64, j int) []float64 { return m[j*d : (j+1)*d] }
	for range maxSweeps {
		rotated := false
		for p := range d {
			for q := p + 1; q < d; q++ {
				x, y := column(a, p), column(a, q)
				xx, yy := dot(x, x), dot(y, y)
				if xx < yy { // the longest column comes first
					swap(x, y)
					swap(column(v, p), column(v, q))
					xx, yy = yy, xx
				}
				xy := dot(x, y)
				if yy == 0 || math.Abs(xy) <= epsilon*math.Sqrt(xx)*math.Sqrt(yy) {
					continue
				}
				rotated = true
				z := (yy - xx) / (2 * xy)
				tangent := math.Copysign(1, z) / (math.Abs(z) + math.Hypot(1, z))
				c := 1 / math.Hypot(1, tangent)
				rotate(x, y, c, c*tangent)
				rotate(column(v, p), column(v, q), c, c*tangent)
			}
		}
		if !rotated {
			break
		}
	}
	scale(a, math.Ldexp(1, e))
	out := SVD{make([]float64, d), v, a}
	for j := range d {
		out.Values[j] = length(column(a, j))
	}
	return out
}

// epsilon is the distance of 1 to the next larger number.
const epsilon = 0x1p-52

// rotate replaces x by c*x - s*y and y by s*x + c*y.
func rotate(x, y []float64, c, s float64) {
	y = y[:len(x)]
	for i, a := range x {
		b := y[i]
		x[i], y[i] = c*a-s*b, s*a+c*b
	}
}

func swap(x, y []float64) {
	for i := range x {
		x[i], y[i] = y[i], x[i]
	}
}

// length returns the Euclidean length of x, also if squares are out of range.
func length(x []float64) float64 {
	var largest float64
	for _, v := range x {
		largest = max(largest, math.Abs(v))
	}
	if largest == 0 {
		return 0
	}
	_, e := math.Frexp(largest)
	by := math.Ldexp(1, -e)
	var sum float64
	for _, v := range x {
		sum += v * by * v * by
	}
	return math.Ldexp(math.Sqrt(sum), e)
}
