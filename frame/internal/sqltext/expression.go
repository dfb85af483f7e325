package sqltext

// expr parses an expression: OR binds least, then AND, NOT, IS, comparisons, BETWEEN and IN and LIKE, ||, + and -,
// * and /, ^, the sign and ::, as in PostgreSQL.
func (p *parser) expr() (Expr, error) {
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	return p.logic("OR", "or", func() (Expr, error) { return p.logic("AND", "and", p.not) })
}

// logic parses operands with a logical operator between them into one node.
func (p *parser) logic(op, word string, operand func() (Expr, error)) (Expr, error) {
	first, err := operand()
	if err != nil || !p.on(word) {
		return first, err
	}
	out := &Logic{Pos: first.At(), Op: op, Args: []Expr{first}}
	for p.accept(word) {
		e, err := operand()
		if err != nil {
			return nil, err
		}
		out.Args = append(out.Args, e)
	}
	return out, nil
}

func (p *parser) not() (Expr, error) {
	t := p.peek()
	if !t.is("not") {
		return p.is()
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	p.at++
	x, err := p.not()
	if err != nil {
		return nil, err
	}
	return &Unary{Pos: t.pos, Op: "NOT", X: x}, nil
}

// is parses the tests after an operand: IS [NOT] NULL, TRUE, FALSE or DISTINCT FROM.
func (p *parser) is() (Expr, error) {
	x, err := p.comparison()
	if err != nil {
		return nil, err
	}
	for n := 0; n < maxChain; n++ {
		pos := p.peek().pos
		switch {
		case p.accept("isnull"):
			x = &IsTest{Pos: pos, X: x, What: "NULL"}
		case p.accept("notnull"):
			x = &IsTest{Pos: pos, X: x, What: "NULL", Not: true}
		case p.accept("is"):
			not := p.accept("not")
			switch {
			case p.accept("null"):
				x = &IsTest{Pos: pos, X: x, What: "NULL", Not: not}
			case p.accept("true"):
				x = &IsTest{Pos: pos, X: x, What: "TRUE", Not: not}
			case p.accept("false"):
				x = &IsTest{Pos: pos, X: x, What: "FALSE", Not: not}
			case p.accept("distinct", "from"):
				r, err := p.comparison()
				if err != nil {
					return nil, err
				}
				op := IsDistinct
				if not {
					op = IsNotDistinct
				}
				x = &Binary{Pos: pos, Op: op, L: x, R: r}
			default:
				return nil, p.expected("NULL, TRUE, FALSE or DISTINCT FROM after IS")
			}
		default:
			return x, nil
		}
	}
	return nil, p.tooLong()
}

func (p *parser) tooLong() error {
	return Errorf(p.peek().pos, "the expression has more than %d operators in a row", maxChain)
}

var comparisons = map[string]string{"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">",
	">=": ">="}

func (p *parser) comparison() (Expr, error) {
	l, err := p.ranges()
	if err != nil {
		return nil, err
	}
	t := p.peek()
	op, ok := comparisons[t.key]
	if t.kind != symbolToken || !ok {
		return l, nil
	}
	p.at++
	if n := p.peek(); (n.is("any") || n.is("all") || n.is("some")) && p.ahead(1).is("(") {
		return nil, Unsupported(n.pos, op+" "+n.text+" (…); use IN, EXISTS, min or max")
	}
	r, err := p.ranges()
	if err != nil {
		return nil, err
	}
	if n := p.peek(); n.kind == symbolToken && comparisons[n.key] != "" {
		return nil, Errorf(n.pos, "comparisons do not chain; combine two with AND")
	}
	return &Binary{Pos: t.pos, Op: op, L: l, R: r}, nil
}

// ranges parses [NOT] BETWEEN, IN and LIKE after an operand.
func (p *parser) ranges() (Expr, error) {
	x, err := p.concat()
	if err != nil {
		return nil, err
	}
	for n := 0; n < maxChain; n++ {
		pos := p.peek().pos
		not := false
		if p.on("not") {
			if n := p.ahead(1); !n.is("between") && !n.is("in") && !n.is("like") && !n.is("ilike") && !n.is("similar") {
				return x, nil
			}
			not = true
			p.at++
		}
		switch t := p.peek(); {
		case p.accept("between"):
			x, err = p.between(pos, x, not)
		case p.accept("in"):
			x, err = p.in(pos, x, not)
		case p.accept("like"):
			x, err = p.like(pos, x, not, false)
		case p.accept("ilike"):
			x, err = p.like(pos, x, not, true)
		case t.is("similar"):
			return nil, Unsupported(t.pos, "SIMILAR TO")
		case t.is("glob"), t.is("~"), t.is("!~"), t.is("~~"), t.is("!~~"):
			return nil, Unsupported(t.pos, "the operator "+t.text)
		default:
			return x, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, p.tooLong()
}

func (p *parser) between(pos Pos, x Expr, not bool) (Expr, error) {
	if p.on("symmetric") {
		return nil, Unsupported(p.peek().pos, "BETWEEN SYMMETRIC")
	}
	low, err := p.concat()
	if err != nil {
		return nil, err
	}
	if err := p.expect("and", "after the lower bound of BETWEEN"); err != nil {
		return nil, err
	}
	high, err := p.concat()
	if err != nil {
		return nil, err
	}
	return &Between{Pos: pos, X: x, Low: low, High: high, Not: not}, nil
}

func (p *parser) in(pos Pos, x Expr, not bool) (Expr, error) {
	if err := p.expect("(", "after IN"); err != nil {
		return nil, err
	}
	if p.on("select") || p.on("with") {
		q, err := p.query()
		if err != nil {
			return nil, err
		}
		return &InQuery{Pos: pos, X: x, Query: q, Not: not}, p.expect(")", "after the query of IN")
	}
	list, err := p.exprs()
	if err != nil {
		return nil, err
	}
	return &InList{Pos: pos, X: x, List: list, Not: not}, p.expect(")", "after the list of IN")
}

// exprs parses one expression or more.
func (p *parser) exprs() ([]Expr, error) {
	var out []Expr
	for {
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

func (p *parser) like(pos Pos, x Expr, not, fold bool) (Expr, error) {
	pattern, err := p.concat()
	if err != nil {
		return nil, err
	}
	out := &Like{Pos: pos, X: x, Pattern: pattern, Fold: fold, Not: not}
	if p.accept("escape") {
		out.Escape, err = p.concat()
	}
	return out, err
}

// chain parses operands with operators of one rank between them, from left to right.
func (p *parser) chain(operand func() (Expr, error), ops ...string) (Expr, error) {
	x, err := operand()
	if err != nil {
		return nil, err
	}
	for n := 0; n < maxChain; n++ {
		t, found := p.peek(), false
		for _, op := range ops {
			found = found || t.kind == symbolToken && t.key == op
		}
		if !found {
			return x, nil
		}
		p.at++
		r, err := operand()
		if err != nil {
			return nil, err
		}
		op := t.key
		if op == "**" {
			op = "^"
		}
		x = &Binary{Pos: t.pos, Op: op, L: x, R: r}
	}
	return nil, p.tooLong()
}

func (p *parser) concat() (Expr, error)  { return p.chain(p.sum, "||") }
func (p *parser) sum() (Expr, error)     { return p.chain(p.product, "+", "-") }
func (p *parser) product() (Expr, error) { return p.chain(p.power, "*", "/", "//", "%") }
func (p *parser) power() (Expr, error)   { return p.chain(p.sign, "^", "**") }

func (p *parser) sign() (Expr, error) {
	t := p.peek()
	if !t.is("-") && !t.is("+") {
		return p.casts()
	}
	if err := p.enter(); err != nil {
		return nil, err
	}
	defer p.leave()
	p.at++
	x, err := p.sign()
	if err != nil || t.key == "+" {
		return x, err
	}
	if l, ok := x.(*Literal); ok && l.Text[:1] != "-" && (l.Kind == Integer || l.Kind == Decimal || l.Kind == Float) {
		return &Literal{Pos: t.pos, Kind: l.Kind, Text: "-" + l.Text}, nil
	}
	return &Unary{Pos: t.pos, Op: "-", X: x}, nil
}

// casts parses :: after an operand.
func (p *parser) casts() (Expr, error) {
	x, err := p.primary()
	if err != nil {
		return nil, err
	}
	for n := 0; p.on("::"); n++ {
		if n == maxChain {
			return nil, p.tooLong()
		}
		pos := p.next().pos
		typ, err := p.typeName()
		if err != nil {
			return nil, err
		}
		x = &Cast{Pos: pos, X: x, Type: typ}
	}
	if t := p.peek(); t.is("[") {
		return nil, Unsupported(t.pos, "an element of a list")
	} else if t.is("collate") || t.is("at") && p.ahead(1).is("time") {
		return nil, Unsupported(t.pos, t.text)
	}
	return x, nil
}
