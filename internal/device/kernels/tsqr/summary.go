package tsqr

import (
	"context"
	"errors"
	"fmt"
	"math"
)

// MaxColumns bounds the columns of a table: memory and the time of the small decompositions grow with their square and
// cube.
const MaxColumns = 2048

// World combines numbers of all ranks. It is the part of a clique that the reduction needs.
type World interface {
	// Sum adds the numbers of the ranks, in place; every rank calls it with the same count.
	Sum(ctx context.Context, v []float64) error
	// Min takes the minimum of each.
	Min(ctx context.Context, v []float64) error
	// Send sends numbers to a rank, which calls Recv with as many.
	Send(ctx context.Context, to int, v []float64) error
	Recv(ctx context.Context, from int, v []float64) error
	// Broadcast copies the numbers of rank 0 to all ranks.
	Broadcast(ctx context.Context, v []float64) error
	// Rank returns the number of this rank and that of ranks.
	Rank() (rank, size int)
}

// Engine has the rows of one rank, where they are: on the CPU (Host) or on a GPU.
type Engine interface {
	// Columns returns the number of columns.
	Columns() int
	// Sums adds the sums of the columns to out, then the number of rows.
	Sums(ctx context.Context, out []float64) error
	// Triangle returns the triangle of the rows minus the means.
	Triangle(ctx context.Context, mean []float64) (*Triangle, error)
	// Bad returns the lowest partition*columns+column with a value that is not finite, -1 if there is none.
	Bad(ctx context.Context) (int, error)
}

// Summary describes the whole table, the same on every rank.
type Summary struct {
	Rows int64
	Mean []float64
	R    *Triangle // of the table minus the means
}

// NotFiniteError is returned by Summarize for a table with a value that is NaN or infinite.
type NotFiniteError struct{ Partition, Column int }

func (e *NotFiniteError) Error() string {
	return fmt.Sprintf("column %d of partition %d has a value that is not finite (NaN or infinite)", e.Column,
		e.Partition)
}

// ErrTooLarge is returned by Summarize for values whose squares, or whose sums, are not finite.
var ErrTooLarge = errors.New("values are too large: their squares are not finite; scale them down")

// ErrNoRows is returned by Summarize for a table without rows.
var ErrNoRows = errors.New("the table has no rows")

// Summarize reduces the rows of all ranks. Every rank calls it with an Engine of as many columns. It reads the rows
// twice, since the triangle of rows minus the exact means is accurate however far from zero the means are.
func Summarize(ctx context.Context, w World, e Engine) (*Summary, error) {
	d := e.Columns()
	if d < 1 || d > MaxColumns {
		return nil, fmt.Errorf("%d columns; use between 1 and %d", d, MaxColumns)
	}
	sums := make([]float64, d+1)
	if err := e.Sums(ctx, sums); err != nil {
		return nil, err
	}
	if err := w.Sum(ctx, sums); err != nil {
		return nil, err
	}
	s := &Summary{Rows: int64(sums[d]), Mean: sums[:d]}
	if s.Rows == 0 {
		return nil, ErrNoRows
	}
	if !finite(s.Mean) {
		return nil, notFinite(ctx, w, e)
	}
	for j := range s.Mean {
		s.Mean[j] /= sums[d]
	}
	var err error
	if s.R, err = e.Triangle(ctx, s.Mean); err != nil {
		return nil, err
	}
	if err := reduce(ctx, w, s.R); err != nil {
		return nil, err
	}
	if !finite(s.R.r) {
		return nil, ErrTooLarge
	}
	return s, nil
}

func finite(v []float64) bool {
	for _, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return false
		}
	}
	return true
}

// notFinite returns the error for sums that are not finite, the same on every rank.
func notFinite(ctx context.Context, w World, e Engine) error {
	at := []float64{math.MaxFloat64}
	bad, err := e.Bad(ctx)
	if err != nil {
		return err
	}
	if bad >= 0 {
		at[0] = float64(bad)
	}
	if err := w.Min(ctx, at); err != nil {
		return err
	}
	if at[0] == math.MaxFloat64 {
		return ErrTooLarge
	}
	n := int(at[0])
	return &NotFiniteError{n / e.Columns(), n % e.Columns()}
}

// reduce merges the triangles of all ranks, pairwise, and sets t to the result on every rank: the order, and so the
// result, depends on the number of ranks only.
func reduce(ctx context.Context, w World, t *Triangle) error {
	rank, size := w.Rank()
	packed := make([]float64, packedLen(t.d))
	for step := 1; step < size; step *= 2 {
		switch {
		case rank%(2*step) == step:
			copy(packed, t.Packed())
			if err := w.Send(ctx, rank-step, packed); err != nil {
				return err
			}
		case rank%(2*step) == 0 && rank+step < size:
			if err := w.Recv(ctx, rank+step, packed); err != nil {
				return err
			}
			other := NewTriangle(t.d)
			other.unpack(packed)
			t.Merge(other)
		}
	}
	if size == 1 {
		return nil
	}
	copy(packed, t.Packed())
	if err := w.Broadcast(ctx, packed); err != nil {
		return err
	}
	t.unpack(packed)
	return nil
}

// Uncentered returns the triangle of the table itself: the means are orthogonal to the rows minus the means, and so
// one row more.
func (s *Summary) Uncentered() *Triangle {
	t := s.R.Clone()
	row := make([]float64, t.d)
	for j, m := range s.Mean {
		row[j] = m * math.Sqrt(float64(s.Rows))
	}
	t.AddRow(row)
	return t
}
