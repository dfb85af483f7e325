package sqltext

// Query is a query expression: a statement, a subquery or the text of a common table expression.
type Query struct {
	Pos
	// With are the common table expressions, in order; each may use those before it.
	With []CTE
	// Body is a *Select or a *Union.
	Body Body
	// OrderBy sorts the result of the body.
	OrderBy []OrderItem
	// Limit and Offset are nil or numbers of rows.
	Limit, Offset *int64
}

// CTE is a common table expression.
type CTE struct {
	Pos
	Name string
	// Columns are names for the columns of the query, or none.
	Columns []string
	Query   *Query
}

// Body is a *Select, a *Union or, in parentheses, a *Query.
type Body interface {
	At() Pos
	body()
}

// SetOp is an operation on the rows of two results.
type SetOp string

// The operations.
const (
	UnionOp     SetOp = "UNION"
	IntersectOp SetOp = "INTERSECT"
	ExceptOp    SetOp = "EXCEPT"
)

// Union is the union, intersection or difference of two results.
type Union struct {
	Pos
	Op SetOp
	// All keeps duplicates.
	All         bool
	Left, Right Body
}

// Select is a SELECT without ORDER BY and LIMIT.
type Select struct {
	Pos
	Distinct bool
	Items    []Item
	// From are the elements of the comma-separated list, or none.
	From    []TableRef
	Where   Expr
	GroupBy []Expr
	// GroupByAll is GROUP BY ALL: all items without aggregates are keys.
	GroupByAll bool
	Having     Expr
	Qualify    Expr
}

func (*Select) body() {}
func (*Union) body()  {}
func (*Query) body()  {}

// Item is an element of a select list.
type Item struct {
	// Expr is an expression or a *Star.
	Expr  Expr
	Alias string
}

// OrderItem is an element of ORDER BY.
type OrderItem struct {
	// Expr is a *Star for ORDER BY ALL.
	Expr       Expr
	Desc       bool
	NullsFirst bool
}

// TableRef is a *Table, a *Derived or a *Join.
type TableRef interface {
	At() Pos
	tableRef()
}

// Table is a table or common table expression by name.
type Table struct {
	Pos
	Name  string
	Alias string
	// Columns are names for its columns, or none.
	Columns []string
}

// Derived is a subquery in FROM.
type Derived struct {
	Pos
	Query   *Query
	Alias   string
	Columns []string
}

// Join is a join of two tables.
type Join struct {
	Pos
	Kind        JoinKind
	Left, Right TableRef
	// On is the condition, or nil.
	On Expr
	// Using are the names of columns of both sides.
	Using []string
}

func (*Table) tableRef()   {}
func (*Derived) tableRef() {}
func (*Join) tableRef()    {}

// JoinKind is the kind of a join.
type JoinKind string

// The kinds of joins. Semi and Anti have the columns of the left side only.
const (
	Inner JoinKind = "INNER"
	Left  JoinKind = "LEFT"
	Right JoinKind = "RIGHT"
	Full  JoinKind = "FULL"
	Cross JoinKind = "CROSS"
	Semi  JoinKind = "SEMI"
	Anti  JoinKind = "ANTI"
)
