package frame

import (
	"fmt"

	"go.millstream.dev/frame/internal/order"
	"go.millstream.dev/frame/internal/plan"
)

// WindowFunc is a function of rows around each row, for Query.Window. The name of its column is that of As, or the text
// of the function.
type WindowFunc struct {
	x   plan.WindowExpr
	err error
}

// WindowOptions specifies the rows that window functions see.
type WindowOptions struct {
	// PartitionBy are keys: functions see only rows with equal keys (default: all rows, in one task).
	PartitionBy []Expr
	// OrderBy is the order of these rows.
	OrderBy []SortKey
}

// RowNumber returns the number of the row in its partition, from 1.
func RowNumber() WindowFunc { return windowFunc(order.RowNumber, nil, 0) }

// Rank returns the number of the first row with the same keys of OrderBy.
func Rank() WindowFunc { return windowFunc(order.Rank, nil, 0) }

// DenseRank is Rank without gaps.
func DenseRank() WindowFunc { return windowFunc(order.DenseRank, nil, 0) }

// Lag returns the value of an expression n rows before, null if there is none.
func Lag(e Expr, n int) WindowFunc { return windowFunc(order.Lag, &e, n) }

// Lead returns the value of an expression n rows after, null if there is none.
func Lead(e Expr, n int) WindowFunc { return windowFunc(order.Lead, &e, n) }

func windowFunc(f order.Function, arg *Expr, offset int) WindowFunc {
	w := WindowFunc{x: plan.WindowExpr{WindowFunc: plan.WindowFunc{Func: f, Offset: offset}, Arg: arg}}
	text := ""
	if arg != nil {
		text = arg.String()
	}
	w.x.Name = fmt.Sprintf("%v(%s)", f, text)
	return w
}

// windowAggregates are the aggregates that Over accepts.
var windowAggregates = map[string]order.Function{"sum": order.Sum, "mean": order.Mean, "min": order.Min,
	"max": order.Max, "count": order.Count, "first": order.First, "last": order.Last}

// Over returns an aggregate (Count, CountOf, Sum, Mean, Min, Max, First or Last) of the rows of the partition up to the
// current one and those with the same keys of OrderBy, as in SQL: without OrderBy of the whole partition. Rows
// specifies others.
func Over(a Agg) WindowFunc {
	f, ok := windowAggregates[a.x.Func]
	w := windowFunc(f, a.x.Arg, 0)
	w.x.Frame = order.Frame{Preceding: order.Unbounded, Peers: true}
	w.x.Name = a.x.Result()
	if !ok {
		w.err = fmt.Errorf("%v is no function of windows; use Count, CountOf, Sum, Mean, Min, Max, First or Last", a)
	}
	return w
}

// Rows restricts an aggregate of Over to rows before and after the current one; a negative number means all. Rows(6, 0)
// is a rolling window of seven rows, Rows(-1, 0) is cumulative.
func (w WindowFunc) Rows(before, after int) WindowFunc {
	w.x.Frame = order.Frame{Preceding: max(before, order.Unbounded), Following: max(after, order.Unbounded)}
	return w
}

// As returns the function with a name, which is that of the column of the result.
func (w WindowFunc) As(name string) WindowFunc {
	w.x.Name = name
	return w
}

// Window returns all columns and one for each function. The order of the rows is not specified.
func (q *Query) Window(opts WindowOptions, funcs ...WindowFunc) *Query {
	return q.then("Window", func(n plan.Node) (plan.Node, error) {
		out := make([]plan.WindowExpr, len(funcs))
		for i, f := range funcs {
			if f.err != nil {
				return nil, f.err
			}
			out[i] = f.x
		}
		return plan.NewWindow(n, opts.PartitionBy, orderOf(opts.OrderBy), out)
	})
}
