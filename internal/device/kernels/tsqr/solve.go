package tsqr

import "math"

// Solution is a linear model of the last column of a table by the others.
type Solution struct {
	Coefficients []float64
	Intercept    float64
	Rank         int
	Values       []float64 // singular values of the other columns
	R2           float64   // coefficient of determination
}

// Fit specifies a linear model.
type Fit struct {
	// Intercept adds a constant to the model.
	Intercept bool
	// Ridge is the weight of the squares of the coefficients.
	Ridge float64
	// Cutoff is the ratio to the largest singular value up to which others count as zero.
	Cutoff float64
}

// Solve returns the least squares solution, that with the least squares of coefficients if there are several.
func (s *Summary) Solve(f Fit) Solution {
	t := s.R
	if !f.Intercept {
		t = s.Uncentered()
	}
	d := t.d - 1
	y := t.r[d*t.d : (d+1)*t.d] // the last column: its part in the space of the others, and the length of the rest
	svd := t.leading(d).SVD()
	out := Solution{Coefficients: make([]float64, d), Values: svd.Values}
	for k, v := range svd.Values {
		small := v <= f.Cutoff*svd.Values[0]
		if v == 0 || small && f.Ridge == 0 {
			break
		}
		if !small {
			out.Rank++
		}
		// U'y is US'y/v: divided by v once more, or with a ridge multiplied by v/(v²+ridge).
		w := dot(svd.US[k*d:(k+1)*d], y[:d]) / v
		if f.Ridge > 0 {
			w *= v / (v*v + f.Ridge)
		} else {
			w /= v
		}
		for j := range d {
			out.Coefficients[j] += w * svd.V[k*d+j]
		}
	}
	if f.Intercept {
		out.Intercept = s.Mean[d] - dot(out.Coefficients, s.Mean[:d])
	}
	rest := append([]float64(nil), y...)
	for j, c := range out.Coefficients {
		subtract(rest, c, t.r[j*t.d:(j+1)*t.d])
	}
	out.R2 = 1
	centered := s.R.r[d*t.d : (d+1)*t.d]
	if all := length(centered); all > 0 {
		part := length(rest) / all
		out.R2 = 1 - part*part
	} else if length(rest) > 0 {
		out.R2 = 0
	}
	return out
}

// Components are the principal directions of a table.
type Components struct {
	Vectors  [][]float64 // of length one, the element with the largest absolute value is positive
	Values   []float64   // singular values
	Variance []float64   // of the rows along each vector
	Ratio    []float64   // of the variance of all columns
	Noise    float64     // mean variance along the vectors that were left out
}

// Components returns the first k principal components, k at most the number of rows and that of columns. With centered
// they and their singular values are those of the rows minus the means, and variances are of a sample; without, they
// are those of the rows themselves, and variances are of a population: as PCA and TruncatedSVD of scikit-learn do.
func (s *Summary) Components(k int, centered bool) Components {
	t, d, n := s.R, s.R.d, float64(s.Rows)
	if !centered {
		t = s.Uncentered()
	}
	svd := t.SVD()
	var out Components
	var total float64 // variance of all columns
	if centered {
		for _, v := range svd.Values {
			total += v / (n - 1) * v
		}
	} else {
		l := length(s.R.r)
		total = l / n * l
	}
	for i := range k {
		v := append([]float64(nil), svd.V[i*d:(i+1)*d]...)
		largest := 0
		for j, x := range v {
			if math.Abs(x) > math.Abs(v[largest]) {
				largest = j
			}
		}
		if v[largest] < 0 {
			scale(v, -1)
		}
		variance := svd.Values[i] / (n - 1) * svd.Values[i]
		if !centered {
			l := length(s.R.times(v))
			variance = l / n * l
		}
		out.Vectors = append(out.Vectors, v)
		out.Values = append(out.Values, svd.Values[i])
		out.Variance = append(out.Variance, variance)
		out.Ratio = append(out.Ratio, variance/total)
	}
	if most := int(min(int64(d), s.Rows)); centered && k < most {
		for _, v := range svd.Values[k:most] {
			out.Noise += v / (n - 1) * v / float64(most-k)
		}
	}
	return out
}

// times returns the product of the triangle with a vector.
func (t *Triangle) times(v []float64) []float64 {
	out := make([]float64, t.d)
	for j, x := range v {
		subtract(out, -x, t.r[j*t.d:(j+1)*t.d])
	}
	return out
}
