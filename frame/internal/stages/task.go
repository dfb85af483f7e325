// Package stages runs plans on a cluster. A plan is divided into stages at its exchanges; a stage is one task for each
// of its partitions, which runs a chain of operators on record batches. An exchange is tasks as well: the tasks of a
// stage divide their results into buckets, a pick task for each bucket takes it from its list, where that is, and the
// tasks of the next stage take their buckets of all lists. Lost workers, spilling and cancellation are therefore
// handled as for all tasks.
package stages

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/frame/internal/plan"
	"go.millstream.dev/frame/internal/scan"
	"go.millstream.dev/frame/internal/vec"
)

// Batches are rows in several batches of one schema.
type Batches []arrow.RecordBatch

// SizeOf returns the size in bytes, for the accounts of the workers.
func (b Batches) SizeOf() int64 {
	n := int64(24)
	for _, x := range b {
		if x != nil {
			n += 256 + vec.Bytes(x)
		}
	}
	return n
}

// Task is the argument of a task of a stage.
type Task struct {
	// Run identifies the run of the query: runs share no tasks, equal parts of one run do.
	Run string
	// Partition is the number of the task in its stage.
	Partition int
	// Schema is the encoded schema of the input.
	Schema []byte
	// Split is the part of a file to read; nil if the input is that of other tasks.
	Split *scan.Split
	Read  scan.ReadOptions
	// Ops are the operators, in the order in which rows pass them.
	Ops []Op
	// Buckets specifies how the result is divided.
	Buckets Buckets
}

// Buckets specifies how rows are divided into buckets.
type Buckets struct {
	// N is the number of buckets; 0 and 1 leave the rows together.
	N int
	// Keys are the columns whose hash selects the bucket.
	Keys []string
	// Order and Bounds select the bucket by ranges of keys instead: rows of bucket i sort below row i of Bounds.
	Order  []plan.SortKey
	Bounds arrow.RecordBatch
}

// Out is the result of a task of a stage.
type Out struct {
	Buckets []Batches
	Stats   Stats
}

// SizeOf returns the size in bytes, for the accounts of the workers.
func (o Out) SizeOf() int64 {
	n := int64(256)
	for _, b := range o.Buckets {
		n += b.SizeOf()
	}
	return n
}

// The functions that workers run. The inputs of a task are partitions of a frame, buckets of other stages, and the
// buckets of the right sides of its joins.
var (
	// run returns buckets, for the next stage.
	run = client.Func4("millstream.frame.stage", func(ctx context.Context, t Task, first []arrow.RecordBatch,
		lists []Batches, builds []Batches) (Out, error) {
		return t.Execute(ctx, Input{First: first, Lists: lists, Builds: builds})
	})
	// last returns a partition of the result of the query.
	last = client.Func4("millstream.frame.last-stage", func(ctx context.Context, t Task, first []arrow.RecordBatch,
		lists []Batches, builds []Batches) (arrow.RecordBatch, error) {
		out, err := t.Execute(ctx, Input{First: first, Lists: lists, Builds: builds})
		if err != nil {
			return nil, err
		}
		return out.whole()
	})
	pick = client.Func2("millstream.frame.bucket", func(_ context.Context, o Out, i int) (Batches, error) {
		if i < 0 || i >= len(o.Buckets) {
			return nil, fmt.Errorf("frame: no bucket %d of %d", i, len(o.Buckets))
		}
		return o.Buckets[i], nil
	})
	pickWhole = client.Func("millstream.frame.whole", func(_ context.Context, o Out) (arrow.RecordBatch, error) {
		return o.whole()
	})
	statsOf = client.Func("millstream.frame.stage-stats", func(_ context.Context, o Out) (Stats, error) {
		return o.Stats, nil
	})
	sizeOf = client.Func("millstream.frame.size", func(_ context.Context, b arrow.RecordBatch) (Size, error) {
		return Size{Rows: b.NumRows(), Bytes: vec.Bytes(b)}, nil
	})
)

// whole returns the only bucket as one batch, which holds no more memory than its rows.
func (o Out) whole() (arrow.RecordBatch, error) {
	if len(o.Buckets) != 1 || len(o.Buckets[0]) == 0 {
		return nil, fmt.Errorf("frame: stage returned %d buckets, not one with batches", len(o.Buckets))
	}
	b, err := vec.Concat(o.Buckets[0][0].Schema(), o.Buckets[0])
	if err != nil {
		return nil, err
	}
	return vec.Detach(b)
}

// Size is the size of rows.
type Size struct{ Rows, Bytes int64 }
