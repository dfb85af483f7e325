package frame

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/frame/internal/expr"
	"go.millstream.dev/wire"
)

var (
	filterPart = client.Func3("millstream.frame.filter", func(_ context.Context, b arrow.RecordBatch, e Expr,
		partition int) (arrow.RecordBatch, error) {
		return selectPart(b, e, partition)
	})
	deviceFilterPart = client.Func3("millstream.frame.device_filter", func(ctx context.Context, d wire.Dict, e Expr,
		partition int) (wire.Dict, error) {
		return deviceCall(ctx, d, func(ctx context.Context, b *DeviceBatch) (*DeviceBatch, error) {
			return b.throughHost(ctx, func(host arrow.RecordBatch) (arrow.RecordBatch, error) {
				return selectPart(host, e, partition)
			})
		})
	})
)

// selectPart is Select for a partition of a frame.
func selectPart(b arrow.RecordBatch, e Expr, partition int) (arrow.RecordBatch, error) {
	out, err := Select(b, e)
	if err != nil {
		return nil, fmt.Errorf("frame: partition %d: %w", partition, err)
	}
	return out, nil
}

// Filter returns the rows for which an expression is true. Partitions stay where they are, and may become empty. Those
// of a frame on devices are compared in the memory of their workers.
func (f *Frame) Filter(ctx context.Context, e Expr) (*Frame, error) {
	if err := f.usable(); err != nil {
		return nil, err
	}
	if _, err := condition(e, f.schema); err != nil {
		return nil, err
	}
	if f.loc == Device {
		out := make([]*client.Future[wire.Dict], len(f.device))
		for i, p := range f.device {
			out[i] = deviceFilterPart.Submit(ctx, f.c, p, client.Val(e), client.Val(i),
				client.WithWorkers(f.workers...))
		}
		return newDeviceFrame(f.c, f.schema, out, f.workers), nil
	}
	out := make([]*client.Future[arrow.RecordBatch], len(f.parts))
	for i, p := range f.parts {
		out[i] = filterPart.Submit(ctx, f.c, p, client.Val(e), client.Val(i))
	}
	return newFrame(f.c, f.schema, out), nil
}

// Select returns the rows of a batch for which an expression is true: Filter of one batch, for user functions. The
// caller releases the result.
func Select(b arrow.RecordBatch, e Expr) (arrow.RecordBatch, error) {
	bound, err := condition(e, b.Schema())
	if err != nil {
		return nil, err
	}
	return bound.Filter(b)
}

// condition resolves an expression that must be a condition on rows with a schema.
func condition(e Expr, s *arrow.Schema) (*expr.Bound, error) {
	bound, err := expr.BindCondition(e, s)
	return bound, exprError(err)
}

// exprError converts an error of the types of an expression to an Error of kind ErrSchema.
func exprError(err error) error {
	if t, ok := errors.AsType[*expr.TypeError](err); ok {
		return schemaErrorf(-1, "%s", t.Reason)
	}
	return err
}

// Expr is a value for every row of a frame: a column, a constant, or a function of other expressions. A condition is an
// Expr of type bool.
//
//	frame.Col("age").Ge(18).And(frame.Col("name").Ne("unknown"))
//	frame.Col("price").Mul(frame.Col("count")).As("total")
//
// Methods take other expressions and constants: nil, bool, numbers, text, bytes and time.Time. They never fail; an
// expression that does not fit the columns of a frame is an error of the function that uses it, which matches
// ErrSchema.
//
// A comparison with a null is neither true nor false, and neither is its negation; And and Or use the three-valued
// logic of SQL. Numbers of different types are compared exactly. NaN compares as in Go: it is unequal to everything.
//
// An Expr is immutable and may be an argument of a task.
type Expr = expr.Expr

// Col returns the column with a name.
func Col(name string) Expr { return expr.Col(name) }

// Lit returns a constant: nil, a bool, number, text, bytes or time.
func Lit(v any) Expr { return expr.Lit(v) }

// If returns then for rows whose condition is true, and otherwise for all others, those with a null included.
func If(condition Expr, then, otherwise any) Expr { return expr.If(condition, then, otherwise) }

// columnIndex returns the index of the only column of a name.
func columnIndex(s *arrow.Schema, name string) (int, error) {
	i, err := expr.ColumnIndex(s, name)
	return i, exprError(err)
}
