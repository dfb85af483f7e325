package frame

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/client"
	"go.millstream.dev/wire"
)

var projectPart = client.Func3("millstream.frame.project", func(_ context.Context, b arrow.RecordBatch, names []string,
	partition int) (arrow.RecordBatch, error) {
	out, err := Project(b, names...)
	if err != nil {
		return nil, fmt.Errorf("frame: partition %d: %w", partition, err)
	}
	return out, nil
})

// Project returns the columns with these names, in this order. On devices nothing is copied.
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
			parts[i] = deviceProjectPart.Submit(ctx, f.c, p, client.Val(names), client.WithWorkers(f.workers...))
		}
		return newDeviceFrame(f.c, schema, parts, f.workers), nil
	}
	out := make([]*client.Future[arrow.RecordBatch], len(f.parts))
	for i, p := range f.parts {
		out[i] = projectPart.Submit(ctx, f.c, p, client.Val(names), client.Val(i))
	}
	return newFrame(f.c, schema, out), nil
}

func projectSchema(s *arrow.Schema, names []string) (*arrow.Schema, []int, error) {
	if len(names) == 0 {
		return nil, nil, errors.New("frame: Project without columns")
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
	// Metadata, such as that of pandas, may refer to removed columns.
	return arrow.NewSchema(fields, nil), at, nil
}

// Project returns the columns of a batch with these names, with which it shares memory: Frame.Project of one batch, for
// user functions. The caller releases the result.
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

// Concat returns the concatenated rows of frames of one schema and location: the partitions of all. The frames are not
// changed.
func Concat(frames ...*Frame) (*Frame, error) {
	if len(frames) == 0 {
		return nil, errors.New("frame: Concat without frames")
	}
	first := frames[0]
	out := &Frame{c: first.c, schema: first.schema, loc: first.loc, workers: first.workers}
	for i, f := range frames {
		if err := f.usable(); err != nil {
			return nil, err
		}
		if f.c != first.c {
			return nil, fmt.Errorf("frame: Concat: frame %d belongs to another client", i)
		}
		if f.loc != first.loc {
			return nil, fmt.Errorf("%w: Concat: frame %d is in %s memory, the first in %s memory; use ToHost or "+
				"ToDevice", ErrLocation,
				i, f.loc.name(), first.loc.name())
		}
		if d := diffSchemas(first.schema, f.schema); d != "" {
			return nil, &Error{Kind: ErrSchema, Partition: -1,
				Reason: fmt.Sprintf("frame %d of Concat: %s", i, d)}
		}
		out.parts = append(out.parts, cloneFutures(f.c, f.parts)...)
		out.device = append(out.device, cloneFutures(f.c, f.device)...)
	}
	return out, nil
}

// submitEach submits a call for every partition. A partition that occurs twice in a frame has one task.
func submitEach[B, R any](ctx context.Context, c *client.Client, parts []*client.Future[B], fn *client.Fn1[B, R],
	opts ...client.Option) []*client.Future[R] {
	out := make([]*client.Future[R], len(parts))
	for i, p := range parts {
		out[i] = fn.Submit(ctx, c, p, opts...)
	}
	return out
}
