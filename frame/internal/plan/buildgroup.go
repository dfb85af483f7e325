package plan

import (
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/expr"
)

// AggExpr is an aggregate as users write it.
type AggExpr struct {
	// Func is the name of the function, as in package group.
	Func string
	// Arg is its argument, nil for the number of rows.
	Arg *expr.Expr
	// Param is its parameter, such as the fraction of a quantile.
	Param float64
	// Name is the name of the result, "" for the text of the aggregate.
	Name string
}

// String returns the aggregate as text.
func (a AggExpr) String() string {
	x := Agg{Func: a.Func, Param: a.Param}
	if a.Arg != nil {
		x.Col = a.Arg.String()
	}
	x.Name = a.Name
	if a.Name == "" {
		x.Name = x.Func + "(" + x.Col + ")"
		if x.Col == "" {
			x.Name = x.Func + "(*)"
		}
	}
	return x.String()
}

// Result returns the name of the result.
func (a AggExpr) Result() string {
	if a.Name != "" {
		return a.Name
	}
	x := AggExpr{Func: a.Func, Arg: a.Arg, Param: a.Param, Name: "\x00"}.String()
	return x[:len(x)-len(" as \x00")]
}

// NewAggregate returns the aggregates of groups.
func NewAggregate(in Node, keys []expr.Expr, aggs []AggExpr) (Node, error) {
	if len(keys)+len(aggs) == 0 {
		return nil, errors.New("no keys and no aggregates")
	}
	s := in.Schema()
	var cols []Named
	var names []string
	for _, k := range keys {
		name := expr.Label(k)
		if _, err := typeOf(k, s); err != nil {
			return nil, err
		}
		if slices.Contains(names, name) {
			return nil, fmt.Errorf("two keys named %q; name one with As", name)
		}
		names = append(names, name)
		cols = append(cols, Named{name, expr.Unnamed(k)})
	}
	out := make([]Agg, len(aggs))
	for i, a := range aggs {
		out[i] = Agg{Func: a.Func, Param: a.Param, Name: a.Result()}
		if a.Arg == nil {
			continue
		}
		if _, err := typeOf(*a.Arg, s); err != nil {
			return nil, err
		}
		out[i].Col, cols = argument(cols, expr.Unnamed(*a.Arg))
	}
	below := in
	if len(cols) > 0 {
		var err error
		if below, err = NewProject(in, cols); err != nil {
			return nil, err
		}
	}
	return newAggregate(below, names, out)
}

// argument returns the column of an expression, which it adds if there is none.
func argument(cols []Named, e expr.Expr) (string, []Named) {
	for _, c := range cols {
		if expr.Equal(c.Expr, e) {
			return c.Name, cols
		}
	}
	name, ok := columnName(e)
	if !ok || slices.ContainsFunc(cols, func(c Named) bool { return c.Name == name }) {
		name = unused(cols)
	}
	return name, append(cols, Named{name, e})
}

// newAggregate returns an aggregate of columns.
func newAggregate(in Node, keys []string, aggs []Agg) (*Aggregate, error) {
	n := &Aggregate{In: in, Keys: keys, Aggs: aggs}
	var err error
	if n.schema, err = aggregateSchema(in.Schema(), keys, aggs); err != nil {
		return nil, err
	}
	return n, distinctNames(n.schema.Fields())
}

// positions returns the positions of columns.
func positions(s *arrow.Schema, names []string) ([]int, error) {
	out := make([]int, len(names))
	for i, name := range names {
		at, err := fieldOf(s, name)
		if err != nil {
			return nil, err
		}
		out[i] = at
	}
	return out, nil
}
