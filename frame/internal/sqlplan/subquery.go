package sqlplan

import (
	"slices"

	"go.millstream.dev/frame/internal/sqltext"
)

// plainSelect returns the SELECT of a query whose rows are those of FROM and WHERE: without groups, LIMIT and so on.
func plainSelect(q *sqltext.Query) (*sqltext.Select, bool) {
	sel, ok := q.Body.(*sqltext.Select)
	if !ok || q.Limit != nil || q.Offset != nil || len(sel.GroupBy) > 0 || sel.GroupByAll || sel.Having != nil ||
		sel.Qualify != nil {
		return nil, false
	}
	for _, item := range sel.Items {
		if findAggregate(item.Expr) != nil || findWindow(item.Expr) != nil {
			return nil, false
		}
	}
	return sel, true
}

// split divides the correlated conditions of a block into keys of a join and others. The left side is the outer query.
func (b *block) split() (keys []Key, rest []Expr) {
	for _, c := range b.correlated {
		e, ok := c.(*sqltext.Binary)
		if !ok || e.Op != "=" {
			rest = append(rest, c)
			continue
		}
		l, r := refsOf(e.L), refsOf(e.R)
		switch {
		case len(l) > 0 && l.in(b.own) && r.disjoint(b.own):
			keys = append(keys, Key{e.R, e.L})
		case len(r) > 0 && r.in(b.own) && l.disjoint(b.own):
			keys = append(keys, Key{e.L, e.R})
		default:
			rest = append(rest, c)
		}
	}
	return keys, rest
}

func (r refs) disjoint(o refs) bool {
	for name := range r {
		if o[name] {
			return false
		}
	}
	return true
}

// exists lowers [NOT] EXISTS.
func (l *lowerer) exists(q *sqltext.Query, not bool, s *scope, e *env) (*pending, error) {
	var node Node
	if sel, ok := plainSelect(q); ok {
		e, err := l.with(q, e)
		if err != nil {
			return nil, err
		}
		b, err := l.block(sel, s, e)
		if err != nil {
			return nil, err
		}
		if len(b.correlated) > 0 {
			kind := sqltext.Semi
			if not {
				kind = sqltext.Anti
			}
			keys, rest := b.split()
			p := &pending{steps: []step{{kind: kind, right: b.node, keys: keys, cond: all(rest)}}}
			p.refs = p.needs()
			return p, nil
		}
		node = b.node
	} else {
		res, err := l.query(q, s, e)
		if err != nil {
			return nil, err
		}
		node = res.node
	}
	// Without correlation the answer is one for all rows.
	count := l.unique("_exists")
	node = &Group{In: &Limit{In: node, N: 1}, rows: 1,
		Aggs: []Call{{count, &sqltext.Call{Pos: q.Pos, Function: "count", Star: true}}}}
	op := ">"
	if not {
		op = "="
	}
	return &pending{steps: []step{{kind: sqltext.Cross, right: node}}, refs: refs{},
		filter: &sqltext.Binary{Pos: q.Pos, Op: op, L: ref(count), R: integer(0)}}, nil
}

func integer(n int) Expr {
	return &sqltext.Literal{Kind: sqltext.Integer, Text: string(rune('0' + n))}
}

// in lowers X [NOT] IN (query).
func (l *lowerer) in(x *sqltext.InQuery, s *scope, e *env) (*pending, error) {
	kind := sqltext.Semi
	if x.Not {
		kind = sqltext.Anti
	}
	oneColumn := func(n int) error {
		if n != 1 {
			return sqltext.Errorf(x.Query.Pos, "the query of IN has %d columns, not one", n)
		}
		return nil
	}
	p := &pending{}
	sel, ok := plainSelect(x.Query)
	if !ok {
		res, err := l.query(x.Query, s, e)
		if err != nil {
			return nil, err
		}
		if err := oneColumn(len(res.columns)); err != nil {
			return nil, err
		}
		p.steps = []step{{kind: kind, right: res.node, nullAware: x.Not, keys: []Key{{x.X, ref(res.columns[0].ref)}}}}
		p.refs = p.needs()
		return p, nil
	}
	e, err := l.with(x.Query, e)
	if err != nil {
		return nil, err
	}
	b, err := l.block(sel, s, e)
	if err != nil {
		return nil, err
	}
	items, err := l.items(sel, b.scope)
	if err != nil {
		return nil, err
	}
	if err := oneColumn(len(items)); err != nil {
		return nil, err
	}
	value := items[0].expr
	if hasQuery(value) {
		return nil, sqltext.Unsupported(value.At(), "a subquery in the select list of a query of IN")
	}
	keys, rest := b.split()
	st := step{kind: kind, right: b.node, keys: keys, cond: all(rest)}
	equal := &sqltext.Binary{Pos: x.Pos, Op: "=", L: x.X, R: value}
	switch {
	case !refsOf(value).in(b.own):
		return nil, sqltext.Unsupported(value.At(), "a column of the outer query in the select list of a query of IN")
	case !x.Not:
		st.keys = append(st.keys, Key{x.X, value})
	case len(b.correlated) == 0:
		st.nullAware, st.keys = true, []Key{{x.X, value}}
	default:
		// A null on either side makes NOT IN null, so a row with a null is a match that excludes.
		st.cond = all(append(slices.Clone(rest), &sqltext.Logic{Pos: x.Pos, Op: "OR", Args: []Expr{equal,
			&sqltext.IsTest{Pos: x.Pos, X: x.X, What: "NULL"}, &sqltext.IsTest{Pos: x.Pos, X: value, What: "NULL"}}}))
	}
	p.steps = []step{st}
	p.refs = p.needs()
	return p, nil
}

