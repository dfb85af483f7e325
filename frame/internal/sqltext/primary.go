package sqltext

import (
	"strings"
	"time"
)

// primary parses a constant, a column, a call, CASE, a cast or something in parentheses.
func (p *parser) primary() (Expr, error) {
	t := p.peek()
	switch t.kind {
	case integerToken:
		p.at++
		return &Literal{Pos: t.pos, Kind: Integer, Text: t.text}, nil
	case decimalToken:
		p.at++
		return &Literal{Pos: t.pos, Kind: Decimal, Text: t.text}, nil
	case floatToken:
		p.at++
		return &Literal{Pos: t.pos, Kind: Float, Text: t.text}, nil
	case stringToken:
		p.at++
		return &Literal{Pos: t.pos, Kind: String, Text: t.text}, nil
	case quotedToken:
		return p.nameOrCall()
	case symbolToken:
		switch t.key {
		case "(":
			return p.paren()
		case "[", "{":
			return nil, Unsupported(t.pos, "a list or struct")
		}
	case wordToken:
		return p.word(t)
	}
	return nil, p.expected("an expression")
}

// paren parses a subquery or an expression in parentheses.
func (p *parser) paren() (Expr, error) {
	pos := p.next().pos
	if p.on("select") || p.on("with") {
		q, err := p.query()
		if err != nil {
			return nil, err
		}
		return &Subquery{Pos: pos, Query: q}, p.expect(")", "after the subquery")
	}
	e, err := p.expr()
	if err != nil {
		return nil, err
	}
	if p.on(",") {
		return nil, Unsupported(p.peek().pos, "a row of several values")
	}
	return e, p.expect(")", "")
}

// word parses what begins with a word.
func (p *parser) word(t token) (Expr, error) {
	next := p.ahead(1)
	switch {
	case t.is("null"):
		p.at++
		return &Literal{Pos: t.pos, Kind: Null}, nil
	case t.is("true"), t.is("false"):
		p.at++
		return &Literal{Pos: t.pos, Kind: Bool, Text: t.key}, nil
	case t.is("case"):
		return p.caseExpr()
	case t.is("exists"):
		p.at++
		q, err := p.parenQuery("EXISTS")
		return &Exists{Pos: t.pos, Query: q}, err
	case (t.is("cast") || t.is("try_cast")) && next.is("("):
		return p.cast()
	case t.is("interval"):
		if next.kind == stringToken || next.kind == integerToken {
			return p.interval()
		}
		if next.is("(") {
			return nil, Unsupported(t.pos, "an INTERVAL that is not constant")
		}
	case (t.is("date") || t.is("timestamp")) && next.kind == stringToken:
		return p.dateLiteral(t, next)
	case (t.is("timestamptz") || t.is("time")) && next.kind == stringToken:
		return nil, Unsupported(t.pos, "a constant of type "+t.text)
	case t.is("extract") && next.is("("):
		return p.extract()
	case t.is("substring") && next.is("("):
		return p.substring()
	case t.is("position") && next.is("("):
		return p.position()
	case t.is("trim") && next.is("("):
		return p.trim()
	case t.is("array") && (next.is("[") || next.is("(")), t.is("row") && next.is("("), t.is("struct") && next.is("("):
		return nil, Unsupported(t.pos, t.text)
	case functionWords[t.key] && next.is("("):
		return p.nameOrCall()
	case reserved[t.key]:
		return nil, p.expected("an expression")
	}
	return p.nameOrCall()
}

// nameOrCall parses a column, with or without the name of its table, or a call.
func (p *parser) nameOrCall() (Expr, error) {
	t := p.next()
	if p.on("(") {
		return p.call(t)
	}
	out := &Name{Pos: t.pos, Column: t.text}
	if p.accept(".") {
		c := p.peek()
		if c.kind != quotedToken && c.kind != wordToken {
			return nil, p.expected("the name of a column after \"" + t.text + ".\"")
		}
		p.at++
		out.Table, out.Column = t.text, c.text
		if p.on(".") {
			return nil, Unsupported(p.peek().pos, "a name of three parts")
		}
		if p.on("(") {
			return nil, Unsupported(p.peek().pos, "a function of a schema")
		}
	}
	return out, nil
}

func (p *parser) caseExpr() (Expr, error) {
	out := &Case{Pos: p.next().pos}
	var err error
	if !p.on("when") {
		if out.Operand, err = p.expr(); err != nil {
			return nil, err
		}
	}
	for p.accept("when") {
		var w When
		if w.Cond, err = p.expr(); err != nil {
			return nil, err
		}
		if err := p.expect("then", "after the condition of WHEN"); err != nil {
			return nil, err
		}
		if w.Value, err = p.expr(); err != nil {
			return nil, err
		}
		out.Whens = append(out.Whens, w)
	}
	if len(out.Whens) == 0 {
		return nil, p.expected("WHEN after CASE")
	}
	if p.accept("else") {
		if out.Else, err = p.expr(); err != nil {
			return nil, err
		}
	}
	return out, p.expect("end", "after CASE")
}

func (p *parser) cast() (Expr, error) {
	t := p.next()
	p.at++
	x, err := p.expr()
	if err != nil {
		return nil, err
	}
	if err := p.expect("as", "after the operand of CAST"); err != nil {
		return nil, err
	}
	typ, err := p.typeName()
	if err != nil {
		return nil, err
	}
	return &Cast{Pos: t.pos, X: x, Type: typ, Try: t.key == "try_cast"}, p.expect(")", "after the type of CAST")
}

// dateLiteral parses DATE '…' or TIMESTAMP '…'.
func (p *parser) dateLiteral(t, text token) (Expr, error) {
	p.at += 2
	value := strings.TrimSpace(text.text)
	if t.key == "date" {
		if _, err := time.Parse(time.DateOnly, value); err != nil {
			return nil, Errorf(text.pos, "'%s' is no date; write 2006-01-02", text.text)
		}
		return &Literal{Pos: t.pos, Kind: Date, Text: value}, nil
	}
	for _, layout := range []string{time.DateOnly, "2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02T15:04:05"} {
		// Parse accepts a fraction of a second after any layout with seconds.
		if at, err := time.Parse(layout, value); err == nil {
			return &Literal{Pos: t.pos, Kind: Timestamp, Text: at.Format("2006-01-02 15:04:05.999999")}, nil
		}
	}
	return nil, Errorf(text.pos, "'%s' is no timestamp; write 2006-01-02 15:04:05", text.text)
}
