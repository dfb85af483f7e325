package tsqr

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// orthogonal returns the product of d random reflections, column by column.
func orthogonal(r *rand.Rand, d int) []float64 {
	q := make([]float64, d*d)
	for j := range d {
		q[j*d+j] = 1
	}
	for range d {
		v := make([]float64, d)
		for i := range v {
			v[i] = r.NormFloat64()
		}
		by := 2 / dot(v, v)
		for j := range d {
			c := q[j*d : (j+1)*d]
			subtract(c, by*dot(v, c), v)
		}
	}
	return q
}

// withValues returns a matrix with given singular values.
func withValues(r *rand.Rand, values []float64) []float64 {
	d := len(values)
	u, v := orthogonal(r, d), orthogonal(r, d)
	a := make([]float64, d*d)
	for k, s := range values {
		for j := range d {
			subtract(a[j*d:(j+1)*d], -s*v[k*d+j], u[k*d:(k+1)*d])
		}
	}
	return a
}

// TestSVD: singular values are those that a matrix was made with, vectors are orthogonal, and the product is the
// matrix.
func TestSVD(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct {
		what   string
		values []float64
	}{
		{"one", []float64{3}}, {"zero", []float64{0}}, {"all zero", []float64{0, 0, 0}},
		{"distinct", []float64{9, 4, 2, 1, 0.5}}, {"equal", []float64{2, 2, 2, 1, 1, 0}},
		{"far apart", []float64{1, 1e-3, 1e-6, 1e-9}}, {"large", []float64{1e200, 1e199, 1e198}},
		{"small", []float64{1e-200, 1e-201, 0}}, {"dependent", []float64{5, 3, 1, 0, 0, 0}},
	} {
		d := len(c.values)
		a := withValues(r, c.values)
		s := decompose(append([]float64(nil), a...), d)
		scale := max(c.values[0], math.SmallestNonzeroFloat64)
		for j, v := range s.Values {
			if math.Abs(v-c.values[j]) > 1e-14*float64(d)*scale {
				t.Errorf("%s: values %v, want %v", c.what, s.Values, c.values)
				break
			}
		}
		for j := range d {
			for k := range d {
				want := 0.0
				if j == k {
					want = 1
				}
				if got := dot(s.V[j*d:(j+1)*d], s.V[k*d:(k+1)*d]); math.Abs(got-want) > 1e-13 {
					t.Errorf("%s: product of vectors %d and %d is %v", c.what, j, k, got)
				}
			}
			// Column j of A V is column j of US.
			got := make([]float64, d)
			for k := range d {
				subtract(got, -s.V[j*d+k], a[k*d:(k+1)*d])
			}
			for i, v := range got {
				if math.Abs(v-s.US[j*d+i]) > 1e-14*float64(d)*scale {
					t.Errorf("%s: column %d of the product is %v, want %v", c.what, j, s.US[j*d:(j+1)*d], got)
					break
				}
			}
		}
	}
	if s := decompose([]float64{1, math.NaN(), 2, 3}, 2); len(s.Values) != 2 {
		t.Errorf("NaN: got %v", s.Values)
	}
}

// TestAccuracy: the least singular value of a table with a condition of 1e10 has digits that a Gram matrix loses.
func TestAccuracy(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	want := []float64{1, 1e-4, 1e-10}
	a := withValues(r, want)
	// The rows of a matrix, each twice with both signs: the means are zero, the squares four times as large.
	columns := make([][]float64, 3)
	for j := range columns {
		for i := range 3 {
			columns[j] = append(columns[j], a[j*3+i], -a[j*3+i], a[j*3+i], -a[j*3+i])
		}
	}
	all, errs := summarize(t, columns, []int{1, 4, 0, 7}, 3, 1, false)
	if errs[0] != nil {
		t.Fatal(errs[0])
	}
	got := all[0].R.SVD().Values
	for i, v := range got {
		if math.Abs(v-2*want[i]) > 1e-15*2*10 {
			t.Errorf("singular values %v, want twice %v", got, want)
			break
		}
	}
}

