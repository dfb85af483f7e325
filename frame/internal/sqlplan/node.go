package sqlplan

import "go.millstream.dev/frame/internal/sqltext"

// Expr is an expression whose columns are Refs.
type Expr = sqltext.Expr

// Table describes a table of the catalog.
type Table struct {
	// Columns are the names of its columns.
	Columns []string
	// NotNull are the columns that have no nulls.
	NotNull map[string]bool
	// Rows is the estimated number of rows, 0 if it is unknown.
	Rows float64
}

// Catalog has the tables of a statement by name.
type Catalog map[string]Table

// Node is an operator. The same node may be the input of several others.
type Node interface {
	// Columns returns the names of the columns of its result.
	Columns() []string
	// Rows returns the estimated number of rows.
	Rows() float64
}

// Named is a column of a result.
type Named struct {
	Name string
	Expr Expr
}

// Scan reads a table.
type Scan struct {
	Table string
	// From are the names of its columns, To their names in the plan.
	From, To []string
	rows     float64
}

// Filter keeps the rows for which a condition is true.
type Filter struct {
	In   Node
	Cond Expr
	rows float64
}

// Project computes columns.
type Project struct {
	In   Node
	Cols []Named
}

// Key is a pair of expressions that a join compares.
type Key struct{ Left, Right Expr }

// Join joins two inputs. An Inner join without keys has a condition.
type Join struct {
	Kind        sqltext.JoinKind
	Left, Right Node
	Keys        []Key
	// Cond is a further condition on the columns of both sides, or nil.
	Cond Expr
	// NullAware makes an anti join that of NOT IN.
	NullAware bool
	rows      float64
}

// Group computes aggregates.
type Group struct {
	In   Node
	Keys []Named
	Aggs []Call
	rows float64
}

// Call is an aggregate or a window function as a column.
type Call struct {
	Name string
	Call *sqltext.Call
}

// Window adds columns of window functions.
type Window struct {
	In    Node
	Calls []Call
}

// Sort orders rows.
type Sort struct {
	In   Node
	Keys []sqltext.OrderItem
}

// Limit keeps N rows, or all if N is negative, after Offset rows.
type Limit struct {
	In        Node
	Offset, N int64
}

// Distinct removes duplicates.
type Distinct struct{ In Node }

// Union has the rows of all inputs. The columns are those of the first.
type Union struct{ In []Node }

// One has one row, for SELECT without FROM. Its column has no meaning.
type One struct{ Name string }

// Columns returns its column.
func (n *One) Columns() []string { return []string{n.Name} }

// Rows returns 1.
func (n *One) Rows() float64 { return 1 }

// Columns returns the names in the plan.
func (n *Scan) Columns() []string { return n.To }

// Columns returns those of the input.
func (n *Filter) Columns() []string { return n.In.Columns() }

// Columns returns the computed columns.
func (n *Project) Columns() []string {
	out := make([]string, len(n.Cols))
	for i, c := range n.Cols {
		out[i] = c.Name
	}
	return out
}

// Columns returns those of both sides, or of the left one.
func (n *Join) Columns() []string {
	out := append([]string(nil), n.Left.Columns()...)
	if n.Kind != sqltext.Semi && n.Kind != sqltext.Anti {
		out = append(out, n.Right.Columns()...)
	}
	return out
}

// Columns returns keys and aggregates.
func (n *Group) Columns() []string {
	var out []string
	for _, k := range n.Keys {
		out = append(out, k.Name)
	}
	for _, a := range n.Aggs {
		out = append(out, a.Name)
	}
	return out
}

// Columns returns those of the input and the functions.
func (n *Window) Columns() []string {
	out := append([]string(nil), n.In.Columns()...)
	for _, c := range n.Calls {
		out = append(out, c.Name)
	}
	return out
}

// Columns returns those of the input.
func (n *Sort) Columns() []string { return n.In.Columns() }

// Columns returns those of the input.
func (n *Limit) Columns() []string { return n.In.Columns() }

// Columns returns those of the input.
func (n *Distinct) Columns() []string { return n.In.Columns() }

// Columns returns those of the first input.
func (n *Union) Columns() []string { return n.In[0].Columns() }

// Rows returns the size of the table.
func (n *Scan) Rows() float64 { return n.rows }

// Rows returns the estimate of the condition.
func (n *Filter) Rows() float64 { return n.rows }

// Rows returns that of the input.
func (n *Project) Rows() float64 { return n.In.Rows() }

// Rows returns the estimate of the join.
func (n *Join) Rows() float64 { return n.rows }

// Rows returns the estimated number of groups.
func (n *Group) Rows() float64 { return n.rows }

// Rows returns that of the input.
func (n *Window) Rows() float64 { return n.In.Rows() }

// Rows returns that of the input.
func (n *Sort) Rows() float64 { return n.In.Rows() }

// Rows returns at most the limit.
func (n *Limit) Rows() float64 {
	if n.N < 0 {
		return n.In.Rows()
	}
	return min(n.In.Rows(), float64(n.N))
}

// Rows returns that of the input.
func (n *Distinct) Rows() float64 { return n.In.Rows() }

// Rows returns the sum of the inputs.
func (n *Union) Rows() float64 {
	var sum float64
	for _, in := range n.In {
		sum += in.Rows()
	}
	return sum
}
