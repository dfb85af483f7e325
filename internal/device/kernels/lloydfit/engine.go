package lloydfit

import "context"

// Engine has the rows of one rank and works on them where they are: on the CPU (NewHost) or on a GPU (NewDevice). It is
// owned by the goroutine of the task. Centers, points and shift are rounded to the type of the data (round), row by
// row.
type Engine interface {
	// columns returns the number of columns.
	columns() int
	// partitions returns the partitions of the rank.
	partitions() []partition
	// round rounds a number to the type of the data.
	round(v float64) float64
	// pass sets the label of every row to the nearest center, the first among equally near ones, and adds to all: the
	// sums of the rows of each center, minus shift, then the number of rows of each, then the number of changed labels.
	pass(ctx context.Context, shift, centers, all []float64) error
	// relabel is pass without sums.
	relabel(ctx context.Context, shift, centers []float64) error
	// inertia returns the sum of the squared distances of the rows to the centers of their labels.
	inertia(ctx context.Context, centers []float64) (float64, error)
	// moments adds to out: the sums of the columns minus shift, then those of their squares.
	moments(ctx context.Context, shift, out []float64) error
	// farthest returns the n rows that are farthest from the centers of their labels.
	farthest(ctx context.Context, centers []float64, n int) ([]far, error)
	// row sets out to a row of a partition of the rank, and returns its label.
	row(ctx context.Context, partition, row int, out []float64) (label int32, err error)
	// bad returns the lowest partition*columns+column with a value that is not finite, -1 if there is none.
	bad(ctx context.Context) (int, error)
	// seeds starts k-means++ with a first center.
	seeds(ctx context.Context, first []float64, trials int) (seeds, error)
}

// seeds has the distance of each row to the nearest of the centers so far.
type seeds interface {
	// potentials adds the sums of the squared distances of each partition to out, which has an element for each
	// partition of the frame.
	potentials(ctx context.Context, out []float64) error
	// find returns the row of a partition at which the sum of its squared distances reaches a value.
	find(ctx context.Context, partition int, value float64) (row int, err error)
	// try adds the potential of this rank with each of the points, one at a time, to left.
	try(ctx context.Context, points, left []float64) error
	// keep makes a point that was tried one of the centers.
	keep(trial int)
	// close frees the memory.
	close()
}

// partition is a partition of a frame, by its number.
type partition struct{ index, rows int }

// far is a row and its distance from its center.
type far struct {
	distance       float64
	partition, row int
}
