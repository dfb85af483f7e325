package sqlplan

import (
	"math"
	"slices"

	"go.millstream.dev/frame/internal/sqltext"
)

// block is FROM and WHERE of a SELECT.
type block struct {
	scope *scope
	env   *env
	node  Node
	// own are the columns of its tables.
	own refs
	// correlated are conditions of WHERE with columns of the query around it.
	correlated []Expr
}

// step is a join of the rows of a query with the result of a subquery.
type step struct {
	kind  sqltext.JoinKind
	right Node
	keys  []Key
	// cond is a further condition, or nil.
	cond      Expr
	nullAware bool
}

// pending is a condition with subqueries.
type pending struct {
	steps []step
	// filter is the condition with Refs in place of the subqueries, or nil if a join is all.
	filter Expr
	// refs are the columns of the query that it needs.
	refs refs
}

// block lowers FROM and WHERE.
func (l *lowerer) block(sel *sqltext.Select, outer *scope, e *env) (*block, error) {
	t, err := l.from(sel, outer, e)
	if err != nil {
		return nil, err
	}
	b := &block{scope: &scope{parent: outer, columns: t.columns}, env: e, own: refs{}}
	for _, p := range t.parts {
		b.own.add(p.columns)
	}
	conds := t.conds
	if sel.Where != nil {
		where, err := b.scope.resolve(sel.Where)
		if err != nil {
			return nil, err
		}
		if c := findAggregate(where); c != nil {
			return nil, sqltext.Errorf(c.Pos, "the aggregate %s in WHERE; use HAVING", c.Function)
		}
		conds = append(conds, conjuncts(where)...)
	}
	var plain []Expr
	var waiting []*pending
	for _, whole := range conds {
		for _, c := range factor(positive(whole)) {
			switch {
			case hasQuery(c):
				p, err := l.pending(c, b.scope, e)
				if err != nil {
					return nil, err
				}
				if !p.refs.in(b.own) {
					return nil, sqltext.Unsupported(c.At(), "a subquery with columns of a query further out")
				}
				waiting = append(waiting, p)
			case refsOf(c).in(b.own):
				plain = append(plain, c)
			default:
				b.correlated = append(b.correlated, c)
			}
		}
	}
	b.node = joinAll(t.parts, plain, waiting)
	return b, nil
}

// joinAll joins the tables of a query and its subqueries.
func joinAll(parts []*relation, plain []Expr, waiting []*pending) Node {
	owner := func(r refs) *relation {
		for _, p := range parts {
			if len(r) > 0 && r.in(p.columns) {
				return p
			}
		}
		return nil
	}
	// Conditions on one table and subqueries that leave few of its rows come before the joins.
	plain = slices.DeleteFunc(slices.Clone(plain), func(c Expr) bool {
		p := owner(refsOf(c))
		if p != nil {
			p.node = filter(p.node, c)
		}
		return p != nil
	})
	waiting = slices.DeleteFunc(slices.Clone(waiting), func(w *pending) bool {
		w.reduce(parts)
		p := owner(w.refs)
		if p == nil || len(parts) > 1 && !w.reduces(p.node) {
			return false
		}
		p.node = w.apply(p.node)
		p.columns.add(setOf(p.node.Columns()))
		return true
	})
	node := order(parts, plain)
	for _, w := range waiting {
		node = w.apply(node)
	}
	return node
}

// reduces reports whether a subquery is expected to leave less than half of the rows.
func (p *pending) reduces(n Node) bool {
	for _, s := range p.steps {
		if s.kind == sqltext.Anti || s.kind == sqltext.Semi && s.right.Rows() > n.Rows()/2 {
			return false
		}
	}
	return true
}

// apply joins the subqueries to a node and filters it.
func (p *pending) apply(n Node) Node {
	for _, s := range p.steps {
		n = s.apply(n)
	}
	if p.filter != nil {
		n = filter(n, p.filter)
	}
	return n
}

