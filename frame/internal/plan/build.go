package plan

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/expr"
)

// NewFilter returns a Filter, and an error if the condition is no bool of the columns of the input.
func NewFilter(in Node, cond expr.Expr) (Node, error) {
	t, err := typeOf(cond, in.Schema())
	if err != nil {
		return nil, err
	}
	if t.ID() != arrow.BOOL && t.ID() != arrow.NULL {
		return nil, fmt.Errorf("%s is %v, not bool", cond, t)
	}
	return &Filter{In: in, Cond: cond}, nil
}

// NewProject returns a Project.
func NewProject(in Node, cols []Named) (Node, error) {
	if len(cols) == 0 {
		return nil, errors.New("no columns")
	}
	s := in.Schema()
	fields := make([]arrow.Field, len(cols))
	for i, c := range cols {
		if name, ok := columnName(c.Expr); ok {
			at, err := fieldOf(s, name)
			if err != nil {
				return nil, err
			}
			fields[i] = s.Field(at)
			fields[i].Name = c.Name
			continue
		}
		t, err := typeOf(c.Expr, s)
		if err != nil {
			return nil, err
		}
		fields[i] = arrow.Field{Name: c.Name, Type: t, Nullable: true}
	}
	if err := distinctNames(fields); err != nil {
		return nil, err
	}
	return &Project{In: in, Cols: cols, schema: arrow.NewSchema(fields, nil)}, nil
}

// NewSelect returns the columns that expressions compute.
func NewSelect(in Node, exprs []expr.Expr) (Node, error) {
	cols := make([]Named, len(exprs))
	for i, e := range exprs {
		cols[i] = Named{expr.Label(e), expr.Unnamed(e)}
	}
	return NewProject(in, cols)
}

// NewWith returns all columns of the input, of which expressions replace some and add others.
func NewWith(in Node, exprs []expr.Expr) (Node, error) {
	cols := Columns(in)
	var names []string
	for _, e := range exprs {
		name := expr.Label(e)
		if slices.Contains(names, name) {
			return nil, fmt.Errorf("two columns named %q; name one with As", name)
		}
		names = append(names, name)
		at := slices.IndexFunc(cols, func(c Named) bool { return c.Name == name })
		if at < 0 {
			cols = append(cols, Named{name, expr.Unnamed(e)})
		} else {
			cols[at].Expr = expr.Unnamed(e)
		}
	}
	return NewProject(in, cols)
}

// NewDrop returns the other columns.
func NewDrop(in Node, names []string) (Node, error) {
	for _, name := range names {
		if _, err := fieldOf(in.Schema(), name); err != nil {
			return nil, err
		}
	}
	cols := slices.DeleteFunc(Columns(in), func(c Named) bool { return slices.Contains(names, c.Name) })
	if len(cols) == 0 {
		return nil, errors.New("no column would be left")
	}
	return NewProject(in, cols)
}

// NewRename returns the input with another name for a column.
func NewRename(in Node, from, to string) (Node, error) {
	at, err := fieldOf(in.Schema(), from)
	if err != nil {
		return nil, err
	}
	cols := Columns(in)
	cols[at].Name = to
	return NewProject(in, cols)
}

// NoLimit is the number of rows of a Limit that only skips rows.
const NoLimit = math.MaxInt64 / 2

// NewLimit returns n rows after the first offset rows.
func NewLimit(in Node, offset, n int64) (Node, error) {
	if n < 0 || offset < 0 {
		return nil, fmt.Errorf("negative number of rows: %d from row %d", n, offset)
	}
	offset, n = min(offset, NoLimit), min(n, NoLimit)
	if l, ok := in.(*Limit); ok {
		return &Limit{In: l.In, Offset: min(l.Offset+offset, NoLimit), N: min(max(0, l.N-offset), n)}, nil
	}
	return &Limit{In: in, Offset: offset, N: n}, nil
}

// NewSample returns each row with a probability.
func NewSample(in Node, fraction float64, seed uint64) (Node, error) {
	if !(fraction >= 0 && fraction <= 1) {
		return nil, fmt.Errorf("fraction %v; use one between 0 and 1", fraction)
	}
	return &Sample{In: in, Fraction: fraction, Seed: seed}, nil
}

// NewDistinct returns the first row of those that are equal in some columns, or without names in all.
func NewDistinct(in Node, names []string) (Node, error) {
	s := in.Schema()
	if len(names) == 0 {
		for _, f := range s.Fields() {
			names = append(names, f.Name)
		}
	}
	var keys []string
	for _, name := range names {
		if _, err := fieldOf(s, name); err != nil {
			return nil, err
		}
		if !slices.Contains(keys, name) {
			keys = append(keys, name)
		}
	}
	var aggs []Agg
	for _, f := range s.Fields() {
		if !slices.Contains(keys, f.Name) {
			aggs = append(aggs, Agg{Func: First, Col: f.Name, Name: f.Name})
		}
	}
	n, err := newAggregate(in, keys, aggs)
	if err != nil {
		return nil, err
	}
	n.distinct = true
	return NewProject(n, Columns(in))
}

