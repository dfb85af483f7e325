package frame

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/client"
	"go.millstream.dev/wire"
)

var projected = client.Func3("millstream.frame.project", func(_ context.Context, b arrow.RecordBatch, names []string,
	partition int) (arrow.RecordBatch, error) {
	out, err := Project(b, names...)
	if err != nil {
		return nil, fmt.Errorf("frame: partition %d: %w", partition, err)
	}
	return out, nil
})

// Project keeps the columns of these names, in this order. On devices nothing is copied.
func (f *Frame) Project(ctx context.Context, names ...string) (*Frame, error) {
	if err := f.usable(); err != nil {
		return nil, err
	}
	schema, _, err := projectSchema(f.schema, names)
	if err != nil {
		return nil, err
	}
	if f.loc == Device {
		parts := make([]*client.Future[wire.Dict], len(f.device))
		for i, p := range f.device {
			parts[i] = deviceProjected.Submit(ctx, f.c, p, client.Val(names), client.WithWorkers(f.workers...))
		}
		return trustedDevice(f.c, schema, parts, f.workers), nil
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

// Concat returns the rows of frames of one schema and location after each other: the partitions of all. The frames stay
// as they are.
func Concat(frames ...*Frame) (*Frame, error) {
	if len(frames) == 0 {
		return nil, fmt.Errorf("frame: Concat: there is no frame")
	}
	first := frames[0]
	out := &Frame{c: first.c, schema: first.schema, loc: first.loc, workers: first.workers}
	for i, f := range frames {
		if err := f.usable(); err != nil {
			return nil, err
		}
		if f.c != first.c {
			return nil, fmt.Errorf("frame: Concat: frame %d is another client's", i)
		}
		if f.loc != first.loc {
			return nil, fmt.Errorf("%w: Concat: frame %d is in %s memory, the first in %s memory: use ToHost or "+
				"ToDevice", ErrLocation,
				i, f.loc.name(), first.loc.name())
		}
		if d := differ(first.schema, f.schema); d != "" {
			return nil, &Error{Kind: ErrSchema, Partition: -1,
				Reason: fmt.Sprintf("frame %d of those to join: %s", i, d)}
		}
		out.parts = append(out.parts, sameFutures(f.c, f.parts)...)
		out.device = append(out.device, sameFutures(f.c, f.device)...)
	}
	return out, nil
}

// each submits a call for every partition. (Frames may have one partition twice, and then one
// task is both.)
func each[B, R any](ctx context.Context, c *client.Client, parts []*client.Future[B], fn *client.Fn1[B, R],
	opts ...client.Option) []*client.Future[R] {
	out := make([]*client.Future[R], len(parts))
	for i, p := range parts {
		out[i] = fn.Submit(ctx, c, p, opts...)
	}
	return out
}
