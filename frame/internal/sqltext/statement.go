package sqltext

// query parses [WITH …] body [ORDER BY …] [LIMIT …] [OFFSET …].
func (p *parser) query() (*Query, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	q := &Query{Pos: p.peek().pos}
	if p.accept("with") {
		if p.on("recursive") {
			return nil, Unsupported(p.peek().pos, "WITH RECURSIVE")
		}
		for {
			c, err := p.cte()
			if err != nil {
				return nil, err
			}
			q.With = append(q.With, c)
			if !p.accept(",") {
				break
			}
		}
	}
	left, err := p.selectOrParen()
	if err != nil {
		return nil, err
	}
	return p.queryTail(q, left)
}

// queryFrom continues a query that begins with another one in parentheses, which has been parsed.
func (p *parser) queryFrom(left *Query) (*Query, error) {
	return p.queryTail(&Query{Pos: left.Pos}, left)
}

// queryTail parses what follows the first SELECT.
func (p *parser) queryTail(q *Query, left Body) (_ *Query, err error) {
	if q.Body, err = p.union(left); err != nil {
		return nil, err
	}
	if p.accept("order", "by") {
		if p.on("all") {
			return nil, Unsupported(p.peek().pos, "ORDER BY ALL")
		}
		if q.OrderBy, err = p.orderItems(); err != nil {
			return nil, err
		}
	}
	for {
		switch t := p.peek(); {
		case t.is("limit") && q.Limit == nil:
			p.at++
			if p.accept("all") {
				continue
			}
			n, err := p.count("LIMIT")
			if err != nil {
				return nil, err
			}
			if p.on("%") || p.on("percent") {
				return nil, Unsupported(p.peek().pos, "LIMIT in percent")
			}
			q.Limit = &n
		case t.is("offset") && q.Offset == nil:
			p.at++
			n, err := p.count("OFFSET")
			if err != nil {
				return nil, err
			}
			if !p.accept("rows") {
				p.accept("row")
			}
			q.Offset = &n
		case t.is("fetch"):
			return nil, Unsupported(t.pos, "FETCH; use LIMIT")
		case t.is("for"):
			return nil, Unsupported(t.pos, "FOR UPDATE and FOR SHARE")
		default:
			return q, nil
		}
	}
}

func (p *parser) cte() (CTE, error) {
	c := CTE{Pos: p.peek().pos}
	var err error
	if c.Name, err = p.name("the name of a common table expression"); err != nil {
		return c, err
	}
	if p.on("(") {
		if c.Columns, err = p.names("the name of a column"); err != nil {
			return c, err
		}
	}
	if err := p.expect("as", "after the name of a common table expression"); err != nil {
		return c, err
	}
	if !p.accept("materialized") && p.on("not", "materialized") {
		p.at += 2
	}
	c.Query, err = p.parenQuery("the common table expression " + c.Name)
	return c, err
}

// parenQuery parses a query in parentheses.
func (p *parser) parenQuery(of string) (*Query, error) {
	if err := p.expect("(", "before the query of "+of); err != nil {
		return nil, err
	}
	q, err := p.query()
	if err != nil {
		return nil, err
	}
	return q, p.expect(")", "after the query of "+of)
}

// union parses the UNIONs after a first part.
func (p *parser) union(left Body) (Body, error) {
	for n := 0; ; n++ {
		t := p.peek()
		switch {
		case t.is("intersect"), t.is("except"):
			return nil, Unsupported(t.pos, "INTERSECT and EXCEPT; use EXISTS and NOT EXISTS")
		case !t.is("union"):
			return left, nil
		}
		if n == maxChain {
			return nil, Errorf(t.pos, "the statement has more than %d UNIONs", maxChain)
		}
		p.at++
		u := &Union{Pos: t.pos, Left: left}
		if u.All = p.accept("all"); !u.All {
			p.accept("distinct")
		}
		if p.on("by", "name") {
			return nil, Unsupported(p.peek().pos, "UNION BY NAME")
		}
		right, err := p.selectOrParen()
		if err != nil {
			return nil, err
		}
		u.Right = right
		left = u
	}
}