// scalars replaces the scalar subqueries of an expression by columns of joins. Inner joins are used for correlated
// subqueries if rows for which they are null are not needed.
func (l *lowerer) scalars(x Expr, s *scope, e *env, nullsDrop bool) (Expr, []step, error) {
	var steps []step
	out, err := sqltext.Map(x, func(n Expr) (Expr, error) {
		switch q := n.(type) {
		case *sqltext.Exists:
			return l.existsValue(q, s, e, &steps)
		case *sqltext.InQuery:
			x, err := l.inValue(q, s, e, &steps)
			if err != nil {
				return nil, err
			}
			return x, nil
		case *sqltext.Subquery:
			value, st, err := l.scalar(q, s, e, nullsDrop)
			if err != nil {
				return nil, err
			}
			steps = append(steps, st)
			return value, nil
		}
		return n, nil
	})
	return out, steps, err
}

// inValue lowers X [NOT] IN (query) as a value: a left join with the distinct values of the query, and a cross join
// with the numbers of its rows and values. Without a match the value is null if X is null or the query has nulls, and
// false if the query has no rows.
func (l *lowerer) inValue(x *sqltext.InQuery, s *scope, e *env, steps *[]step) (Expr, error) {
	if hasQuery(x.X) {
		return nil, sqltext.Unsupported(x.Pos, "a subquery on the left of IN (query) within another expression")
	}
	res, err := l.query(x.Query, s, e)
	if err != nil {
		return nil, err
	}
	if len(res.columns) != 1 {
		return nil, sqltext.Errorf(x.Query.Pos, "the query of IN has %d columns, not one", len(res.columns))
	}
	value, hit := l.unique("_value"), l.unique("_in")
	rows, values := l.unique("_rows"), l.unique("_values")
	column := ref(res.columns[0].ref)
	distinct := &Group{In: res.node, Keys: []Named{{value, column}}, rows: res.node.Rows()}
	marked := &Project{In: distinct, Cols: []Named{{value, ref(value)}, {hit, integer(1)}}}
	counts := &Group{In: res.node, rows: 1, Aggs: []Call{
		{rows, &sqltext.Call{Pos: x.Pos, Function: "count", Star: true}},
		{values, &sqltext.Call{Pos: x.Pos, Function: "count", Args: []Expr{column}}}}}
	*steps = append(*steps, step{kind: sqltext.Left, right: marked, keys: []Key{{x.X, ref(value)}}},
		step{kind: sqltext.Cross, right: counts})
	unknown := &sqltext.Logic{Pos: x.Pos, Op: "AND", Args: []Expr{
		&sqltext.Binary{Pos: x.Pos, Op: ">", L: ref(rows), R: integer(0)},
		&sqltext.Logic{Pos: x.Pos, Op: "OR", Args: []Expr{&sqltext.IsTest{Pos: x.Pos, X: x.X, What: "NULL"},
			&sqltext.Binary{Pos: x.Pos, Op: "<", L: ref(values), R: ref(rows)}}},
		&sqltext.Literal{Pos: x.Pos, Kind: sqltext.Null}}}
	found := &sqltext.IsTest{Pos: x.Pos, X: ref(hit), What: "NULL", Not: true}
	var out Expr = &sqltext.Logic{Pos: x.Pos, Op: "OR", Args: []Expr{found, unknown}}
	if x.Not {
		out = &sqltext.Unary{Pos: x.Pos, Op: "NOT", X: out}
	}
	return out, nil
}

