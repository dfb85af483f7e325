package plan

import (
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/expr"
	"go.millstream.dev/frame/internal/order"
)

// WindowFunc is a function of the rows around a row.
type WindowFunc struct {
	Func order.Function
	// Col is the column of its argument, "" without one.
	Col string
	// Offset is the distance of Lag and Lead in rows.
	Offset int
	// Frame are the rows that an aggregate is of.
	Frame order.Frame
	// Name is the name of the result.
	Name string
}

// Window returns the function for columns of a schema.
func (f WindowFunc) Window(s *arrow.Schema) (order.Window, error) {
	w := order.Window{Function: f.Func, Name: f.Name, Col: -1, Offset: f.Offset, Frame: f.Frame}
	if f.Col != "" {
		at, err := expr.ColumnIndex(s, f.Col)
		if err != nil {
			return w, err
		}
		w.Col = at
	}
	return w, nil
}

// String returns the function as text.
func (f WindowFunc) String() string {
	text := f.Func.String() + "(" + f.Col
	if f.Offset != 0 {
		text += ", " + number(int64(f.Offset))
	}
	return text + ") as " + f.Name
}

// WindowExpr is a WindowFunc as users write it.
type WindowExpr struct {
	WindowFunc
	// Arg is the argument, nil without one. Col is not set.
	Arg *expr.Expr
}

// Window adds columns with functions of rows with equal keys, in an order.
type Window struct {
	In        Node
	Partition []string
	Order     []SortKey
	Funcs     []WindowFunc
	schema    *arrow.Schema
}

// NewWindow returns all columns and those of functions.
func NewWindow(in Node, partition []expr.Expr, keys []OrderExpr, funcs []WindowExpr) (Node, error) {
	if len(funcs) == 0 {
		return nil, errors.New("no functions")
	}
	p := newProjector(in)
	n := &Window{}
	for _, e := range partition {
		name, err := p.column(e)
		if err != nil {
			return nil, err
		}
		n.Partition = append(n.Partition, name)
	}
	for _, k := range keys {
		name, err := p.column(k.Expr)
		if err != nil {
			return nil, err
		}
		n.Order = append(n.Order, SortKey{Col: name, Descending: k.Descending, NullsFirst: k.NullsFirst})
	}
	out := Columns(in)
	for _, f := range funcs {
		if f.Arg != nil {
			name, err := p.column(*f.Arg)
			if err != nil {
				return nil, err
			}
			f.Col = name
		}
		if slices.ContainsFunc(out, func(c Named) bool { return c.Name == f.Name }) {
			return nil, fmt.Errorf("more than one column named %q; name them with As or Rename", f.Name)
		}
		n.Funcs = append(n.Funcs, f.WindowFunc)
		out = append(out, Named{f.Name, column(f.Name)})
	}
	// Computed arguments must not have the name of a result.
	for i, f := range n.Funcs {
		if slices.ContainsFunc(p.cols, func(c Named) bool { return c.Name == f.Name }) {
			return nil, fmt.Errorf("function %d cannot be named %q; choose another name", i, f.Name)
		}
	}
	below, err := p.node()
	if err != nil {
		return nil, err
	}
	var fields []arrow.Field
	for _, f := range n.Funcs {
		w, err := f.Window(below.Schema())
		if err != nil {
			return nil, err
		}
		t, err := w.Type(below.Schema())
		if err != nil {
			return nil, err
		}
		fields = append(fields, arrow.Field{Name: f.Name, Type: t, Nullable: true})
	}
	w := newWindow(below, n.Partition, n.Order, n.Funcs, arrow.NewSchema(fields, nil))
	if !p.added {
		return w, nil
	}
	return NewProject(w, out)
}

// newWindow returns a Window whose added columns have the types that they have in a schema.
func newWindow(in Node, partition []string, keys []SortKey, funcs []WindowFunc, types *arrow.Schema) *Window {
	fields := slices.Clone(in.Schema().Fields())
	for _, f := range funcs {
		fields = append(fields, types.Field(types.FieldIndices(f.Name)[0]))
	}
	return &Window{In: in, Partition: partition, Order: keys, Funcs: funcs, schema: arrow.NewSchema(fields, nil)}
}

// Schema returns the columns of the input and the added ones.
func (n *Window) Schema() *arrow.Schema { return n.schema }

// Inputs returns the input.
func (n *Window) Inputs() []Node { return []Node{n.In} }

// Label returns functions, keys and order.
func (n *Window) Label() string {
	parts := make([]string, len(n.Funcs))
	for i, f := range n.Funcs {
		parts[i] = f.String()
	}
	text := "Window " + list(parts)
	if len(n.Partition) > 0 {
		text += " by " + list(n.Partition)
	}
	if len(n.Order) > 0 {
		keys := make([]string, len(n.Order))
		for i, k := range n.Order {
			keys[i] = k.String()
		}
		text += " order by " + list(keys)
	}
	return text
}

func (n *Window) with(in []Node) Node {
	return newWindow(in[0], n.Partition, n.Order, n.Funcs, n.schema)
}
