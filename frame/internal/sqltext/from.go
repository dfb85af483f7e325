package sqltext

// tableRef parses a table or derived table with the joins after it.
func (p *parser) tableRef() (TableRef, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	left, err := p.tablePrimary()
	if err != nil {
		return nil, err
	}
	return p.joinsAfter(left)
}

// joinsAfter parses the joins after a table.
func (p *parser) joinsAfter(left TableRef) (TableRef, error) {
	for n := 0; ; n++ {
		t := p.peek()
		kind, ok, err := p.joinKind()
		if err != nil || !ok {
			return left, err
		}
		if n == maxDepth {
			return nil, Errorf(t.pos, "the statement has more than %d joins", maxDepth)
		}
		j := &Join{Pos: t.pos, Kind: kind, Left: left}
		if j.Right, err = p.tablePrimary(); err != nil {
			return nil, err
		}
		if err := p.joinCondition(j); err != nil {
			return nil, err
		}
		left = j
	}
}

// joinKind skips the words of a join up to JOIN. It reports whether there is a join.
func (p *parser) joinKind() (JoinKind, bool, error) {
	t := p.peek()
	if t.is("natural") || t.is("asof") || t.is("positional") {
		if p.ahead(1).kind == wordToken && (p.ahead(1).is("join") || reserved[p.ahead(1).key]) {
			return "", false, Unsupported(t.pos, "a "+t.text+" join")
		}
	}
	for _, k := range []JoinKind{Inner, Cross, Semi, Anti, Left, Right, Full} {
		word := map[JoinKind]string{Inner: "inner", Cross: "cross", Semi: "semi", Anti: "anti", Left: "left",
			Right: "right", Full: "full"}[k]
		if !p.accept(word) {
			continue
		}
		switch k {
		case Left, Right, Full:
			p.accept("outer")
			if s := p.peek(); s.is("semi") || s.is("anti") {
				return "", false, Unsupported(s.pos, t.text+" "+s.text+" JOIN; use SEMI JOIN and ANTI JOIN")
			}
		}
		return k, true, p.expect("join", "after "+string(k))
	}
	return Inner, p.accept("join"), nil
}

func (p *parser) joinCondition(j *Join) (err error) {
	t := p.peek()
	switch {
	case j.Kind == Cross:
		if t.is("on") || t.is("using") {
			return Errorf(t.pos, "a CROSS JOIN has no condition; use JOIN")
		}
		return nil
	case p.accept("on"):
		j.On, err = p.expr()
		return err
	case p.accept("using"):
		j.Using, err = p.names("the name of a column of both tables")
		return err
	}
	return p.expected("ON or USING after the table of a " + string(j.Kind) + " JOIN")
}

// tablePrimary parses a table, a derived table or joins in parentheses.
func (p *parser) tablePrimary() (TableRef, error) {
	t := p.peek()
	switch {
	case t.is("lateral"):
		return nil, Unsupported(t.pos, "LATERAL")
	case t.is("("):
		return p.parenthesized()
	}
	if t.kind == stringToken {
		return nil, Errorf(t.pos, "a file is no table; pass a scan of '%s' as one of the tables", t.text)
	}
	name, err := p.name("the name of a table")
	if err != nil {
		return nil, err
	}
	if n := p.peek(); n.is(".") {
		return nil, Unsupported(n.pos, "the name of a schema before that of a table")
	} else if n.is("(") {
		return nil, Unsupported(n.pos, "a table function")
	}
	out := &Table{Pos: t.pos, Name: name}
	out.Alias, out.Columns, err = p.tableAlias()
	return out, err
}

// parenthesized parses what is in parentheses in FROM: a query or joins. Several parentheses may begin either, so it
// decides by what follows the inner ones.
func (p *parser) parenthesized() (TableRef, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	q, ref, err := p.queryOrJoins()
	if err != nil || q == nil {
		return ref, err
	}
	return p.derived(q)
}

// derived returns a query that has been parsed as a derived table.
func (p *parser) derived(q *Query) (TableRef, error) {
	out := &Derived{Pos: q.Pos, Query: q}
	var err error
	out.Alias, out.Columns, err = p.tableAlias()
	return out, err
}

// queryOrJoins returns one of both.
func (p *parser) queryOrJoins() (*Query, TableRef, error) {
	if err := p.enter(); err != nil {
		return nil, nil, err
	}
	defer p.leave()
	p.at++
	switch t := p.peek(); {
	case t.is("select"), t.is("with"), t.is("values"), t.is("from"):
		q, err := p.query()
		if err != nil {
			return nil, nil, err
		}
		return q, nil, p.expect(")", "after the query of a derived table")
	case t.is("("):
		q, ref, err := p.queryOrJoins()
		if err != nil {
			return nil, nil, err
		}
		if n := p.peek(); q != nil && (n.is(")") || n.is("union") || n.is("order") || n.is("limit") || n.is("offset")) {
			if !n.is(")") {
				if q, err = p.queryFrom(q); err != nil {
					return nil, nil, err
				}
			}
			return q, nil, p.expect(")", "after the query of a derived table")
		}
		if q != nil {
			if ref, err = p.derived(q); err != nil {
				return nil, nil, err
			}
		}
		if ref, err = p.joinsAfter(ref); err != nil {
			return nil, nil, err
		}
		return p.closeJoins(ref)
	}
	ref, err := p.tableRef()
	if err != nil {
		return nil, nil, err
	}
	return p.closeJoins(ref)
}

func (p *parser) closeJoins(ref TableRef) (*Query, TableRef, error) {
	if err := p.expect(")", "after the joins"); err != nil {
		return nil, nil, err
	}
	if t := p.peek(); t.is("as") || t.kind == quotedToken || t.kind == wordToken && !reserved[t.key] {
		return nil, nil, Unsupported(t.pos, "an alias of joins in parentheses")
	}
	return nil, ref, nil
}

// tableAlias parses [[AS] alias [(columns)]].
func (p *parser) tableAlias() (alias string, columns []string, err error) {
	if p.on("tablesample") {
		return "", nil, Unsupported(p.peek().pos, "TABLESAMPLE")
	}
	if t := p.peek(); (t.is("asof") || t.is("positional")) && p.ahead(1).is("join") {
		return "", nil, nil
	}
	if p.on("as") {
		p.at++
		if alias, err = p.name("the alias of a table"); err != nil {
			return "", nil, err
		}
	} else if alias, err = p.alias(); err != nil || alias == "" {
		return "", nil, err
	}
	if p.on("(") {
		columns, err = p.names("the name of a column")
	}
	return alias, columns, err
}
