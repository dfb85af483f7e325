package sqlplan

import (
	"math"
	"slices"
	"strings"

	"go.millstream.dev/frame/internal/sqltext"
)

// tables is a lowered element of FROM: relations that are joined by conditions, and the columns that they have.
type tables struct {
	parts   []*relation
	conds   []Expr
	columns []column
}

// node joins the relations.
func (t *tables) node() Node { return order(t.parts, t.conds) }

// from lowers FROM.
func (l *lowerer) from(sel *sqltext.Select, outer *scope, e *env) (*tables, error) {
	if len(sel.From) == 0 {
		return &tables{parts: []*relation{newRelation(&One{Name: l.unique("_one")})}}, nil
	}
	out := &tables{}
	for _, f := range sel.From {
		t, err := l.table(f, outer, e)
		if err != nil {
			return nil, err
		}
		if err := out.add(t, f.At()); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// add adds relations, whose names must be distinct.
func (t *tables) add(o *tables, pos sqltext.Pos) error {
	for _, a := range t.columns {
		for _, b := range o.columns {
			if strings.EqualFold(a.table, b.table) && a.table != "" {
				return sqltext.Errorf(pos, "there are two tables named %s; give one an alias", a.table)
			}
		}
	}
	t.parts = append(t.parts, o.parts...)
	t.conds = append(t.conds, o.conds...)
	t.columns = append(slices.Clone(t.columns), o.columns...)
	return nil
}

func (l *lowerer) table(ref sqltext.TableRef, outer *scope, e *env) (*tables, error) {
	switch t := ref.(type) {
	case *sqltext.Table:
		alias := t.Alias
		if alias == "" {
			alias = t.Name
		}
		res, err := l.named(t, alias, e)
		if err != nil {
			return nil, err
		}
		return relationOf(res, alias, t.Columns, t.Pos)
	case *sqltext.Derived:
		// A derived table sees no columns of the tables next to it.
		res, err := l.query(t.Query, nil, e)
		if err != nil {
			return nil, err
		}
		return relationOf(res, t.Alias, t.Columns, t.Pos)
	case *sqltext.Join:
		return l.join(t, outer, e)
	}
	return nil, sqltext.Unsupported(ref.At(), "this table")
}

// named returns a table or common table expression by name.
func (l *lowerer) named(t *sqltext.Table, alias string, e *env) (*result, error) {
	if cte := e.find(t.Name); cte != nil {
		return l.use(cte)
	}
	name, table, ok := l.catalog.find(t.Name)
	if !ok {
		if len(l.catalog) == 0 {
			return nil, sqltext.Errorf(t.Pos, "no table %s; there are no tables", sqltext.Quote(t.Name))
		}
		return nil, sqltext.Errorf(t.Pos, "no table %s; tables are %s", sqltext.Quote(t.Name), l.catalog.names())
	}
	scan := &Scan{Table: name, From: table.Columns, rows: table.Rows}
	if scan.rows <= 0 {
		scan.rows = unknownRows
	}
	res := &result{node: scan}
	for _, c := range table.Columns {
		to := l.unique(c, alias+"."+c)
		scan.To = append(scan.To, to)
		res.columns = append(res.columns, column{name: c, ref: to})
	}
	return res, nil
}

// find returns a table by its name, or by its name without regard to case if that is unique.
func (c Catalog) find(name string) (string, Table, bool) {
	if t, ok := c[name]; ok {
		return name, t, true
	}
	var found []string
	for n := range c {
		if strings.EqualFold(n, name) {
			found = append(found, n)
		}
	}
	if len(found) != 1 {
		return "", Table{}, false
	}
	return found[0], c[found[0]], true
}

// names returns the names of the tables as text.
func (c Catalog) names() string {
	var out []string
	for n := range c {
		out = append(out, sqltext.Quote(n))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// relationOf returns the result of a query as a relation with an alias.
func relationOf(res *result, alias string, names []string, pos sqltext.Pos) (*tables, error) {
	what := "the derived table"
	if alias != "" {
		what = "the table " + alias
	}
	if err := rename(res, names, pos, what); err != nil {
		return nil, err
	}
	out := &tables{parts: []*relation{newRelation(res.node)}}
	for _, c := range res.columns {
		c.table, c.merged = alias, false
		out.columns = append(out.columns, c)
	}
	return out, nil
}

// join lowers a join. Inner joins are parts of the graph, others are one relation.
func (l *lowerer) join(j *sqltext.Join, outer *scope, e *env) (*tables, error) {
	left, err := l.table(j.Left, outer, e)
	if err != nil {
		return nil, err
	}
	right, err := l.table(j.Right, outer, e)
	if err != nil {
		return nil, err
	}
	both := &tables{}
	for _, t := range []*tables{left, right} {
		if err := both.add(t, j.Pos); err != nil {
			return nil, err
		}
	}
	conds, err := l.joinConditions(j, left, right, both, outer)
	if err != nil {
		return nil, err
	}
	if j.Kind == sqltext.Inner || j.Kind == sqltext.Cross {
		both.conds = append(both.conds, conds...)
		return both, nil
	}
	own := refs{}
	for _, c := range both.columns {
		own[c.ref] = true
	}
	for _, c := range conds {
		if hasQuery(c) {
			return nil, sqltext.Unsupported(c.At(), "a subquery in the condition of a "+string(j.Kind)+" JOIN")
		}
		if !refsOf(c).in(own) {
			return nil, sqltext.Unsupported(c.At(), "a correlated condition of a "+string(j.Kind)+" JOIN")
		}
	}
	ln, rn := left.node(), right.node()
	kind := j.Kind
	if kind == sqltext.Right {
		kind, ln, rn = sqltext.Left, rn, ln
	}
	node := outerJoin(kind, ln, rn, conds)
	switch j.Kind {
	case sqltext.Semi, sqltext.Anti:
		both.columns = left.columns
	case sqltext.Full:
		node = l.coalesceUsing(j, node, left, both)
	}
	both.parts, both.conds = []*relation{newRelation(node)}, nil
	return both, nil
}

// joinConditions resolves ON or USING.
func (l *lowerer) joinConditions(j *sqltext.Join, left, right, both *tables, outer *scope) ([]Expr, error) {
	if j.On != nil {
		on, err := (&scope{parent: outer, columns: both.columns}).resolve(j.On)
		if err != nil {
			return nil, err
		}
		var out []Expr
		for _, c := range conjuncts(on) {
			out = append(out, factor(c)...)
		}
		return out, nil
	}
	var out []Expr
	for _, name := range j.Using {
		var sides [2]Expr
		for i, t := range []*tables{left, right} {
			e, err := (&scope{columns: t.columns}).name(&sqltext.Name{Pos: j.Pos, Column: name})
			if err != nil {
				return nil, err
			}
			sides[i] = e
		}
		l, r := sides[0].(*sqltext.Ref).Name, sides[1].(*sqltext.Ref).Name
		for i := len(both.columns) - 1; i >= 0; i-- {
			c := &both.columns[i]
			switch {
			case c.ref == r:
				c.merged = true
			case c.ref == l && j.Kind == sqltext.Right:
				// The value of the right side is in the place of that of the left side.
				c.merged = true
				both.columns = slices.Insert(both.columns, i, column{name: c.name, ref: r})
			}
		}
		out = append(out, &sqltext.Binary{Pos: j.Pos, Op: "=", L: sides[0], R: sides[1]})
	}
	return out, nil
}

// coalesceUsing adds the columns of USING of a full join: the value of the side that has one.
func (l *lowerer) coalesceUsing(j *sqltext.Join, n Node, left, both *tables) Node {
	if len(j.Using) == 0 {
		return n
	}
	p := &Project{In: n}
	for _, c := range n.Columns() {
		p.Cols = append(p.Cols, Named{c, ref(c)})
	}
	for _, name := range j.Using {
		var args []Expr
		at := -1
		for i, c := range both.columns {
			if strings.EqualFold(c.name, name) && (i >= len(left.columns) || !c.merged) {
				args = append(args, ref(c.ref))
				both.columns[i].merged = true
				if at < 0 {
					at = i
				}
			}
		}
		column := column{name: both.columns[at].name, ref: l.unique(name)}
		p.Cols = append(p.Cols, Named{column.ref, &sqltext.Call{Pos: j.Pos, Function: "coalesce", Args: args}})
		both.columns = slices.Insert(both.columns, at, column)
		left.columns = slices.Insert(left.columns, at, column)
	}
	return p
}

// outerJoin returns a join that is not inner.
func outerJoin(kind sqltext.JoinKind, l, r Node, conds []Expr) Node {
	left, right := setOf(l.Columns()), setOf(r.Columns())
	j := &Join{Kind: kind, Left: l, Right: r}
	var rest []Expr
	for _, c := range conds {
		used := refsOf(c)
		if k, ok := keyOf(c, left, right); ok {
			j.Keys = append(j.Keys, k)
		} else if kind != sqltext.Full && len(used) > 0 && used.in(right) {
			// Rows on the right that do not fulfill the condition have no match.
			j.Right = filter(j.Right, c)
		} else {
			rest = append(rest, c)
		}
	}
	if j.Cond = all(rest); j.Cond == nil && len(j.Keys) == 0 {
		j.Cond = &sqltext.Literal{Kind: sqltext.Bool, Text: "true"}
	}
	switch kind {
	case sqltext.Semi, sqltext.Anti:
		j.rows = math.Max(1, l.Rows()*0.5)
	case sqltext.Full:
		j.rows = l.Rows() + r.Rows()
	default:
		j.rows = math.Max(l.Rows(), r.Rows())
	}
	return j
}

// keyOf returns the sides of an equality of columns on the left with columns on the right.
func keyOf(c Expr, left, right refs) (Key, bool) {
	b, ok := c.(*sqltext.Binary)
	if !ok || b.Op != "=" {
		return Key{}, false
	}
	x, y := refsOf(b.L), refsOf(b.R)
	switch {
	case len(x) == 0 || len(y) == 0:
	case x.in(left) && y.in(right):
		return Key{b.L, b.R}, true
	case x.in(right) && y.in(left):
		return Key{b.R, b.L}, true
	}
	return Key{}, false
}
