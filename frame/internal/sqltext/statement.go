package sqltext

import (
	"fmt"
	"strings"
)

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

// union parses the UNIONs and EXCEPTs after a first part.
func (p *parser) union(left Body) (Body, error) { return p.setOps(left, 0, UnionOp, ExceptOp) }

// setOps parses operations after a first part. INTERSECT binds more than the others.
func (p *parser) setOps(left Body, level int, ops ...SetOp) (_ Body, err error) {
	for n := 0; ; n++ {
		if level == 0 {
			if left, err = p.setOps(left, 1, IntersectOp); err != nil {
				return nil, err
			}
		}
		t := p.peek()
		u := &Union{Pos: t.pos, Left: left}
		for _, op := range ops {
			if t.is(strings.ToLower(string(op))) {
				u.Op = op
			}
		}
		if u.Op == "" {
			return left, nil
		}
		if n == maxChain {
			return nil, Errorf(t.pos, "the statement has more than %d UNIONs", maxChain)
		}
		p.at++
		if u.All = p.accept("all"); !u.All {
			p.accept("distinct")
		}
		if p.on("by", "name") {
			return nil, Unsupported(p.peek().pos, "UNION BY NAME")
		}
		if u.Right, err = p.selectOrParen(); err != nil {
			return nil, err
		}
		if level == 0 {
			if u.Right, err = p.setOps(u.Right, 1, IntersectOp); err != nil {
				return nil, err
			}
		}
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
		return parseValues(p)
	case t.is("from"):
		return parseFromSelect(p)
	case t.is("table"):
		return nil, Unsupported(t.pos, "TABLE; use SELECT * FROM")
	}
	return nil, p.expected("SELECT")
}

// parseValues parses VALUES as a UNION ALL of SELECTs, whose columns are col0, col1 and so on.
func parseValues(p *parser) (Body, error) {
	var out Body
	pos := p.next().pos
	for n := 0; ; n++ {
		if n == maxChain {
			return nil, Errorf(p.peek().pos, "VALUES has more than %d rows", maxChain)
		}
		row := &Select{Pos: p.peek().pos}
		if err := p.expect("(", "before a row of VALUES"); err != nil {
			return nil, err
		}
		list, err := p.exprs()
		if err != nil {
			return nil, err
		}
		if err := p.expect(")", "after a row of VALUES"); err != nil {
			return nil, err
		}
		for i, e := range list {
			row.Items = append(row.Items, Item{Expr: e, Alias: fmt.Sprintf("col%d", i)})
		}
		if out == nil {
			out = row
		} else {
			out = &Union{Pos: pos, Op: UnionOp, All: true, Left: out, Right: row}
		}
		if !p.accept(",") {
			return out, nil
		}
	}
}

// parseFromSelect parses FROM … [SELECT …].
func parseFromSelect(p *parser) (*Select, error) {
	s := &Select{Pos: p.peek().pos}
	if err := parseFromList(p, s); err != nil {
		return nil, err
	}
	if !p.on("select") {
		s.Items = []Item{{Expr: &Star{Pos: s.Pos}}}
		return s, p.selectTail(s)
	}
	if err := parseSelectList(p, s); err != nil {
		return nil, err
	}
	return s, p.selectTail(s)
}

func (p *parser) selectBody() (*Select, error) {
	s := &Select{Pos: p.peek().pos}
	if err := parseSelectList(p, s); err != nil {
		return nil, err
	}
	if p.on("into") {
		return nil, Unsupported(p.peek().pos, "SELECT INTO")
	}
	if p.on("from") {
		if err := parseFromList(p, s); err != nil {
			return nil, err
		}
	}
	return s, p.selectTail(s)
}

// parseSelectList parses SELECT and its list.
func parseSelectList(p *parser, s *Select) error {
	p.at++
	if p.accept("distinct") {
		s.Distinct = true
		if p.on("on") {
			return Unsupported(p.peek().pos, "DISTINCT ON")
		}
	} else {
		p.accept("all")
	}
	for {
		item, err := p.item()
		if err != nil {
			return err
		}
		s.Items = append(s.Items, item)
		if !p.accept(",") {
			return nil
		}
	}
}

// parseFromList parses FROM and its list.
func parseFromList(p *parser, s *Select) error {
	p.at++
	for {
		ref, err := p.tableRef()
		if err != nil {
			return err
		}
		s.From = append(s.From, ref)
		if !p.accept(",") {
			return nil
		}
	}
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
		return Item{Expr: star}, parseStarTail(p, star)
	}
	e, err := p.expr()
	if err != nil {
		return Item{}, err
	}
	alias, err := p.alias()
	return Item{Expr: e, Alias: alias}, err
}

// parseStarTail parses EXCLUDE and REPLACE after a star.
func parseStarTail(p *parser, s *Star) (err error) {
	if p.accept("exclude") {
		if p.on("(") {
			s.Exclude, err = p.names("the name of a column")
		} else {
			var name string
			name, err = p.name("the name of a column after EXCLUDE")
			s.Exclude = []string{name}
		}
		if err != nil {
			return err
		}
	}
	if p.on("except", "(") {
		return Unsupported(p.peek().pos, "* EXCEPT; use * EXCLUDE")
	}
	if !p.accept("replace") {
		return nil
	}
	if err := p.expect("(", "after REPLACE"); err != nil {
		return err
	}
	for {
		e, err := p.expr()
		if err != nil {
			return err
		}
		if err := p.expect("as", "after an expression of REPLACE"); err != nil {
			return err
		}
		name, err := p.name("the name of a column after AS")
		if err != nil {
			return err
		}
		s.Replace = append(s.Replace, Item{Expr: e, Alias: name})
		if !p.accept(",") {
			return p.expect(")", "after REPLACE")
		}
	}
}

func (p *parser) orderItems() ([]OrderItem, error) {
	var out []OrderItem
	for {
		var e Expr
		var err error
		if t := p.peek(); t.is("all") && len(out) == 0 {
			e = &Star{Pos: t.pos}
			p.at++
		} else if e, err = p.expr(); err != nil {
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
