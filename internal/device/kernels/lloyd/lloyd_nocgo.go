//go:build !cgo

package lloyd

// Kernel returns the name of the code that runs.
func Kernel() string { return "Go" }

func pass[T Float](columns [][]T, centers, shift []T, labels []int32, sums []float64, counts []int64) int {
	return passGo(columns, centers, shift, labels, sums, counts)
}

func inertia[T Float](columns [][]T, turned []T, k int, labels []int32) float64 {
	return inertiaGo(columns, turned, k, labels)
}

func distances[T Float](columns [][]T, point []T, out []float64) { distancesGo(columns, point, out) }
