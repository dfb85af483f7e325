// Package plan has the logical plans of queries: a tree of operators with resolved schemas, the rules that rewrite it,
// and its description. It does not know clusters: package stages runs plans.
package plan

import (
	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/expr"
)

// Node is an operator of a plan. Nodes are immutable: rewriting returns others.
type Node interface {
	// Schema returns the columns of the result. Their names are distinct.
	Schema() *arrow.Schema
	// Inputs returns the operators whose results the operator reads.
	Inputs() []Node
	// Label returns the operator and its parameters in one line, for descriptions.
	Label() string
	// with returns the operator with other inputs of the same columns, or more.
	with(inputs []Node) Node
}

// Named is a column that is computed.
type Named struct {
	Name string
	Expr expr.Expr
}

// Table is a table in memory of the cluster: a frame.
type Table interface {
	// Schema returns its columns.
	Schema() *arrow.Schema
	// NumPartitions returns the number of its partitions.
	NumPartitions() int
	// Describe returns its name in descriptions.
	Describe() string
	// Size returns the rows and bytes of its partitions, if they are known.
	Size() (rows, bytes int64, ok bool)
}

// Source is the operator that reads a table.
type Source struct{ Table Table }

// Schema returns the columns of the table.
func (n *Source) Schema() *arrow.Schema { return n.Table.Schema() }

// Inputs returns nothing.
func (n *Source) Inputs() []Node { return nil }

// Label describes the table.
func (n *Source) Label() string { return n.Table.Describe() }

func (n *Source) with([]Node) Node { return n }

// Filter keeps the rows for which a condition is true.
type Filter struct {
	In   Node
	Cond expr.Expr
}

// Schema returns the columns of the input.
func (n *Filter) Schema() *arrow.Schema { return n.In.Schema() }

// Inputs returns the input.
func (n *Filter) Inputs() []Node { return []Node{n.In} }

// Label returns the condition.
func (n *Filter) Label() string { return "Filter " + n.Cond.String() }

func (n *Filter) with(in []Node) Node { return &Filter{In: in[0], Cond: n.Cond} }

// Project computes columns from those of the input.
type Project struct {
	In     Node
	Cols   []Named
	schema *arrow.Schema
}

// Schema returns the computed columns.
func (n *Project) Schema() *arrow.Schema { return n.schema }

// Inputs returns the input.
func (n *Project) Inputs() []Node { return []Node{n.In} }

// Label returns the columns.
func (n *Project) Label() string {
	parts := make([]string, len(n.Cols))
	for i, c := range n.Cols {
		if parts[i] = c.Expr.String(); parts[i] != c.Name {
			parts[i] += " as " + c.Name
		}
	}
	return "Project " + list(parts)
}

func (n *Project) with(in []Node) Node { return &Project{In: in[0], Cols: n.Cols, schema: n.schema} }

// Agg is an aggregate of a column.
type Agg struct {
	// Func is the name of the function, as in package group.
	Func string
	// Col is the column, "" for the number of rows.
	Col string
	// Param is the parameter of the function, such as the fraction of a quantile.
	Param float64
	// Name is the name of the result.
	Name string
}

// Aggregate computes aggregates of groups of rows with equal keys, or without keys of all rows.
type Aggregate struct {
	In     Node
	Keys   []string
	Aggs   []Agg
	schema *arrow.Schema
	// distinct is set for the operator of Distinct, for descriptions.
	distinct bool
}

// Schema returns keys and aggregates.
func (n *Aggregate) Schema() *arrow.Schema { return n.schema }

// Inputs returns the input.
func (n *Aggregate) Inputs() []Node { return []Node{n.In} }

// Label returns keys and aggregates.
func (n *Aggregate) Label() string {
	if n.distinct {
		return "Distinct " + list(n.Keys)
	}
	parts := make([]string, len(n.Aggs))
	for i, a := range n.Aggs {
		parts[i] = a.String()
	}
	text := "Aggregate " + list(parts)
	if len(n.Keys) > 0 {
		text += " by " + list(n.Keys)
	}
	return text
}

func (n *Aggregate) with(in []Node) Node {
	return &Aggregate{In: in[0], Keys: n.Keys, Aggs: n.Aggs, schema: n.schema, distinct: n.distinct}
}

// SortKey is a column to sort by.
type SortKey struct {
	Col        string
	Descending bool
	NullsFirst bool
}

// Sort orders rows. With Limit it keeps only the first rows.
type Sort struct {
	In    Node
	Keys  []SortKey
	Limit int64 // -1: all
}

// Schema returns the columns of the input.
func (n *Sort) Schema() *arrow.Schema { return n.In.Schema() }

// Inputs returns the input.
func (n *Sort) Inputs() []Node { return []Node{n.In} }

// Label returns the keys.
func (n *Sort) Label() string {
	parts := make([]string, len(n.Keys))
	for i, k := range n.Keys {
		parts[i] = k.String()
	}
	if n.Limit >= 0 {
		return "Top " + number(n.Limit) + " by " + list(parts)
	}
	return "Sort by " + list(parts)
}

func (n *Sort) with(in []Node) Node { return &Sort{In: in[0], Keys: n.Keys, Limit: n.Limit} }

// Limit keeps the rows from Offset to Offset+N, in order.
type Limit struct {
	In        Node
	Offset, N int64
}

// Schema returns the columns of the input.
func (n *Limit) Schema() *arrow.Schema { return n.In.Schema() }

// Inputs returns the input.
func (n *Limit) Inputs() []Node { return []Node{n.In} }

// Label returns the number of rows.
func (n *Limit) Label() string {
	if n.N >= NoLimit {
		return "Offset " + number(n.Offset)
	}
	text := "Limit " + number(n.N)
	if n.Offset > 0 {
		text += " from row " + number(n.Offset)
	}
	return text
}

func (n *Limit) with(in []Node) Node { return &Limit{In: in[0], Offset: n.Offset, N: n.N} }

// Union has the rows of all inputs, in their order.
type Union struct{ In []Node }

// Schema returns the columns of the inputs.
func (n *Union) Schema() *arrow.Schema { return n.In[0].Schema() }

// Inputs returns the inputs.
func (n *Union) Inputs() []Node { return n.In }

// Label returns the name of the operator.
func (n *Union) Label() string { return "Union" }

func (n *Union) with(in []Node) Node { return &Union{In: in} }

// Sample keeps each row with a probability.
type Sample struct {
	In       Node
	Fraction float64
	Seed     uint64
}

// Schema returns the columns of the input.
func (n *Sample) Schema() *arrow.Schema { return n.In.Schema() }

// Inputs returns the input.
func (n *Sample) Inputs() []Node { return []Node{n.In} }

// Label returns the probability.
func (n *Sample) Label() string {
	return "Sample " + float(n.Fraction) + ", seed " + number(int64(n.Seed))
}

func (n *Sample) with(in []Node) Node { return &Sample{In: in[0], Fraction: n.Fraction, Seed: n.Seed} }
