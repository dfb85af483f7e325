package plan

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/expr"
)

// Summary specifies the columns that Describe summarizes.
type Summary struct {
	Columns []string
	Types   []string
}

// Describe turns one row of aggregates into a row for each column.
type Describe struct {
	In      Node
	Summary Summary
}

// DescribeSchema has the columns of the result of Describe.
var DescribeSchema = arrow.NewSchema([]arrow.Field{
	{Name: "column", Type: arrow.BinaryTypes.String},
	{Name: "type", Type: arrow.BinaryTypes.String},
	{Name: "count", Type: arrow.PrimitiveTypes.Int64},
	{Name: "nulls", Type: arrow.PrimitiveTypes.Int64},
	{Name: "mean", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	{Name: "std", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	{Name: "min", Type: arrow.BinaryTypes.String, Nullable: true},
	{Name: "q25", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	{Name: "median", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	{Name: "q75", Type: arrow.PrimitiveTypes.Float64, Nullable: true},
	{Name: "max", Type: arrow.BinaryTypes.String, Nullable: true},
}, nil)

// The names of the aggregates of a column.
func described(i int, what string) string { return fmt.Sprintf("%d %s", i, what) }

// DescribedColumn returns the name of an aggregate of column i, which is one of the columns of DescribeSchema, or
// "rows".
func DescribedColumn(i int, what string) string { return described(i, what) }

// NewDescribe returns statistics of all columns.
func NewDescribe(in Node) (Node, error) {
	s := in.Schema()
	aggs := []AggExpr{{Func: CountRows, Name: described(0, "rows")}}
	var sum Summary
	for i, f := range s.Fields() {
		sum.Columns, sum.Types = append(sum.Columns, f.Name), append(sum.Types, f.Type.String())
		col := expr.Col(f.Name)
		add := func(fn, what string, arg expr.Expr, param float64) {
			aggs = append(aggs, AggExpr{Func: fn, Arg: &arg, Param: param, Name: described(i, what)})
		}
		add(Count, "count", col, 0)
		if ordered(f.Type) {
			add(Min, "min", col, 0)
			add(Max, "max", col, 0)
		}
		if isNumber(f.Type) {
			add(Mean, "mean", col, 0)
			add(Std, "std", col, 0)
			add(ApproxQuantile, "q25", col, 0.25)
			add(ApproxQuantile, "median", col, 0.5)
			add(ApproxQuantile, "q75", col, 0.75)
		}
	}
	a, err := NewAggregate(in, nil, aggs)
	if err != nil {
		return nil, err
	}
	return &Describe{In: a, Summary: sum}, nil
}

// ordered reports whether minimum and maximum of a type are computed.
func ordered(t arrow.DataType) bool {
	switch t.ID() {
	case arrow.STRING, arrow.LARGE_STRING, arrow.DATE32, arrow.TIMESTAMP, arrow.BOOL:
		return true
	}
	return isNumber(t)
}

// Schema returns DescribeSchema.
func (n *Describe) Schema() *arrow.Schema { return DescribeSchema }

// Inputs returns the aggregate.
func (n *Describe) Inputs() []Node { return []Node{n.In} }

// Label returns the columns.
func (n *Describe) Label() string { return "Describe " + list(n.Summary.Columns) }

func (n *Describe) with(in []Node) Node { return &Describe{In: in[0], Summary: n.Summary} }