// existsValue lowers EXISTS as a value: a left join with the distinct keys of the subquery.
func (l *lowerer) existsValue(x *sqltext.Exists, s *scope, e *env, steps *[]step) (Expr, error) {
	p, err := l.exists(x.Query, false, s, e)
	if err != nil {
		return nil, err
	}
	st := p.steps[0]
	if p.filter != nil { // without correlation
		*steps = append(*steps, st)
		return p.filter, nil
	}
	if st.cond != nil {
		return nil, sqltext.Unsupported(x.Pos, "EXISTS within another expression with a correlated condition that is "+
			"not an equality")
	}
	g := &Group{In: st.right, rows: groups(st.right, len(st.keys))}
	for i := range st.keys {
		name := l.unique("_key")
		g.Keys = append(g.Keys, Named{name, st.keys[i].Right})
		st.keys[i].Right = ref(name)
	}
	found := l.unique("_found")
	g.Aggs = []Call{{found, &sqltext.Call{Pos: x.Pos, Function: "count", Star: true}}}
	st.kind, st.right = sqltext.Left, g
	*steps = append(*steps, st)
	return &sqltext.IsTest{Pos: x.Pos, X: ref(found), What: "NULL", Not: true}, nil
}

// scalar lowers a scalar subquery.
func (l *lowerer) scalar(x *sqltext.Subquery, s *scope, e *env, nullsDrop bool) (Expr, step, error) {
	q := x.Query
	e, err := l.with(q, e)
	if err != nil {
		return nil, step{}, err
	}
	sel, ok := q.Body.(*sqltext.Select)
	var res *result
	if ok {
		b, err := l.block(sel, s, e)
		if err != nil {
			return nil, step{}, err
		}
		if len(b.correlated) > 0 {
			return l.correlatedScalar(b, sel, q, nullsDrop)
		}
		if res, err = l.selectBlock(b, sel, q); err != nil {
			return nil, step{}, err
		}
	} else if res, err = l.query(q, s, e); err != nil {
		return nil, step{}, err
	}
	if len(res.columns) != 1 {
		return nil, step{}, sqltext.Errorf(q.Pos, "the scalar subquery has %d columns, not one", len(res.columns))
	}
	node, name := res.node, res.columns[0].ref
	aggregated := ok && len(sel.GroupBy) == 0 && !sel.GroupByAll && findAggregate(sel.Items[0].Expr) != nil
	one := aggregated && sel.Having == nil && sel.Qualify == nil && q.Limit == nil && q.Offset == nil
	if !one {
		if !aggregated && (q.Limit == nil || *q.Limit > 1) && !(ok && len(sel.From) == 0) {
			return nil, step{}, sqltext.Errorf(q.Pos,
				"the scalar subquery may have several rows; use an aggregate such as max, or LIMIT 1")
		}
		// No row is a null.
		value := l.unique("_value")
		node = &Group{In: node, rows: 1, Aggs: []Call{{value, &sqltext.Call{Pos: q.Pos, Function: "first",
			Args: []Expr{ref(name)}}}}}
		name = value
	}
	return ref(name), step{kind: sqltext.Cross, right: node}, nil
}

// correlatedScalar lowers an aggregate over rows that are correlated by equalities: it is grouped by their inner sides.
func (l *lowerer) correlatedScalar(b *block, sel *sqltext.Select, q *sqltext.Query, nullsDrop bool) (Expr, step,
	error) {
	if len(sel.Items) != 1 {
		return nil, step{}, sqltext.Errorf(q.Pos, "the scalar subquery has %d columns, not one", len(sel.Items))
	}
	item, err := b.scope.resolve(sel.Items[0].Expr)
	if err != nil {
		return nil, step{}, err
	}
	if findAggregate(item) == nil || len(sel.GroupBy) > 0 || sel.GroupByAll || sel.Having != nil || sel.Distinct ||
		q.Limit != nil || q.Offset != nil || findWindow(item) != nil {
		return nil, step{}, sqltext.Unsupported(q.Pos, "a correlated scalar subquery that is not a plain aggregate")
	}
	if hasQuery(item) {
		return nil, step{}, sqltext.Unsupported(q.Pos, "a subquery in the select list of a correlated subquery")
	}
	keys, rest := b.split()
	if len(rest) > 0 {
		return nil, step{}, sqltext.Unsupported(rest[0].At(), "a correlated condition that is not an equality of the "+
			"inner and the outer query, in a scalar subquery")
	}
	g := newGrouper(l)
	for i := range keys {
		keys[i].Right = g.key(keys[i].Right, "_key")
	}
	value, err := g.replace(item)
	if err != nil {
		return nil, step{}, err
	}
	st := step{kind: sqltext.Left, right: g.node(b.node), keys: keys}
	counts := false
	value, err = sqltext.Map(value, func(n Expr) (Expr, error) {
		if r, ok := n.(*sqltext.Ref); ok && g.counts(r.Name) {
			counts = true // of no rows it is 0, not null
			return &sqltext.Call{Pos: q.Pos, Function: "coalesce", Args: []Expr{r, integer(0)}}, nil
		}
		return n, nil
	})
	if nullsDrop && !counts && arithmetic(value) {
		st.kind = sqltext.Inner
	}
	return value, st, err
}
