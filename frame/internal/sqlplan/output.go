package sqlplan

import "go.millstream.dev/frame/internal/sqltext"

// groupKeys resolves GROUP BY.
func (o *output) groupKeys() ([]Named, error) {
	var out []Named
	if o.sel.GroupByAll {
		for _, it := range o.items {
			if findAggregate(it.expr) == nil {
				out = append(out, Named{it.name, it.expr})
			}
		}
		return out, nil
	}
	for _, k := range o.sel.GroupBy {
		at, ok, err := position(k, len(o.items), "GROUP BY")
		if err != nil {
			return nil, err
		}
		key := Named{Name: "_key"}
		if ok {
			key = Named{o.items[at].name, o.items[at].expr}
		} else if key.Expr, err = aliased(k, o.sel, o.items, o.b.scope, false); err != nil {
			return nil, err
		} else if n, ok := k.(*sqltext.Name); ok {
			key.Name = n.Column
		}
		if c := findAggregate(key.Expr); c != nil {
			return nil, sqltext.Errorf(c.Pos, "the aggregate %s in GROUP BY", c.Function)
		}
		if c := findWindow(key.Expr); c != nil {
			return nil, sqltext.Errorf(c.Pos, "the window function %s in GROUP BY", c.Function)
		}
		if hasQuery(key.Expr) {
			return nil, sqltext.Unsupported(key.Expr.At(), "a subquery in GROUP BY")
		}
		out = append(out, key)
	}
	return out, nil
}

// group applies GROUP BY and HAVING, and joins subqueries.
func (o *output) group() (Node, error) {
	keys, err := o.groupKeys()
	if err != nil {
		return nil, err
	}
	grouped := len(keys) > 0 || o.sel.GroupByAll || o.sel.Having != nil
	for _, e := range o.exprs() {
		grouped = grouped || findAggregate(*e) != nil
	}
	node := o.b.node
	if grouped {
		if node, err = o.groupNode(keys); err != nil {
			return nil, err
		}
	}
	for _, s := range o.steps {
		node = s.apply(node)
	}
	node = filter(node, o.having...)
	for _, p := range o.waiting {
		node = p.apply(node)
	}
	return node, nil
}

// groupNode replaces aggregates and keys in all expressions and returns the grouping.
func (o *output) groupNode(keys []Named) (Node, error) {
	g := newGrouper(o.l)
	for _, k := range keys {
		if r := refsOf(k.Expr); !r.in(o.b.own) {
			return nil, sqltext.Unsupported(k.Expr.At(), "a column of the outer query in GROUP BY")
		}
		g.key(k.Expr, k.Name)
	}
	for _, s := range o.steps {
		g.known.add(setOf(s.right.Columns()))
	}
	for _, p := range o.waiting {
		for _, s := range p.steps {
			g.known.add(setOf(s.right.Columns()))
		}
	}
	for _, e := range o.exprs() {
		var err error
		if *e, err = g.replace(*e); err != nil {
			return nil, err
		}
	}
	for i := range o.steps {
		if err := o.steps[i].replace(g.replace); err != nil {
			return nil, err
		}
	}
	for _, p := range o.waiting {
		if err := p.replace(g.replace); err != nil {
			return nil, err
		}
	}
	for _, a := range g.aggs {
		if r := refsOf(a.Call); !r.in(o.b.own) {
			return nil, sqltext.Unsupported(a.Call.Pos, "a column of the outer query in an aggregate")
		}
	}
	return g.node(o.b.node), nil
}

// windows replaces window functions by columns, and applies QUALIFY.
func (o *output) windows(node Node) (Node, error) {
	w := &Window{In: node}
	names := map[string]string{}
	for _, e := range o.exprs() {
		var err error
		*e, err = sqltext.Map(*e, func(x Expr) (Expr, error) {
			c, ok := x.(*sqltext.Call)
			if !ok || c.Over == nil {
				return x, nil
			}
			for _, a := range c.Args {
				if inner := findWindow(a); inner != nil {
					return nil, sqltext.Errorf(inner.Pos, "a window function within the window function %s", c.Function)
				}
			}
			text := sqltext.Format(c)
			name, ok := names[text]
			if !ok {
				name = o.l.unique("_window")
				names[text] = name
				w.Calls = append(w.Calls, Call{name, c})
			}
			return &sqltext.Ref{Pos: c.Pos, Name: name}, nil
		})
		if err != nil {
			return nil, err
		}
	}
	if len(w.Calls) == 0 {
		if len(o.qualify) > 0 {
			return nil, sqltext.Errorf(o.qualify[0].At(), "QUALIFY without a window function; use WHERE or HAVING")
		}
		return node, nil
	}
	return filter(w, o.qualify...), nil
}

// check reports columns of the outer query in clauses where they are not supported.
func (o *output) check(node Node) error {
	columns := setOf(node.Columns())
	for _, e := range o.exprs() {
		if !refsOf(*e).in(columns) {
			return sqltext.Unsupported((*e).At(), "a column of the outer query outside of WHERE")
		}
	}
	return nil
}

// project computes the select list and applies DISTINCT, ORDER BY and LIMIT.
func (o *output) project(node Node) (*result, error) {
	p := &Project{In: node}
	res := &result{}
	used := refs{}
	byText := map[string]string{}
	for _, it := range o.items {
		name := ""
		if r, ok := it.expr.(*sqltext.Ref); ok && !used[r.Name] {
			name = r.Name
		} else {
			name = o.l.unique(it.name)
		}
		used[name] = true
		if text := sqltext.Format(it.expr); byText[text] == "" {
			byText[text] = name
		}
		p.Cols = append(p.Cols, Named{name, it.expr})
		res.columns = append(res.columns, column{name: it.name, ref: name})
	}
	visible := len(p.Cols)
	for i := range o.order {
		name := byText[sqltext.Format(o.order[i].Expr)]
		if name == "" {
			if o.sel.Distinct {
				return nil, sqltext.Errorf(o.order[i].Expr.At(),
					"ORDER BY of SELECT DISTINCT is for columns of the result")
			}
			name = o.l.unique("_order")
			p.Cols = append(p.Cols, Named{name, o.order[i].Expr})
		}
		o.order[i].Expr = ref(name)
	}
	res.node = p
	if o.sel.Distinct {
		res.node = &Distinct{In: res.node}
	}
	res.node = sortLimit(res.node, o.order, o.q)
	if len(p.Cols) > visible {
		final := &Project{In: res.node}
		for _, c := range p.Cols[:visible] {
			final.Cols = append(final.Cols, Named{c.Name, ref(c.Name)})
		}
		res.node = final
	}
	return res, nil
}
