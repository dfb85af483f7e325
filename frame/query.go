package frame

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/frame/internal/plan"
	"go.millstream.dev/frame/internal/stages"
)

// Query is a computation on tables that has not run: a plan. Its methods return other queries and do nothing else, so
// that the whole computation is known when it runs: conditions and columns are moved to the files and frames that are
// read, and operators that follow each other run in one task for each partition.
//
//	q := frame.ScanIPC(ctx, c, "/data/orders").Filter(frame.Col("price").Gt(10)).Select(frame.Col("customer"))
//	f, err := q.Compute(ctx)
//
// Methods never fail: an error, such as a column that does not exist, is kept and returned by Schema and by the methods
// that run the query. Names of columns are distinct. A Query is immutable and may be used several times and by several
// goroutines; each run computes its result from its inputs.
type Query struct {
	c    *client.Client
	node plan.Node
	err  error
	cfg  stages.Config
}

// Query returns a query of the rows of the frame, which must not be released before the query runs. A frame on devices
// is copied to the memory of its workers by every run.
func (f *Frame) Query() *Query {
	q := &Query{c: f.c}
	if err := f.usable(); err != nil {
		q.err = err
		return q
	}
	if err := plan.Distinct(f.schema); err != nil {
		q.err = fmt.Errorf("frame: Query: %w", err)
		return q
	}
	q.node = &plan.Source{Table: frameTable{f}}
	return q
}

// frameTable is a frame as a table of a plan.
type frameTable struct{ f *Frame }

func (t frameTable) Schema() *arrow.Schema { return t.f.schema }

func (t frameTable) NumPartitions() int { return t.f.NumPartitions() }

func (t frameTable) Describe() string {
	text := fmt.Sprintf("Frame of %d partition", t.f.NumPartitions())
	if t.f.NumPartitions() != 1 {
		text += "s"
	}
	if t.f.loc == Device {
		text += " on devices, copied to host memory"
	}
	return text
}

func (t frameTable) Size() (rows, bytes int64, ok bool) { return 0, 0, false }

// Parts returns the partitions in host memory.
func (t frameTable) Parts(ctx context.Context) ([]*client.Future[arrow.RecordBatch], func(), error) {
	if err := t.f.usable(); err != nil {
		return nil, nil, err
	}
	if t.f.loc == Device {
		parts := t.f.hostParts(ctx)
		return parts, func() { client.ReleaseAll(parts) }, nil
	}
	return t.f.parts, func() {}, nil
}

// then returns a query of the result of a function of the plan, whose error gets the name of the method.
func (q *Query) then(verb string, f func(plan.Node) (plan.Node, error)) *Query {
	if q.err != nil {
		return q
	}
	out := &Query{c: q.c, cfg: q.cfg}
	if out.node, out.err = f(q.node); out.err != nil {
		out.err = &remoteError{kind: ErrSchema, err: fmt.Errorf("frame: %s: %w", verb, out.err)}
	}
	return out
}

// Schema returns the columns of the result, or the first error of the query.
func (q *Query) Schema() (*arrow.Schema, error) {
	if q.err != nil {
		return nil, q.err
	}
	return q.node.Schema(), nil
}

// Filter returns the rows for which a condition is true.
func (q *Query) Filter(cond Expr) *Query {
	return q.then("Filter", func(n plan.Node) (plan.Node, error) { return plan.NewFilter(n, cond) })
}

// Select returns columns that expressions compute, in this order. Their names are those of As, of the column, or the
// text of the expression.
func (q *Query) Select(exprs ...Expr) *Query {
	return q.then("Select", func(n plan.Node) (plan.Node, error) { return plan.NewSelect(n, exprs) })
}

// With returns all columns, of which expressions replace those with the same name and add others.
func (q *Query) With(exprs ...Expr) *Query {
	return q.then("With", func(n plan.Node) (plan.Node, error) { return plan.NewWith(n, exprs) })
}

// Drop returns all columns but these.
func (q *Query) Drop(names ...string) *Query {
	return q.then("Drop", func(n plan.Node) (plan.Node, error) { return plan.NewDrop(n, names) })
}

// Rename gives a column another name.
func (q *Query) Rename(from, to string) *Query {
	return q.then("Rename", func(n plan.Node) (plan.Node, error) { return plan.NewRename(n, from, to) })
}

// Limit returns the first n rows, in the order of the partitions.
func (q *Query) Limit(n int64) *Query {
	return q.then("Limit", func(in plan.Node) (plan.Node, error) { return plan.NewLimit(in, 0, n) })
}

// Offset returns the rows without the first n, in the order of the partitions.
func (q *Query) Offset(n int64) *Query {
	return q.then("Offset", func(in plan.Node) (plan.Node, error) { return plan.NewLimit(in, n, plan.NoLimit) })
}

// Sample returns each row with a probability between 0 and 1. Equal seeds and partitions select equal rows.
func (q *Query) Sample(fraction float64, seed uint64) *Query {
	return q.then("Sample", func(n plan.Node) (plan.Node, error) { return plan.NewSample(n, fraction, seed) })
}

// Union returns the rows of all queries, which must have the same columns, in their order. It keeps equal rows.
func (q *Query) Union(others ...*Query) *Query {
	return q.then("Union", func(n plan.Node) (plan.Node, error) {
		in := []plan.Node{n}
		for _, o := range others {
			if err := q.combines(o); err != nil {
				return nil, err
			}
			in = append(in, o.node)
		}
		return plan.NewUnion(in)
	})
}

// combines returns an error if a query cannot be used together with another.
func (q *Query) combines(o *Query) error {
	if o.err != nil {
		return o.err
	}
	if o.c != q.c {
		return fmt.Errorf("the queries belong to different clients")
	}
	return nil
}
