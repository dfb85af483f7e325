package kmeans

import "context"

// engine has the rows of one rank and works on them where they are: on the CPU (host) or on a
// GPU (device). The task's goroutine owns it. Centres, points and shift are numbers as the type
// of the data has them (round), row by row.
type engine interface {
	// partitions are those of the rank.
	partitions() []partition
	// round is a number as the type of the data has it.
	round(v float64) float64
	// pass gives every row the label of the nearest centre, the first of equally near ones, and
	// adds to all: the sums of the rows of each centre, minus shift, then how many there are of
	// each, then how many labels have changed.
	pass(ctx context.Context, shift, centres, all []float64) error
	// relabel is pass without sums.
	relabel(ctx context.Context, shift, centres []float64) error
	// inertia is the sum of the squared distances of the rows to the centres of their labels.
	inertia(ctx context.Context, centres []float64) (float64, error)
	// moments adds to out: the sums of the columns minus shift, then those of their squares.
	moments(ctx context.Context, shift, out []float64) error
	// farthest are the n rows that are farthest from the centres of their labels.
	farthest(ctx context.Context, centres []float64, n int) ([]far, error)
	// row sets out to a row of a partition that the rank has, and returns its label.
	row(ctx context.Context, partition, row int, out []float64) (label int32, err error)
	// bad is the least partition*columns+column that has a value which is not finite, -1 if none
	// has.
	bad(ctx context.Context) (int, error)
	// seeds begins k-means++ with a first centre.
	seeds(ctx context.Context, first []float64, trials int) (seeds, error)
}

// seeds knows how far each row is from the nearest of the centres so far.
type seeds interface {
	// potentials adds the sums of the squared distances of each partition to out, which has all
	// of the frame.
	potentials(ctx context.Context, out []float64) error
	// find is the row of a partition at which the sum of its squared distances reaches a value.
	find(ctx context.Context, partition int, value float64) (row int, err error)
	// try adds what the potential of this rank comes to with each of the points, one after the
	// other, to left.
	try(ctx context.Context, points, left []float64) error
	// keep makes a point that was tried one of the centres.
	keep(trial int)
	// close gives the memory back.
	close()
}

// partition is one of a frame's, by its number.
type partition struct{ index, rows int }

// far is a row and its distance from its centre.
type far struct {
	distance       float64
	partition, row int
}
