package sqlplan

import "go.millstream.dev/frame/internal/sqltext"

// grouper collects keys and aggregates of a GROUP BY, and replaces them in expressions.
type grouper struct {
	l    *lowerer
	keys []Named
	aggs []Call
	// names are the columns of keys and aggregates by their text.
	names map[string]string
	// known are columns that are joined after the grouping.
	known refs
}

func newGrouper(l *lowerer) *grouper {
	return &grouper{l: l, names: map[string]string{}, known: refs{}}
}

// key adds a key and returns its column. An expression gets a name that begins with the given one.
func (g *grouper) key(e Expr, name string) Expr {
	text := sqltext.Format(e)
	if old, ok := g.names[text]; ok {
		return ref(old)
	}
	if r, ok := e.(*sqltext.Ref); ok {
		name = r.Name
	} else {
		name = g.l.unique(name)
	}
	g.names[text] = name
	g.keys = append(g.keys, Named{name, e})
	return ref(name)
}

// replace returns an expression with the columns of keys and aggregates.
func (g *grouper) replace(e Expr) (Expr, error) {
	return sqltext.Map(e, func(x Expr) (Expr, error) {
		if name, ok := g.names[sqltext.Format(x)]; ok {
			return &sqltext.Ref{Pos: x.At(), Name: name}, nil
		}
		switch n := x.(type) {
		case *sqltext.Call:
			if isAggregate(n) {
				return g.aggregate(n)
			}
		case *sqltext.Ref:
			if !g.known[n.Name] {
				return nil, sqltext.Errorf(n.Pos, "the column %s is neither in GROUP BY nor in an aggregate",
					sqltext.Quote(n.Name))
			}
			// Another node, so that Map does not enter it.
			return &sqltext.Ref{Pos: n.Pos, Name: n.Name}, nil
		}
		return x, nil
	})
}

// aggregate returns the value of an aggregate.
func (g *grouper) aggregate(c *sqltext.Call) (Expr, error) {
	e, err := rewriteAggregate(c)
	if err != nil {
		return nil, err
	}
	return sqltext.Map(e, func(x Expr) (Expr, error) {
		n, ok := x.(*sqltext.Call)
		if !ok || !isAggregate(n) {
			return x, nil
		}
		text := sqltext.Format(n)
		name, ok := g.names[text]
		if !ok {
			name = g.l.unique(short(text))
			g.names[text] = name
			g.aggs = append(g.aggs, Call{name, n})
		}
		return &sqltext.Ref{Pos: c.Pos, Name: name}, nil
	})
}

// short returns a text that is no longer than a name should be.
func short(text string) string {
	if r := []rune(text); len(r) > 60 {
		return string(r[:60]) + "…"
	}
	return text
}

// counts reports whether a column is a number of rows, which is never null.
func (g *grouper) counts(name string) bool {
	for _, a := range g.aggs {
		if a.Name == name {
			return a.Call.Function == "count"
		}
	}
	return false
}

// node returns the grouping of an input.
func (g *grouper) node(in Node) Node {
	return &Group{In: in, Keys: g.keys, Aggs: g.aggs, rows: groups(in, len(g.keys))}
}
