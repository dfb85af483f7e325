package frame

import (
	"errors"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/frame/internal/plan"
)

// Agg is an aggregate of the rows of a group, for Query.Agg and Grouping.Agg. Aggregates skip nulls. The name of the
// result is that of As, or the text of the aggregate.
type Agg struct{ x plan.AggExpr }

// As returns the aggregate with a name, which is that of the column of the result.
func (a Agg) As(name string) Agg {
	a.x.Name = name
	return a
}

// String returns the aggregate as text.
func (a Agg) String() string { return a.x.String() }

func aggregate(f string, e Expr, param float64) Agg {
	return Agg{plan.AggExpr{Func: f, Arg: &e, Param: param}}
}

// Count returns the number of rows.
func Count() Agg { return Agg{plan.AggExpr{Func: plan.CountRows}} }

// CountOf returns the number of values of an expression that are not null.
func CountOf(e Expr) Agg { return aggregate(plan.Count, e, 0) }

// Sum returns the sum of numbers: int64 for integers, uint64 for unsigned ones, float64, or a decimal. It is null
// without values. An overflow is an error.
func Sum(e Expr) Agg { return aggregate(plan.Sum, e, 0) }

// Min returns the smallest value. Texts are compared by their bytes.
func Min(e Expr) Agg { return aggregate(plan.Min, e, 0) }

// Max returns the largest value.
func Max(e Expr) Agg { return aggregate(plan.Max, e, 0) }

// Mean returns the mean of numbers as float64.
func Mean(e Expr) Agg { return aggregate(plan.Mean, e, 0) }

// Var returns the variance of a sample (with n-1) as float64; it is null for less than two values.
func Var(e Expr) Agg { return aggregate(plan.Var, e, 0) }

// Std returns the standard deviation of a sample (with n-1) as float64; it is null for less than two values.
func Std(e Expr) Agg { return aggregate(plan.Std, e, 0) }

// Median returns the median as float64, the mean of the two values in the middle of an even number.
func Median(e Expr) Agg { return aggregate(plan.Median, e, 0) }

// Quantile returns a quantile as float64, interpolated between two values; q is between 0 and 1.
func Quantile(e Expr, q float64) Agg { return aggregate(plan.Quantile, e, q) }

// ApproxQuantile returns an approximate quantile, which needs memory of bounded size for each group.
func ApproxQuantile(e Expr, q float64) Agg { return aggregate(plan.ApproxQuantile, e, q) }

// First returns the value of the first row, in the order of the partitions; it may be null.
func First(e Expr) Agg { return aggregate(plan.First, e, 0) }

// Last returns the value of the last row, in the order of the partitions; it may be null.
func Last(e Expr) Agg { return aggregate(plan.Last, e, 0) }

// NUnique returns the number of different values.
func NUnique(e Expr) Agg { return aggregate(plan.NUnique, e, 0) }

// CollectList returns the values and nulls as a list, in the order of the partitions.
func CollectList(e Expr) Agg { return aggregate(plan.CollectList, e, 0) }

// Grouping is a query whose rows are grouped by keys. Use Agg.
type Grouping struct {
	q    *Query
	keys []Expr
}

// GroupBy groups the rows by keys: rows with equal keys are one group. Nulls are equal, and so are all NaNs.
func (q *Query) GroupBy(keys ...Expr) *Grouping { return &Grouping{q, keys} }

// Agg returns one row for each group: the keys and the aggregates. The order of the groups is not specified.
func (g *Grouping) Agg(aggs ...Agg) *Query {
	return g.q.then("GroupBy", func(n plan.Node) (plan.Node, error) {
		if len(g.keys) == 0 {
			return nil, errors.New("no keys; use Query.Agg for aggregates of all rows")
		}
		return plan.NewAggregate(n, g.keys, aggregates(aggs))
	})
}

// Agg returns one row: the aggregates of all rows.
func (q *Query) Agg(aggs ...Agg) *Query {
	return q.then("Agg", func(n plan.Node) (plan.Node, error) {
		if len(aggs) == 0 {
			return nil, errors.New("no aggregates")
		}
		return plan.NewAggregate(n, nil, aggregates(aggs))
	})
}

func aggregates(aggs []Agg) []plan.AggExpr {
	out := make([]plan.AggExpr, len(aggs))
	for i, a := range aggs {
		out[i] = a.x
	}
	return out
}

// countIn returns the only value of the result of Count.
func countIn(batches []arrow.RecordBatch) (int64, error) {
	for _, b := range batches {
		if c, ok := b.Column(0).(*array.Int64); ok && c.Len() == 1 {
			return c.Value(0), nil
		}
	}
	return 0, errors.New("frame: Count returned no row")
}
