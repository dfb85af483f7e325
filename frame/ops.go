package frame

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/client"
)

// MapFunc is a function on partitions: see Map. It is registered at package level with
// client.Func, as every function that workers run. It borrows the batch that it is given,
// which others use too, and gives its result away; to return (a part of) its argument it
// retains it.
type MapFunc = client.Fn1[arrow.RecordBatch, arrow.RecordBatch]

// Map runs a function on every partition. schema is that of the results; nil asks the first
// result for it, and waits for that. A result of another schema is an ErrSchema that names the
// partition.
func (f *Frame) Map(ctx context.Context, fn *MapFunc, schema *arrow.Schema, opts ...client.Option) (*Frame, error) {
	if err := f.usable(); err != nil {
		return nil, err
	}
	return f.mapped(ctx, each(ctx, f, fn, opts...), schema)
}

// MapWith is Map for a function of a partition and something else, the same for all: a value
// (client.Val) or a future.
func MapWith[P any](ctx context.Context, f *Frame, fn *client.Fn2[arrow.RecordBatch, P, arrow.RecordBatch], arg client.Arg[P], schema *arrow.Schema, opts ...client.Option) (*Frame, error) {
	if err := f.usable(); err != nil {
		return nil, err
	}
	parts := make([]*client.Future[arrow.RecordBatch], len(f.parts))
	for i, p := range f.parts {
		parts[i] = fn.Submit(ctx, f.c, p, arg, opts...)
	}
	return f.mapped(ctx, parts, schema)
}

func (f *Frame) mapped(ctx context.Context, parts []*client.Future[arrow.RecordBatch], schema *arrow.Schema) (*Frame, error) {
	switch {
	case schema != nil:
		return verified(ctx, f.c, schema, parts)
	case len(parts) == 0:
		return nil, fmt.Errorf("frame: Map: without partitions the schema of the result is not known: name it")
	}
	return Of(ctx, f.c, parts)
}

var projected = client.Func3("millstream.frame.project", func(_ context.Context, b arrow.RecordBatch, names []string, partition int) (arrow.RecordBatch, error) {
	out, err := Project(b, names...)
	if err != nil {
		return nil, fmt.Errorf("frame: partition %d: %w", partition, err)
	}
	return out, nil
})

// Project keeps the columns of these names, in this order.
func (f *Frame) Project(ctx context.Context, names ...string) (*Frame, error) {
	if err := f.usable(); err != nil {
		return nil, err
	}
	schema, _, err := projectSchema(f.schema, names)
	if err != nil {
		return nil, err
	}
	out := make([]*client.Future[arrow.RecordBatch], len(f.parts))
	for i, p := range f.parts {
		out[i] = projected.Submit(ctx, f.c, p, client.Val(names), client.Val(i))
	}
	return trusted(f.c, schema, out), nil
}

func projectSchema(s *arrow.Schema, names []string) (*arrow.Schema, []int, error) {
	if len(names) == 0 {
		return nil, nil, fmt.Errorf("frame: Project: no column is named")
	}
	fields := make([]arrow.Field, len(names))
	at := make([]int, len(names))
	for i, name := range names {
		n, err := columnIndex(s, name)
		if err != nil {
			return nil, nil, err
		}
		at[i], fields[i] = n, s.Field(n)
	}
	// Metadata, such as that of pandas, speaks of columns that may be gone.
	return arrow.NewSchema(fields, nil), at, nil
}

// Project is the columns of these names of a batch, which it shares memory with: Frame.Project
// of one batch, for functions of the user's. The result is the caller's to release.
func Project(b arrow.RecordBatch, names ...string) (arrow.RecordBatch, error) {
	schema, at, err := projectSchema(b.Schema(), names)
	if err != nil {
		return nil, err
	}
	columns := make([]arrow.Array, len(at))
	for i, n := range at {
		columns[i] = b.Column(n)
	}
	return array.NewRecordBatch(schema, columns, b.NumRows()), nil
}

// Concat is the rows of frames of one schema after each other: the partitions of all. The
// frames stay as they are.
func Concat(frames ...*Frame) (*Frame, error) {
	if len(frames) == 0 {
		return nil, fmt.Errorf("frame: Concat: there is no frame")
	}
	first := frames[0]
	var parts []*client.Future[arrow.RecordBatch]
	for i, f := range frames {
		if err := f.usable(); err != nil {
			return nil, err
		}
		if f.c != first.c {
			return nil, fmt.Errorf("frame: Concat: frame %d is another client's", i)
		}
		if d := differ(first.schema, f.schema); d != "" {
			return nil, &Error{Kind: ErrSchema, Partition: -1, Reason: fmt.Sprintf("frame %d of those to join: %s", i, d)}
		}
		for _, p := range f.parts {
			parts = append(parts, client.FutureOf[arrow.RecordBatch](f.c, p.Key()))
		}
	}
	return trusted(first.c, first.schema, parts), nil
}

// each submits a call for every partition. (Frames may have one partition twice, and then one
// task is both.)
func each[R any](ctx context.Context, f *Frame, fn *client.Fn1[arrow.RecordBatch, R], opts ...client.Option) []*client.Future[R] {
	out := make([]*client.Future[R], len(f.parts))
	for i, p := range f.parts {
		out[i] = fn.Submit(ctx, f.c, p, opts...)
	}
	return out
}
