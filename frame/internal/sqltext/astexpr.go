package sqltext

// Expr is an expression: one of the types of this file.
type Expr interface {
	At() Pos
	expr()
}

// Name is a column by name, perhaps after the name of its table.
type Name struct {
	Pos
	// Table is empty if the name has no qualifier.
	Table, Column string
}

// Ref is a column of a plan. The parser returns none: those who resolve names put them in place of a Name. The name is
// distinct within the statement.
type Ref struct {
	Pos
	Name string
}

// Star is *, or t.*, in a select list.
type Star struct {
	Pos
	Table string
	// Exclude are columns that are left out.
	Exclude []string
	// Replace are other expressions for columns, which are the aliases.
	Replace []Item
}

// LiteralKind is the kind of a Literal.
type LiteralKind uint8

// The kinds of literals.
const (
	Null LiteralKind = iota
	Bool
	Integer
	Decimal
	Float
	String
	Date
	Timestamp
)

// Literal is a constant.
type Literal struct {
	Pos
	Kind LiteralKind
	// Text is "true" or "false", the digits of a number, a string, a date as 2006-01-02, or the text of a timestamp.
	Text string
}

// Interval is a constant duration in months, days and microseconds, which are kept apart as in PostgreSQL.
type Interval struct {
	Pos
	Months, Days, Micros int64
}

// Unary is "-" or "NOT" of an operand.
type Unary struct {
	Pos
	Op string
	X  Expr
}

// Binary is an operation on two operands: + - * / // % ^ || = <> < <= > >=, or IS DISTINCT FROM and its negation.
type Binary struct {
	Pos
	Op   string
	L, R Expr
}

// The operators of Binary that are words.
const (
	IsDistinct    = "IS DISTINCT FROM"
	IsNotDistinct = "IS NOT DISTINCT FROM"
)

// Logic is AND or OR of two or more operands.
type Logic struct {
	Pos
	Op   string
	Args []Expr
}

// IsTest is IS [NOT] NULL, TRUE or FALSE.
type IsTest struct {
	Pos
	X    Expr
	What string
	Not  bool
}

// Between is X [NOT] BETWEEN Low AND High.
type Between struct {
	Pos
	X, Low, High Expr
	Not          bool
}

// InList is X [NOT] IN (list).
type InList struct {
	Pos
	X    Expr
	List []Expr
	Not  bool
}

// InQuery is X [NOT] IN (query).
type InQuery struct {
	Pos
	X     Expr
	Query *Query
	Not   bool
}

// Exists is EXISTS (query).
type Exists struct {
	Pos
	Query *Query
}

// Subquery is a query whose only value is an operand.
type Subquery struct {
	Pos
	Query *Query
}

// Like is X [NOT] LIKE Pattern.
type Like struct {
	Pos
	X, Pattern Expr
	// Fold is ILIKE, which ignores case.
	Fold bool
	// Escape is the character before a literal % or _, or nil.
	Escape Expr
	Not    bool
}

// Case is CASE. Operand is nil if the conditions are complete.
type Case struct {
	Pos
	Operand Expr
	Whens   []When
	Else    Expr
}

// When is a branch of a Case.
type When struct{ Cond, Value Expr }

// Cast is CAST(X AS Type) or X::Type. TRY_CAST has Try.
type Cast struct {
	Pos
	X    Expr
	Type Type
	Try  bool
}

// Extract is EXTRACT(Field FROM X).
type Extract struct {
	Pos
	Field string
	X     Expr
}

// Call is a call of a function, an aggregate or a window function. Function is in lower case.
type Call struct {
	Pos
	Function string
	Args     []Expr
	// Star is count(*).
	Star     bool
	Distinct bool
	// OrderBy is the order of the rows of an aggregate.
	OrderBy []OrderItem
	// Filter is the condition of FILTER (WHERE …), or nil.
	Filter Expr
	// Over is the window, or nil.
	Over *Window
}

// Window is the window of a Call.
type Window struct {
	Pos
	PartitionBy []Expr
	OrderBy     []OrderItem
	// Frame is nil for the default.
	Frame *WindowFrame
}

// WindowFrame is ROWS BETWEEN Start AND End.
type WindowFrame struct {
	Start, End Bound
}

// Bound is an end of a WindowFrame.
type Bound struct {
	// Unbounded is the first or last row of the partition.
	Unbounded bool
	// Offset is a number of rows after the current row, negative before.
	Offset int64
}

func (*Name) expr()     {}
func (*Ref) expr()      {}
func (*Star) expr()     {}
func (*Literal) expr()  {}
func (*Interval) expr() {}
func (*Unary) expr()    {}
func (*Binary) expr()   {}
func (*Logic) expr()    {}
func (*IsTest) expr()   {}
func (*Between) expr()  {}
func (*InList) expr()   {}
func (*InQuery) expr()  {}
func (*Exists) expr()   {}
func (*Subquery) expr() {}
func (*Like) expr()     {}
func (*Case) expr()     {}
func (*Cast) expr()     {}
func (*Extract) expr()  {}
func (*Call) expr()     {}
