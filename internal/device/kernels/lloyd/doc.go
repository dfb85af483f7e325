// Package lloyd has the kernels of Lloyd's algorithm for k-means: the nearest center of every row, and the sums of the
// rows of each center. Data is in Arrow's layout: a slice for each feature.
//
// The kernels are in C, compiled for several instruction sets of which the best available is used; a binary without cgo
// has the same in Go. Sums follow the labels: a pass adds and subtracts only rows whose label has changed, so that
// later passes of a fit read every row once and write little.
package lloyd

// Float is a type of the data.
type Float interface{ float32 | float64 }

// Pass sets the label of every row to the nearest center, the first of equally near ones, and updates sums and counts,
// of which there are len(columns) and one for each center. labels are those of the last pass, -1 for rows without one;
// sums are of rows minus shift, which should be near the middle of the data to reduce rounding. It returns how many
// labels have changed. If sums is nil only labels change.
func Pass[T Float](columns [][]T, centers, shift []T, labels []int32, sums []float64, counts []int64) int {
	d := len(columns)
	n := len(labels)
	check(columns, n)
	if d == 0 || len(centers)%d != 0 || len(shift) != d || sums != nil &&
		(len(sums) != len(centers) || len(counts)*d != len(centers)) {
		panic("lloyd: sizes do not match")
	}
	if n == 0 {
		return 0
	}
	return pass(columns, centers, shift, labels, sums, counts)
}

// Inertia returns the sum of the squared distances of the rows to the centers of their labels.
func Inertia[T Float](columns [][]T, centers []T, labels []int32) float64 {
	check(columns, len(labels))
	if len(labels) == 0 {
		return 0
	}
	d := len(columns)
	k := len(centers) / d
	turned := make([]T, len(centers)) // feature by feature
	for c := range k {
		for j := range d {
			turned[j*k+c] = centers[c*d+j]
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
			panic("lloyd: columns of different lengths")
		}
	}
}
