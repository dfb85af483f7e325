package frame

import (
	"context"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/frame/internal/plan"
	"go.millstream.dev/frame/internal/stages"
)

// Query is a computation on tables that has not run: a plan. Its methods return other queries and do nothing else, so
// that the whole computation is known when it runs: conditions and columns are moved to the files and frames that are
// read, and operators that follow each other run in one task for each partition.
//
//	q := frame.ScanIPC(ctx, c, "/data/orders").
//		Filter(frame.Col("price").Gt(10)).
//		GroupBy(frame.Col("customer")).Agg(frame.Sum(frame.Col("price")).As("total"))
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

// Query returns a query of the rows of the frame, which must not be released before the query runs. Joins and group-bys
// of frames on devices run on the GPUs if all columns of their inputs are numbers, booleans or times, the keys of both
// sides of a join have the same types, and the aggregates are counts, sums, means, minima and maxima. Their results,
// and frames on devices of other queries, are copied to the memory of the workers. Explain says what runs where.
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
	if t.f.loc == Device {
		return t.describe() + " on devices, copied to host memory"
	}
	return t.describe()
}

func (t frameTable) describe() string {
	if t.f.NumPartitions() == 1 {
		return "Frame of 1 partition"
	}
	return fmt.Sprintf("Frame of %d partitions", t.f.NumPartitions())
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

// Shuffle exchanges the rows between the workers, so that rows with equal values of some columns are in one partition;
// nulls are equal. The result has n partitions; 0 means as many as are useful for the size of the rows. The order of
// the rows is not specified.
func (q *Query) Shuffle(n int, columns ...string) *Query {
	return q.then("Shuffle", func(in plan.Node) (plan.Node, error) { return plan.NewShuffle(in, n, columns) })
}

// Distinct returns the first row of those that are equal in some columns (default: in all). Nulls are equal.
func (q *Query) Distinct(columns ...string) *Query {
	return q.then("Distinct", func(n plan.Node) (plan.Node, error) { return plan.NewDistinct(n, columns) })
}

// Describe returns one row for each column: its type, the numbers of values and of nulls, and, depending on the type,
// mean, standard deviation, minimum, maximum and approximate quartiles.
func (q *Query) Describe() *Query { return q.then("Describe", plan.NewDescribe) }

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

// SortKey is an expression to sort by. Use Asc and Desc.
type SortKey struct{ key plan.OrderExpr }

// Asc returns a key that sorts by ascending values, nulls last.
func Asc(e Expr) SortKey { return SortKey{plan.OrderExpr{Expr: e}} }

// Desc returns a key that sorts by descending values, nulls last.
func Desc(e Expr) SortKey { return SortKey{plan.OrderExpr{Expr: e, Descending: true}} }

// NullsFirst returns the key with nulls before all values.
func (k SortKey) NullsFirst() SortKey {
	k.key.NullsFirst = true
	return k
}

func orderOf(keys []SortKey) []plan.OrderExpr {
	out := make([]plan.OrderExpr, len(keys))
	for i, k := range keys {
		out[i] = k.key
	}
	return out
}

// Sort returns the rows ordered by keys. Rows with equal keys keep their order. NaN sorts above all numbers, texts sort
// by their bytes.
func (q *Query) Sort(keys ...SortKey) *Query {
	return q.then("Sort", func(n plan.Node) (plan.Node, error) { return plan.NewSort(n, orderOf(keys), -1) })
}

// Top returns the first n rows in the order of keys, as Sort and Limit.
func (q *Query) Top(n int64, keys ...SortKey) *Query {
	return q.then("Top", func(in plan.Node) (plan.Node, error) {
		if n < 0 {
			return nil, fmt.Errorf("negative number of rows: %d", n)
		}
		return plan.NewSort(in, orderOf(keys), n)
	})
}

// JoinKind specifies which rows a join returns.
type JoinKind int

// The kinds of joins.
const (
	// InnerJoin returns the pairs of rows that match.
	InnerJoin JoinKind = iota
	// LeftJoin also returns the rows on the left without a match, with nulls on the right.
	LeftJoin
	// RightJoin also returns the rows on the right without a match, with nulls on the left.
	RightJoin
	// FullJoin also returns the rows of both sides without a match.
	FullJoin
	// SemiJoin returns the rows on the left that have a match, once.
	SemiJoin
	// AntiJoin returns the rows on the left that have no match.
	AntiJoin
	// CrossJoin returns all pairs of rows.
	CrossJoin
)

// JoinOptions specifies a join.
type JoinOptions struct {
	// Kind is the kind of the join (default InnerJoin).
	Kind JoinKind
	// On are columns of both sides that are equal in a pair. The result has each of them once.
	On []string
	// LeftOn and RightOn are expressions on the left and on the right that are equal in a pair. Nulls equal nothing.
	LeftOn, RightOn []Expr
	// Where is a further condition of a pair, on the columns of the result. Equalities in it are used like keys.
	Where *Expr
	// Suffix is appended to the names of columns on the right that the left side has as well (default "_right").
	Suffix string
	// NullAware makes an AntiJoin with one key that of NOT IN: a null on the right excludes all rows, and a null on the
	// left its row.
	NullAware bool
}

// joinKinds are the kinds of package plan; a right join is a left join with the sides exchanged.
var joinKinds = []plan.JoinKind{plan.Inner, plan.Left, plan.Left, plan.Full, plan.Semi, plan.Anti, plan.Cross}

// Join returns pairs of rows of q, the left side, and another query, the right side. A side that is small (32 MiB) is
// sent to all tasks of the other; otherwise the rows of both sides are exchanged by the hash of their keys. The order
// of the result is not specified.
func (q *Query) Join(right *Query, opts JoinOptions) *Query {
	return q.then("Join", func(n plan.Node) (plan.Node, error) {
		if err := q.combines(right); err != nil {
			return nil, err
		}
		if opts.Kind < 0 || int(opts.Kind) >= len(joinKinds) {
			return nil, fmt.Errorf("unknown kind %d", opts.Kind)
		}
		if opts.Suffix == "" {
			opts.Suffix = "_right"
		}
		return plan.NewJoin(n, right.node, plan.JoinSpec{Kind: joinKinds[opts.Kind], Swap: opts.Kind == RightJoin,
			On: slices.Clone(opts.On), LeftOn: opts.LeftOn, RightOn: opts.RightOn, Where: opts.Where,
			Suffix: opts.Suffix, NullAware: opts.NullAware})
	})
}
