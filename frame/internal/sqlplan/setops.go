package sqlplan

import "go.millstream.dev/frame/internal/sqltext"

// union lowers UNION, INTERSECT and EXCEPT.
func (l *lowerer) union(u *sqltext.Union, outer *scope, e *env) (*result, error) {
	var sides [2]*result
	for i, body := range []sqltext.Body{u.Left, u.Right} {
		var err error
		if sides[i], err = l.query(&sqltext.Query{Pos: body.At(), Body: body}, outer, e); err != nil {
			return nil, err
		}
	}
	left, right := sides[0], sides[1]
	if len(left.columns) != len(right.columns) {
		return nil, sqltext.Errorf(u.Pos, "the sides of %s have %d and %d columns", u.Op, len(left.columns),
			len(right.columns))
	}
	out := &result{}
	lp, rp := &Project{In: left.node}, &Project{In: right.node}
	for i, c := range left.columns {
		name := l.unique(c.name)
		lp.Cols = append(lp.Cols, Named{name, ref(c.ref)})
		rp.Cols = append(rp.Cols, Named{name, ref(right.columns[i].ref)})
		out.columns = append(out.columns, column{name: c.name, ref: name})
	}
	switch {
	case u.Op != sqltext.UnionOp:
		out.node = l.compareSides(u, lp, rp)
	case u.All:
		out.node = &Union{In: []Node{lp, rp}}
	default:
		out.node = &Distinct{In: &Union{In: []Node{lp, rp}}}
	}
	return out, nil
}

// compareSides lowers INTERSECT and EXCEPT: the rows of both sides are grouped, because nulls are equal in groups, and
// those remain that the right sides have. With ALL equal rows are numbered first, so that they become distinct.
func (l *lowerer) compareSides(u *sqltext.Union, lp, rp *Project) Node {
	columns := lp.Columns()
	inLeft, inRight := l.unique("_left"), l.unique("_right")
	number := ""
	if u.All {
		number = l.unique("_number")
	}
	side := func(p *Project, left, right int) Node {
		var n Node = p
		if u.All {
			w := &sqltext.Window{Pos: u.Pos}
			for _, c := range columns {
				w.PartitionBy = append(w.PartitionBy, ref(c))
			}
			n = &Window{In: n, Calls: []Call{{number, &sqltext.Call{Pos: u.Pos, Function: "row_number", Over: w}}}}
		}
		marked := &Project{In: n}
		for _, c := range n.Columns() {
			marked.Cols = append(marked.Cols, Named{c, ref(c)})
		}
		marked.Cols = append(marked.Cols, Named{inLeft, integer(left)}, Named{inRight, integer(right)})
		return marked
	}
	both := &Union{In: []Node{side(lp, 1, 0), side(rp, 0, 1)}}
	g := &Group{In: both, rows: lp.Rows()}
	for _, c := range columns {
		g.Keys = append(g.Keys, Named{c, ref(c)})
	}
	if u.All {
		g.Keys = append(g.Keys, Named{number, ref(number)})
	}
	most := func(name string) Call {
		return Call{name, &sqltext.Call{Pos: u.Pos, Function: "max", Args: []Expr{ref(name)}}}
	}
	g.Aggs = []Call{most(inLeft), most(inRight)}
	wanted := 1
	if u.Op == sqltext.ExceptOp {
		wanted = 0
	}
	equals := func(name string, n int) Expr {
		return &sqltext.Binary{Pos: u.Pos, Op: "=", L: ref(name), R: integer(n)}
	}
	out := &Project{In: filter(g, equals(inLeft, 1), equals(inRight, wanted))}
	for _, c := range columns {
		out.Cols = append(out.Cols, Named{c, ref(c)})
	}
	return out
}
