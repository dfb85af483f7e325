package sqltext

import "slices"

// call parses the arguments of a function and FILTER and OVER after them. Its name has been read.
func (p *parser) call(name token) (Expr, error) {
	out := &Call{Pos: name.pos, Function: name.key}
	p.at++
	var err error
	switch {
	case p.accept(")"):
		return p.callTail(out)
	case p.accept("*"):
		out.Star = true
		if out.Function != "count" {
			return nil, Errorf(name.pos, "%s(*) has no meaning; only count(*) has", name.text)
		}
	default:
		if out.Distinct = p.accept("distinct"); !out.Distinct {
			p.accept("all")
		}
		if out.Args, err = p.exprs(); err != nil {
			return nil, err
		}
		if p.accept("order", "by") {
			if out.OrderBy, err = p.orderItems(); err != nil {
				return nil, err
			}
		}
	}
	if t := p.peek(); t.is("=>") || t.is(":") {
		return nil, Unsupported(t.pos, "an argument by name")
	} else if t.is("->") {
		return nil, Unsupported(t.pos, "a lambda")
	} else if t.is("ignore") || t.is("respect") {
		return nil, Unsupported(t.pos, "IGNORE NULLS and RESPECT NULLS")
	}
	if err := p.expect(")", "after the arguments of "+name.text); err != nil {
		return nil, err
	}
	return p.callTail(out)
}

// callTail parses FILTER and OVER.
func (p *parser) callTail(c *Call) (Expr, error) {
	var err error
	if p.on("within", "group") {
		return nil, Unsupported(p.peek().pos, "WITHIN GROUP; use quantile_cont(x, q)")
	}
	if p.accept("filter", "(") {
		if err := p.expect("where", "after FILTER ("); err != nil {
			return nil, err
		}
		if c.Filter, err = p.expr(); err != nil {
			return nil, err
		}
		if err := p.expect(")", "after the condition of FILTER"); err != nil {
			return nil, err
		}
	}
	if t := p.peek(); t.is("over") && p.ahead(1).kind == wordToken && !reserved[p.ahead(1).key] {
		return nil, Unsupported(t.pos, "a window by name; write the window after OVER")
	}
	if p.on("over", "(") {
		c.Over, err = p.window()
	}
	return c, err
}

func (p *parser) window() (*Window, error) {
	w := &Window{Pos: p.next().pos}
	p.at++
	var err error
	if p.accept("partition", "by") {
		if w.PartitionBy, err = p.exprs(); err != nil {
			return nil, err
		}
	}
	if p.accept("order", "by") {
		if w.OrderBy, err = p.orderItems(); err != nil {
			return nil, err
		}
	}
	switch t := p.peek(); {
	case t.is("range"), t.is("groups"):
		if !p.accept("range", "between", "unbounded", "preceding", "and", "current", "row") &&
			!p.accept("range", "unbounded", "preceding") {
			return nil, Unsupported(t.pos, "a window frame of RANGE or GROUPS; use ROWS")
		}
	case p.accept("rows"):
		if w.Frame, err = p.windowFrame(); err != nil {
			return nil, err
		}
	}
	if t := p.peek(); t.is("exclude") {
		return nil, Unsupported(t.pos, "EXCLUDE in a window")
	}
	return w, p.expect(")", "after the window")
}

func (p *parser) windowFrame() (*WindowFrame, error) {
	f := &WindowFrame{}
	var err error
	pos := p.peek().pos
	if !p.accept("between") {
		f.Start, err = p.bound()
		return f, err
	}
	if f.Start, err = p.bound(); err != nil {
		return nil, err
	}
	if err := p.expect("and", "after the start of a window frame"); err != nil {
		return nil, err
	}
	if f.End, err = p.bound(); err != nil {
		return nil, err
	}
	if f.Start.Unbounded && f.Start.Offset > 0 || f.End.Unbounded && f.End.Offset < 0 ||
		!f.Start.Unbounded && !f.End.Unbounded && f.Start.Offset > f.End.Offset {
		return nil, Errorf(pos, "the window frame ends before it starts")
	}
	return f, nil
}