func (s step) apply(n Node) Node {
	j := &Join{Kind: s.kind, Left: n, Right: s.right, Keys: s.keys, Cond: s.cond, NullAware: s.nullAware,
		rows: n.Rows()}
	switch s.kind {
	case sqltext.Semi:
		j.rows = math.Max(1, math.Min(n.Rows()*0.5, s.right.Rows()*4))
	case sqltext.Anti:
		j.rows = math.Max(1, n.Rows()*0.5)
	}
	return j
}

// replace maps the expressions on columns of the query, for a query that is grouped before the joins.
func (p *pending) replace(f func(Expr) (Expr, error)) error {
	for i := range p.steps {
		if err := p.steps[i].replace(f); err != nil {
			return err
		}
	}
	if p.filter == nil {
		return nil
	}
	var err error
	p.filter, err = f(p.filter)
	return err
}

func (s *step) replace(f func(Expr) (Expr, error)) error {
	s.keys = slices.Clone(s.keys)
	for i := range s.keys {
		var err error
		if s.keys[i].Left, err = f(s.keys[i].Left); err != nil {
			return err
		}
	}
	if s.cond == nil {
		return nil
	}
	var err error
	s.cond, err = f(s.cond)
	return err
}

// positive moves NOT into EXISTS and IN.
func positive(e Expr) Expr {
	u, ok := e.(*sqltext.Unary)
	if !ok || u.Op != "NOT" {
		return e
	}
	switch x := u.X.(type) {
	case *sqltext.InQuery:
		y := *x
		y.Not = !y.Not
		return &y
	case *sqltext.Unary:
		if x.Op == "NOT" {
			return positive(x.X)
		}
	}
	return e
}

// pending lowers a condition with subqueries, whose names are resolved.
func (l *lowerer) pending(c Expr, s *scope, e *env) (*pending, error) {
	switch x := c.(type) {
	case *sqltext.Exists:
		return l.exists(x.Query, false, s, e)
	case *sqltext.Unary:
		if x, ok := x.X.(*sqltext.Exists); ok {
			return l.exists(x.Query, true, s, e)
		}
	case *sqltext.InQuery:
		if !hasQuery(x.X) {
			return l.in(x, s, e)
		}
	}
	p := &pending{}
	var err error
	if p.filter, p.steps, err = l.scalars(c, s, e, rejectsNull(c)); err != nil {
		return nil, err
	}
	p.refs = p.needs()
	return p, nil
}

// needs returns the columns that the steps and the filter need of the query itself.
func (p *pending) needs() refs {
	out, sub := refs{}, refs{}
	for _, s := range p.steps {
		for _, k := range s.keys {
			out.add(refsOf(k.Left))
		}
		sub.add(setOf(s.right.Columns()))
		out.add(refsOf(s.cond))
	}
	out.add(refsOf(p.filter))
	for name := range sub {
		delete(out, name)
	}
	return out
}

// rejectsNull reports whether a condition is not true if one of its subqueries is null.
func rejectsNull(c Expr) bool {
	b, ok := c.(*sqltext.Binary)
	if !ok || comparison[b.Op] == "" {
		return false
	}
	return strict(b.L) && strict(b.R)
}

var comparison = map[string]string{"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

// strictOps are null if an operand is.
var strictOps = []string{"+", "-", "*", "/", "//", "%", "||"}

// strict reports whether an expression is null if a subquery in it is.
func strict(e Expr) bool {
	switch x := e.(type) {
	case *sqltext.Binary:
		return slices.Contains(strictOps, x.Op) && strict(x.L) && strict(x.R)
	case *sqltext.Unary:
		return strict(x.X)
	case *sqltext.Cast:
		return strict(x.X)
	case *sqltext.Subquery:
		return true
	}
	return !hasQuery(e)
}

// arithmetic reports whether an expression is arithmetic on columns, which is null if one of them is.
func arithmetic(e Expr) bool {
	switch x := e.(type) {
	case *sqltext.Binary:
		return slices.Contains(strictOps, x.Op) && arithmetic(x.L) && arithmetic(x.R)
	case *sqltext.Unary:
		return arithmetic(x.X)
	case *sqltext.Cast:
		return arithmetic(x.X)
	case *sqltext.Ref, *sqltext.Literal:
		return true
	}
	return false
}
