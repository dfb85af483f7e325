// Package lloyd has the kernels of Lloyd's algorithm for k-means: the nearest centre of every
// row, and the sums of the rows of each centre. Data is Arrow's: a slice for each feature.
//
// The kernels are in C, compiled for several instruction sets of which the best that the
// processor has is used; a binary without cgo has the same in Go. Sums follow the labels: a
// pass adds and subtracts only rows whose label has changed, so that later passes of a fit
// read every row once and write little.
package lloyd

// Float is a type of the data.
type Float interface{ float32 | float64 }

// Pass gives every row the label of the nearest centre, the first of equally near ones, and
// brings sums and counts, of which there are len(columns) and one for each centre, up to the
// labels. labels are those of the last pass, -1 for rows that have none; sums are of rows minus
// shift, which should be near the middle of the data: it keeps the rounding small. It returns
// how many labels have changed. sums may be nil: then only labels change.
func Pass[T Float](columns [][]T, centres, shift []T, labels []int32, sums []float64, counts []int64) int {
	d := len(columns)
	n := len(labels)
	check(columns, n)
	if d == 0 || len(centres)%d != 0 || len(shift) != d || sums != nil &&
		(len(sums) != len(centres) || len(counts)*d != len(centres)) {
		panic("lloyd: sizes do not match")
	}
	if n == 0 {
		return 0
	}
	return pass(columns, centres, shift, labels, sums, counts)
}

// Inertia is the sum of the squared distances of the rows to the centres of their labels.
func Inertia[T Float](columns [][]T, centres []T, labels []int32) float64 {
	check(columns, len(labels))
	if len(labels) == 0 {
		return 0
	}
	d := len(columns)
	k := len(centres) / d
	turned := make([]T, len(centres)) // feature by feature
	for c := range k {
		for j := range d {
			turned[j*k+c] = centres[c*d+j]
		}
	}
	return inertia(columns, turned, k, labels)
}

// Distances sets out to the squared distances of the rows to a point.
func Distances[T Float](columns [][]T, point []T, out []float64) {
	check(columns, len(out))
	if len(point) != len(columns) {
		panic("lloyd: sizes do not match")
	}
	if len(out) > 0 {
		distances(columns, point, out)
	}
}

func check[T Float](columns [][]T, n int) {
	for _, c := range columns {
		if len(c) != n {
			panic("lloyd: the columns have different lengths")
		}
	}
}
