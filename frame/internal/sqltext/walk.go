package sqltext

// Map returns the expression with f applied to each node, from the root: if f returns another node, that one is taken
// and its operands are not visited. Queries within are not entered. The expression itself is not changed.
func Map(e Expr, f func(Expr) (Expr, error)) (Expr, error) {
	if e == nil {
		return nil, nil
	}
	out, err := f(e)
	if err != nil || out != e {
		return out, err
	}
	m := mapper{f: f}
	out = m.operands(e)
	return out, m.err
}

// Walk calls f for each node of an expression, from the root, without those in queries. It does not enter the operands
// of a node for which f returns false.
func Walk(e Expr, f func(Expr) bool) {
	if e == nil {
		return
	}
	// A mapping to itself has no error.
	Map(e, func(x Expr) (Expr, error) { //nolint:errcheck
		if f(x) {
			return x, nil
		}
		return stop, nil
	})
}

// stop replaces nodes whose operands are not visited.
var stop Expr = &Literal{}

// mapper copies nodes with mapped operands.
type mapper struct {
	f   func(Expr) (Expr, error)
	err error
}

func (m *mapper) one(e Expr) Expr {
	if e == nil || m.err != nil {
		return e
	}
	out, err := Map(e, m.f)
	if err != nil {
		m.err = err
		return e
	}
	return out
}

func (m *mapper) all(list []Expr) []Expr {
	out := make([]Expr, len(list))
	for i, e := range list {
		out[i] = m.one(e)
	}
	return out
}

func (m *mapper) order(items []OrderItem) []OrderItem {
	var out []OrderItem
	for _, o := range items {
		o.Expr = m.one(o.Expr)
		out = append(out, o)
	}
	return out
}

// operands returns a copy of the node with mapped operands.
func (m *mapper) operands(e Expr) Expr {
	switch x := e.(type) {
	case *Unary:
		y := *x
		y.X = m.one(x.X)
		return &y
	case *Binary:
		y := *x
		y.L, y.R = m.one(x.L), m.one(x.R)
		return &y
	case *Logic:
		y := *x
		y.Args = m.all(x.Args)
		return &y
	case *IsTest:
		y := *x
		y.X = m.one(x.X)
		return &y
	case *Between:
		y := *x
		y.X, y.Low, y.High = m.one(x.X), m.one(x.Low), m.one(x.High)
		return &y
	case *InList:
		y := *x
		y.X, y.List = m.one(x.X), m.all(x.List)
		return &y
	case *InQuery:
		y := *x
		y.X = m.one(x.X)
		return &y
	case *Like:
		y := *x
		y.X, y.Pattern, y.Escape = m.one(x.X), m.one(x.Pattern), m.one(x.Escape)
		return &y
	case *Case:
		y := *x
		y.Operand, y.Else, y.Whens = m.one(x.Operand), m.one(x.Else), nil
		for _, w := range x.Whens {
			y.Whens = append(y.Whens, When{m.one(w.Cond), m.one(w.Value)})
		}
		return &y
	case *Cast:
		y := *x
		y.X = m.one(x.X)
		return &y
	case *Extract:
		y := *x
		y.X = m.one(x.X)
		return &y
	case *Call:
		return m.call(x)
	}
	return e
}

func (m *mapper) call(x *Call) Expr {
	y := *x
	y.Args, y.OrderBy, y.Filter = m.all(x.Args), m.order(x.OrderBy), m.one(x.Filter)
	if x.Over != nil {
		w := *x.Over
		w.PartitionBy, w.OrderBy = m.all(x.Over.PartitionBy), m.order(x.Over.OrderBy)
		y.Over = &w
	}
	return &y
}
