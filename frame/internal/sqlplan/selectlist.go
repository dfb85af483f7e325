package sqlplan

import (
	"strings"

	"go.millstream.dev/frame/internal/sqltext"
)

// item is an element of a select list.
type item struct {
	name string
	expr Expr
}

// items resolves a select list. A star is its columns.
func (l *lowerer) items(sel *sqltext.Select, s *scope) ([]item, error) {
	var out []item
	for _, it := range sel.Items {
		star, ok := it.Expr.(*sqltext.Star)
		if !ok {
			e, err := s.resolve(it.Expr)
			if err == nil {
				err = checkAggregates(e)
			}
			if err != nil {
				return nil, err
			}
			out = append(out, item{itemName(it), e})
			continue
		}
		all, err := starItems(star, s)
		if err != nil {
			return nil, err
		}
		out = append(out, all...)
	}
	return out, nil
}

// starItems returns the columns of a star.
func starItems(star *sqltext.Star, s *scope) ([]item, error) {
	var out []item
	for _, c := range s.columns {
		if star.Table == "" && !c.merged || star.Table != "" && strings.EqualFold(star.Table, c.table) {
			out = append(out, item{c.name, &sqltext.Ref{Pos: star.Pos, Name: c.ref}})
		}
	}
	if len(out) == 0 {
		if star.Table == "" {
			return nil, sqltext.Errorf(star.Pos, "* without FROM")
		}
		return nil, sqltext.Errorf(star.Pos, "no table %s; tables are %s", star.Table, s.tables())
	}
	find := func(name, clause string) (int, error) {
		for i, it := range out {
			if strings.EqualFold(it.name, name) {
				return i, nil
			}
		}
		return 0, sqltext.Errorf(star.Pos, "no column %s for %s", name, clause)
	}
	for _, r := range star.Replace {
		i, err := find(r.Alias, "REPLACE")
		if err != nil {
			return nil, err
		}
		if out[i].expr, err = s.resolve(r.Expr); err != nil {
			return nil, err
		}
	}
	for _, name := range star.Exclude {
		i, err := find(name, "EXCLUDE")
		if err != nil {
			return nil, err
		}
		out = append(out[:i], out[i+1:]...)
	}
	if len(out) == 0 {
		return nil, sqltext.Errorf(star.Pos, "EXCLUDE leaves no column")
	}
	return out, nil
}

// otherAggregates are aggregates of DuckDB and PostgreSQL that frames do not have.
var otherAggregates = map[string]bool{"string_agg": true, "group_concat": true, "listagg": true, "mode": true,
	"product": true, "arg_max": true, "arg_min": true, "argmax": true, "argmin": true, "max_by": true, "min_by": true,
	"histogram": true, "entropy": true, "skewness": true,
	"kurtosis": true, "bit_and": true, "bit_or": true, "bit_xor": true, "geomean": true, "mad": true}

// checkAggregates returns an error for aggregates that frames do not have, which would be taken for functions of rows.
func checkAggregates(e Expr) error {
	var bad *sqltext.Call
	sqltext.Walk(e, func(x Expr) bool {
		if c, ok := x.(*sqltext.Call); ok && otherAggregates[c.Function] {
			bad = c
		}
		return bad == nil
	})
	if bad != nil {
		return sqltext.Unsupported(bad.Pos, "the aggregate "+bad.Function)
	}
	return nil
}

// itemName returns the name of a column of a result.
func itemName(it sqltext.Item) string {
	if it.Alias != "" {
		return it.Alias
	}
	switch x := it.Expr.(type) {
	case *sqltext.Name:
		return x.Column
	case *sqltext.Cast:
		return itemName(sqltext.Item{Expr: x.X})
	}
	return short(sqltext.Format(it.Expr))
}

// aliased resolves an expression of GROUP BY, HAVING, QUALIFY or ORDER BY, in which a name that is no column may be an
// alias of the select list.
func aliased(e Expr, sel *sqltext.Select, items []item, s *scope, aliasFirst bool) (Expr, error) {
	return sqltext.Map(e, func(x Expr) (Expr, error) {
		n, ok := x.(*sqltext.Name)
		if !ok {
			if star, ok := x.(*sqltext.Star); ok {
				return nil, sqltext.Errorf(star.Pos, "* is no value; it is for select lists and count(*)")
			}
			return x, nil
		}
		found := len(s.find(n)) > 0
		if n.Table == "" && (!found || aliasFirst) && len(items) == len(sel.Items) {
			for i, it := range sel.Items {
				if it.Alias != "" && strings.EqualFold(it.Alias, n.Column) {
					return items[i].expr, nil
				}
			}
		}
		return s.name(n)
	})
}