// TestSolve: the solution of a table that a line was computed for, also with dependent columns and far from zero.
func TestSolve(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, middle := range []float64{0, 1e7} {
		columns := make([][]float64, 4)
		for range 50 {
			a, b := middle+r.NormFloat64(), middle+2*r.NormFloat64()
			for j, v := range []float64{a, b, a + b, 3*a - 2*b + 7} {
				columns[j] = append(columns[j], v)
			}
		}
		all, errs := summarize(t, columns, []int{20, 30}, 2, 1, false)
		if errs[0] != nil {
			t.Fatal(errs[0])
		}
		s := all[1].Solve(Fit{Intercept: true, Cutoff: 1e-7})
		// 3a - 2b is 8/3 a - 7/3 b + 1/3 (a+b), which has the least squares.
		for j, want := range []float64{8. / 3, -7. / 3, 1. / 3} {
			if math.Abs(s.Coefficients[j]-want) > 1e-7 {
				t.Errorf("coefficients %v, want 8/3, -7/3, 1/3", s.Coefficients)
				break
			}
		}
		if s.Rank != 2 || math.Abs(s.Intercept-7) > 1e-7*(1+middle) || s.R2 < 1-1e-12 {
			t.Errorf("got rank %d, intercept %v, R² %v, want 2, 7, 1", s.Rank, s.Intercept, s.R2)
		}
		if s := all[0].Solve(Fit{Intercept: true, Ridge: 1e12, Cutoff: 1e-12}); math.Abs(s.Coefficients[0]) > 1e-6 {
			t.Errorf("a large ridge leaves %v", s.Coefficients)
		}
	}
}

// TestConstants: a constant target, and constant columns.
func TestConstants(t *testing.T) {
	for _, c := range []struct {
		columns  [][]float64
		want     string
		variance float64
	}{
		{[][]float64{{1, 2, 3}, {4, 4, 4}}, "[0] 4 1 1", 1},
		{[][]float64{{5, 5, 5}, {1, 2, 3}}, "[0] 2 0 0", 0},
	} {
		all, errs := summarize(t, c.columns, []int{3}, 1, 1, false)
		if errs[0] != nil {
			t.Fatal(errs[0])
		}
		s := all[0].Solve(Fit{Intercept: true})
		if got := fmt.Sprint(s.Coefficients, s.Intercept, s.Rank, s.R2); got != c.want {
			t.Errorf("%v: got %s, want %s", c.columns, got, c.want)
		}
	}
}

// TestComponents: components of points on a line, with and without the means.
func TestComponents(t *testing.T) {
	columns := [][]float64{{1, 2, 3, 4}, {-2, -4, -6, -8}}
	all, errs := summarize(t, columns, []int{1, 3}, 2, 1, false)
	if errs[0] != nil {
		t.Fatal(errs[0])
	}
	for _, centered := range []bool{true, false} {
		c := all[0].Components(1, centered)
		root := math.Sqrt(5)
		if math.Abs(c.Vectors[0][0]+1/root) > 1e-15 || math.Abs(c.Vectors[0][1]-2/root) > 1e-15 {
			t.Errorf("component %v, want -1, 2 of length one", c.Vectors[0])
		}
		want, value := 25./3, 5.
		if !centered {
			want, value = 25./4, math.Sqrt(150)
		}
		if math.Abs(c.Variance[0]-want) > 1e-13 || math.Abs(c.Ratio[0]-1) > 1e-14 || c.Noise > 1e-15 ||
			math.Abs(c.Values[0]-value) > 1e-13 {
			t.Errorf("centered %t: got %+v, want variance %v, singular value %v", centered, c, want, value)
		}
	}
}

func TestApply(t *testing.T) {
	p := Part{Rows: 3, Columns: []Column{Slice[int32]{1, 2, 3}, Slice[float32]{10, 20, 30}}}
	out := [][]float64{make([]float64, 3), make([]float64, 3)}
	p.Apply([]float64{1, 10}, []float64{1, 0, 2, 0.5}, []float64{0, 100}, out)
	if got := fmt.Sprint(out); got != "[[0 1 2] [100 107 114]]" {
		t.Errorf("got %s", got)
	}
	p.Apply(nil, []float64{1, 1, 0, 0}, []float64{0, 7}, out)
	if got := fmt.Sprint(out); got != "[[11 22 33] [7 7 7]]" {
		t.Errorf("without means: got %s", got)
	}
	empty := Part{Columns: []Column{Slice[int8]{}}}
	empty.Apply(nil, []float64{1}, []float64{0}, [][]float64{{}})
}