// NewUnion returns the rows of all inputs, which have the same columns.
func NewUnion(in []Node) (Node, error) {
	want := in[0].Schema()
	for i, n := range in {
		s := n.Schema()
		if s.NumFields() != want.NumFields() {
			return nil, fmt.Errorf("query %d has %d columns (%s), the first %d (%s)", i, s.NumFields(), Names(s),
				want.NumFields(), Names(want))
		}
		for j, f := range s.Fields() {
			w := want.Field(j)
			if f.Name != w.Name {
				return nil, fmt.Errorf("column %d of query %d is %q, that of the first is %q; use Select or Rename",
					j, i, f.Name, w.Name)
			}
			if !arrow.TypeEqual(f.Type, w.Type) {
				return nil, fmt.Errorf("column %q of query %d is %v, that of the first is %v; use Cast", f.Name, i,
					f.Type, w.Type)
			}
		}
	}
	if len(in) == 1 {
		return in[0], nil
	}
	return &Union{In: in}, nil
}

// OrderExpr is a sort key as users write it.
type OrderExpr struct {
	Expr       expr.Expr
	Descending bool
	NullsFirst bool
}

// NewSort returns the rows ordered, the first limit of them if that is not negative.
func NewSort(in Node, keys []OrderExpr, limit int64) (Node, error) {
	if len(keys) == 0 {
		return nil, errors.New("no keys")
	}
	p := newProjector(in)
	out := make([]SortKey, len(keys))
	for i, k := range keys {
		name, err := p.column(k.Expr)
		if err != nil {
			return nil, err
		}
		out[i] = SortKey{Col: name, Descending: k.Descending, NullsFirst: k.NullsFirst}
	}
	below, err := p.node()
	if err != nil {
		return nil, err
	}
	return p.original(&Sort{In: below, Keys: out, Limit: limit})
}

// projector adds computed columns to an input, for operators that work on columns.
type projector struct {
	in    Node
	cols  []Named
	added bool
}

func newProjector(in Node) *projector { return &projector{in: in, cols: Columns(in)} }

// column returns the name of a column with the value of an expression.
func (p *projector) column(e expr.Expr) (string, error) {
	e = expr.Unnamed(e)
	if _, err := typeOf(e, p.in.Schema()); err != nil {
		return "", err
	}
	if name, ok := columnName(e); ok {
		return name, nil
	}
	for _, c := range p.cols {
		if expr.Equal(c.Expr, e) {
			return c.Name, nil
		}
	}
	name := unused(p.cols)
	p.cols, p.added = append(p.cols, Named{name, e}), true
	return name, nil
}

// node returns the input with the added columns.
func (p *projector) node() (Node, error) {
	if !p.added {
		return p.in, nil
	}
	return NewProject(p.in, p.cols)
}

// original removes the added columns.
func (p *projector) original(n Node) (Node, error) {
	if !p.added {
		return n, nil
	}
	return NewProject(n, Columns(p.in))
}

// unused returns a name that no column has.
func unused(cols []Named) string {
	for i := 1; ; i++ {
		name := "_" + strconv.Itoa(i)
		if !slices.ContainsFunc(cols, func(c Named) bool { return c.Name == name }) {
			return name
		}
	}
}

// Columns returns the columns of a node as a projection that changes nothing.
func Columns(n Node) []Named {
	fields := n.Schema().Fields()
	out := make([]Named, len(fields))
	for i, f := range fields {
		out[i] = Named{f.Name, column(f.Name)}
	}
	return out
}

// fieldOf returns the position of a column.
func fieldOf(s *arrow.Schema, name string) (int, error) {
	at := s.FieldIndices(name)
	if len(at) == 0 {
		return 0, fmt.Errorf("no column %q; columns are %s", name, Names(s))
	}
	return at[0], nil
}

// Names returns the names of the columns of a schema as text.
func Names(s *arrow.Schema) string {
	names := make([]string, s.NumFields())
	for i, f := range s.Fields() {
		names[i] = f.Name
	}
	return list(names)
}

// distinctNames returns an error that names the columns that occur twice.
func distinctNames(fields []arrow.Field) error {
	seen := map[string]int{}
	var twice []string
	for _, f := range fields {
		if seen[f.Name]++; seen[f.Name] == 2 {
			twice = append(twice, strconv.Quote(f.Name))
		}
	}
	if len(twice) == 0 {
		return nil
	}
	return fmt.Errorf("more than one column named %s; name them with As or Rename", strings.Join(twice, ", "))
}

// Distinct returns an error if a schema has two columns of one name.
func Distinct(s *arrow.Schema) error { return distinctNames(s.Fields()) }