// output is the lowering of what follows FROM and WHERE.
type output struct {
	l     *lowerer
	b     *block
	sel   *sqltext.Select
	q     *sqltext.Query
	items []item
	// having and qualify are conditions; order are the sort keys, whose expressions are nil if they are items.
	having, qualify []Expr
	order           []sqltext.OrderItem
	orderItem       []int
	steps           []step
	waiting         []*pending
}

// selectBlock lowers GROUP BY, HAVING, window functions, the select list, DISTINCT, ORDER BY and LIMIT.
func (l *lowerer) selectBlock(b *block, sel *sqltext.Select, q *sqltext.Query) (*result, error) {
	if len(b.correlated) > 0 {
		return nil, sqltext.Unsupported(b.correlated[0].At(), "a column of the outer query in this subquery")
	}
	o := &output{l: l, b: b, sel: sel, q: q}
	var err error
	if o.items, err = l.items(sel, b.scope); err != nil {
		return nil, err
	}
	if err := o.resolve(); err != nil {
		return nil, err
	}
	node, err := o.group()
	if err != nil {
		return nil, err
	}
	if node, err = o.windows(node); err != nil {
		return nil, err
	}
	if err := o.check(node); err != nil {
		return nil, err
	}
	return o.project(node)
}

// resolve resolves HAVING, QUALIFY and ORDER BY, and lowers the subqueries of all clauses.
func (o *output) resolve() error {
	s, sel := o.b.scope, o.sel
	for _, c := range []struct {
		from Expr
		to   *[]Expr
	}{{sel.Having, &o.having}, {sel.Qualify, &o.qualify}} {
		if c.from == nil {
			continue
		}
		e, err := aliased(c.from, sel, o.items, s, false)
		if err != nil {
			return err
		}
		*c.to = conjuncts(e)
	}
	for _, k := range o.q.OrderBy {
		if _, all := k.Expr.(*sqltext.Star); all {
			for i := range o.items {
				k.Expr = o.items[i].expr
				o.order, o.orderItem = append(o.order, k), append(o.orderItem, i)
			}
			continue
		}
		at, ok, err := position(k.Expr, len(o.items), "ORDER BY")
		if err != nil {
			return err
		}
		if !ok {
			at = -1
			if k.Expr, err = aliased(k.Expr, sel, o.items, s, true); err != nil {
				return err
			}
		} else {
			k.Expr = o.items[at].expr
		}
		o.order, o.orderItem = append(o.order, k), append(o.orderItem, at)
	}
	return o.subqueries()
}

// subqueries lowers the scalar subqueries of the select list and the subqueries of HAVING.
func (o *output) subqueries() error {
	lowered := map[string]Expr{}
	scalars := func(e Expr) (Expr, error) {
		if !hasQuery(e) {
			return e, nil
		}
		text := sqltext.Format(e)
		if old, ok := lowered[text]; ok {
			return old, nil
		}
		out, steps, err := o.l.scalars(e, o.b.scope, o.b.env, false)
		o.steps = append(o.steps, steps...)
		lowered[text] = out
		return out, err
	}
	var err error
	for i := range o.items {
		if o.items[i].expr, err = scalars(o.items[i].expr); err != nil {
			return err
		}
	}
	for i := range o.order {
		if o.order[i].Expr, err = scalars(o.order[i].Expr); err != nil {
			return err
		}
	}
	for i := range o.qualify {
		if o.qualify[i], err = scalars(o.qualify[i]); err != nil {
			return err
		}
	}
	var plain []Expr
	for _, c := range o.having {
		if c = positive(c); !hasQuery(c) {
			plain = append(plain, c)
			continue
		}
		p, err := o.l.pending(c, o.b.scope, o.b.env)
		if err != nil {
			return err
		}
		o.waiting = append(o.waiting, p)
	}
	o.having = plain
	return nil
}

// exprs returns pointers to all expressions, for replacements.
func (o *output) exprs() []*Expr {
	var out []*Expr
	for i := range o.items {
		out = append(out, &o.items[i].expr)
	}
	for i := range o.order {
		out = append(out, &o.order[i].Expr)
	}
	for i := range o.having {
		out = append(out, &o.having[i])
	}
	for i := range o.qualify {
		out = append(out, &o.qualify[i])
	}
	return out
}