func (p *parser) selectOrParen() (Body, error) {
	t := p.peek()
	switch {
	case t.is("select"):
		return p.selectBody()
	case t.is("("):
		q, err := p.parenQuery("a UNION")
		if err != nil {
			return nil, err
		}
		return q, nil
	case t.is("values"):
		return nil, Unsupported(t.pos, "VALUES")
	case t.is("from"):
		return nil, Unsupported(t.pos, "FROM before SELECT")
	case t.is("table"):
		return nil, Unsupported(t.pos, "TABLE; use SELECT * FROM")
	}
	return nil, p.expected("SELECT")
}

func (p *parser) selectBody() (*Select, error) {
	s := &Select{Pos: p.next().pos}
	if p.accept("distinct") {
		s.Distinct = true
		if p.on("on") {
			return nil, Unsupported(p.peek().pos, "DISTINCT ON")
		}
	} else {
		p.accept("all")
	}
	for {
		item, err := p.item()
		if err != nil {
			return nil, err
		}
		s.Items = append(s.Items, item)
		if !p.accept(",") {
			break
		}
	}
	if p.on("into") {
		return nil, Unsupported(p.peek().pos, "SELECT INTO")
	}
	if p.accept("from") {
		for {
			ref, err := p.tableRef()
			if err != nil {
				return nil, err
			}
			s.From = append(s.From, ref)
			if !p.accept(",") {
				break
			}
		}
	}
	return s, p.selectTail(s)
}

// selectTail parses WHERE, GROUP BY, HAVING and QUALIFY.
func (p *parser) selectTail(s *Select) (err error) {
	if p.accept("where") {
		if s.Where, err = p.expr(); err != nil {
			return err
		}
	}
	if p.accept("group", "by") {
		if s.GroupByAll = p.accept("all"); !s.GroupByAll {
			if s.GroupBy, err = p.groupKeys(); err != nil {
				return err
			}
		}
	}
	if p.accept("having") {
		if s.Having, err = p.expr(); err != nil {
			return err
		}
	}
	if p.on("window") {
		return Unsupported(p.peek().pos, "WINDOW; write the window after OVER")
	}
	if p.accept("qualify") {
		if s.Qualify, err = p.expr(); err != nil {
			return err
		}
	}
	return nil
}

func (p *parser) groupKeys() ([]Expr, error) {
	var out []Expr
	for {
		t, n := p.peek(), p.ahead(1)
		switch {
		case t.is("rollup") && n.is("("), t.is("cube") && n.is("("), t.is("grouping") && n.is("sets"):
			return nil, Unsupported(t.pos, "ROLLUP, CUBE and GROUPING SETS")
		case t.is("(") && n.is(")"):
			return nil, Unsupported(t.pos, "an empty grouping set")
		}
		e, err := p.expr()
		if err != nil {
			return nil, err
		}
		out = append(out, e)
		if !p.accept(",") {
			return out, nil
		}
	}
}

// item parses an element of a select list.
func (p *parser) item() (Item, error) {
	t := p.peek()
	var star *Star
	switch name := p.ahead(0); {
	case t.is("*"):
		star = &Star{Pos: t.pos}
		p.at++
	case (name.kind == quotedToken || name.kind == wordToken && !reserved[name.key]) &&
		p.ahead(1).is(".") && p.ahead(2).is("*"):
		star = &Star{Pos: t.pos, Table: name.text}
		p.at += 3
	}
	if star != nil {
		if n := p.peek(); n.is("exclude") || n.is("except") && p.ahead(1).is("(") || n.is("replace") {
			return Item{}, Unsupported(n.pos, "* EXCLUDE and * REPLACE")
		}
		return Item{Expr: star}, nil
	}
	e, err := p.expr()
	if err != nil {
		return Item{}, err
	}
	alias, err := p.alias()
	return Item{Expr: e, Alias: alias}, err
}

func (p *parser) orderItems() ([]OrderItem, error) {
	var out []OrderItem
	for {
		e, err := p.expr()
		if err != nil {
			return nil, err
		}
		o := OrderItem{Expr: e}
		if p.accept("desc") {
			o.Desc = true
		} else {
			p.accept("asc")
		}
		switch {
		case p.accept("nulls", "first"):
			o.NullsFirst = true
		case p.accept("nulls", "last"):
		case p.on("nulls"):
			p.at++
			return nil, p.expected("FIRST or LAST after NULLS")
		}
		out = append(out, o)
		if !p.accept(",") {
			return out, nil
		}
	}
}