// bound parses an end of a frame. An unbounded one has the offset -1 before and 1 after the current row.
func (p *parser) bound() (Bound, error) {
	var b Bound
	switch {
	case p.accept("current", "row"):
		return b, nil
	case p.accept("unbounded"):
		b = Bound{Unbounded: true, Offset: 1}
	default:
		n, err := p.count("ROWS")
		if err != nil {
			return b, err
		}
		b.Offset = n
	}
	switch {
	case p.accept("preceding"):
		b.Offset = -b.Offset
		return b, nil
	case p.accept("following"):
		return b, nil
	}
	return b, p.expected("PRECEDING or FOLLOWING")
}

// fields are the fields of EXTRACT.
var fields = []string{"year", "month", "day", "hour", "minute", "second", "quarter", "week", "dow", "isodow", "doy",
	"epoch", "century", "decade", "millisecond", "microsecond"}

func (p *parser) extract() (Expr, error) {
	pos := p.next().pos
	p.at++
	t := p.peek()
	if t.kind != wordToken && t.kind != stringToken {
		return nil, p.expected("a field such as YEAR in EXTRACT")
	}
	if !slices.Contains(fields, t.key) {
		return nil, Unsupported(t.pos, "the field "+t.text+" of EXTRACT")
	}
	p.at++
	if err := p.expect("from", "after the field of EXTRACT"); err != nil {
		return nil, err
	}
	x, err := p.expr()
	if err != nil {
		return nil, err
	}
	return &Extract{Pos: pos, Field: t.key, X: x}, p.expect(")", "after EXTRACT")
}

// substring parses substring(x FROM a FOR b) and substring(x, a, b).
func (p *parser) substring() (Expr, error) {
	out := &Call{Pos: p.next().pos, Function: "substring"}
	p.at++
	x, err := p.expr()
	if err != nil {
		return nil, err
	}
	out.Args = []Expr{x}
	if p.on("for") {
		out.Args = append(out.Args, &Literal{Pos: p.peek().pos, Kind: Integer, Text: "1"})
	}
	for _, word := range []string{"from", "for"} {
		if p.accept(word) || p.accept(",") {
			if x, err = p.expr(); err != nil {
				return nil, err
			}
			out.Args = append(out.Args, x)
		}
	}
	if len(out.Args) < 2 {
		return nil, p.expected("FROM or \",\" in SUBSTRING")
	}
	return out, p.expect(")", "after SUBSTRING")
}

// position parses position(x IN y).
func (p *parser) position() (Expr, error) {
	pos := p.next().pos
	p.at++
	x, err := p.concat()
	if err != nil {
		return nil, err
	}
	if err := p.expect("in", "in POSITION"); err != nil {
		return nil, err
	}
	y, err := p.concat()
	if err != nil {
		return nil, err
	}
	return &Call{Pos: pos, Function: "strpos", Args: []Expr{y, x}}, p.expect(")", "after POSITION")
}

// trim parses trim([BOTH|LEADING|TRAILING] [characters] FROM x) and trim(x[, characters]).
func (p *parser) trim() (Expr, error) {
	out := &Call{Pos: p.next().pos, Function: "trim"}
	p.at++
	switch {
	case p.accept("leading"):
		out.Function = "ltrim"
	case p.accept("trailing"):
		out.Function = "rtrim"
	default:
		p.accept("both")
	}
	var chars Expr
	var err error
	if !p.accept("from") {
		if chars, err = p.expr(); err != nil {
			return nil, err
		}
		if !p.accept("from") {
			out.Args = []Expr{chars}
			if p.accept(",") {
				x, err := p.expr()
				if err != nil {
					return nil, err
				}
				out.Args = append(out.Args, x)
			}
			return out, p.expect(")", "after TRIM")
		}
	}
	x, err := p.expr()
	if err != nil {
		return nil, err
	}
	out.Args = []Expr{x}
	if chars != nil {
		out.Args = append(out.Args, chars)
	}
	return out, p.expect(")", "after TRIM")
}
