package expr

import (
	"github.com/apache/arrow-go/v18/arrow"
)

// fold computes an operation whose operands are constants. An operation that fails is left as it is, because its rows
// may never be evaluated.
func fold(n *node) *node {
	if n.isLiteral() || n.op == OpColumn {
		return n
	}
	for _, a := range n.args {
		if !a.isLiteral() {
			return simplify(n)
		}
	}
	p, err := compileAny(n)
	if err != nil {
		return n
	}
	x := newExec(nil)
	defer x.done()
	x.chunk(0, 1)
	v, ok := constantValue(x, n, p)
	if !ok {
		return n
	}
	return &node{op: OpLiteral, t: n.t, value: v, src: n.src}
}

// constantValue evaluates an operation for one row.
func constantValue(x *exec, n *node, p any) (any, bool) {
	switch s := p.(type) {
	case predicate:
		v, err := s.test(x)
		if err != nil || !bitSet(v.valid, 0) {
			return nil, err == nil
		}
		return bitSet(v.v, 0), true
	case source[int8]:
		return firstOf(x, n, s)
	case source[int16]:
		return firstOf(x, n, s)
	case source[int32]:
		return firstOf(x, n, s)
	case source[int64]:
		return firstOf(x, n, s)
	case source[uint8]:
		return firstOf(x, n, s)
	case source[uint16]:
		return firstOf(x, n, s)
	case source[uint32]:
		return firstOf(x, n, s)
	case source[uint64]:
		return firstOf(x, n, s)
	case source[float32]:
		return firstOf(x, n, s)
	case source[float64]:
		return firstOf(x, n, s)
	case source[int128]:
		return firstOf(x, n, s)
	case source[string]:
		return firstOf(x, n, s)
	}
	return nil, false
}

func firstOf[T any](x *exec, n *node, s source[T]) (any, bool) {
	v, err := s.eval(x)
	if err != nil {
		return nil, false
	}
	if !bitSet(v.valid, 0) {
		return nil, true
	}
	return scalarOf(v.v[0], n.t), true
}

// simplify removes constant operands of And, Or and If.
func simplify(n *node) *node {
	switch n.op {
	case OpAnd, OpOr:
		decisive := n.op == OpOr
		var args []*node
		for _, a := range n.args {
			v, known := a.value.(bool)
			switch {
			case !a.isLiteral() || !known:
				args = append(args, a)
			case v == decisive:
				return a
			}
		}
		out := *n
		out.args = args
		return &out
	case OpIf:
		if c := n.args[0]; c.isLiteral() {
			if v, _ := c.value.(bool); v {
				return n.args[1]
			}
			return n.args[2]
		}
	}
	return n
}

// Fold replaces the parts of an expression that use no column by constants. Parts that fail are left as they are.
func Fold(e Expr) Expr {
	if e.Op == OpColumn || e.Op == OpLiteral {
		return e
	}
	if e.Op != OpAs && len(Columns(e)) == 0 {
		if b, err := Bind(e, noColumns); err == nil && b.root.isLiteral() {
			if out, ok := literalExpr(b.root); ok {
				return out
			}
		}
		return e
	}
	out := e
	out.Args = make([]Expr, len(e.Args))
	for i, a := range e.Args {
		out.Args[i] = Fold(a)
	}
	return foldLogic(out)
}

var noColumns = arrow.NewSchema(nil, nil)

// foldLogic removes constants from And and Or.
func foldLogic(e Expr) Expr {
	if e.Op != OpAnd && e.Op != OpOr {
		return e
	}
	var args []Expr
	for _, a := range e.Args {
		v, known := a.Value.(bool)
		switch {
		case a.Op != OpLiteral || !known:
			args = append(args, a)
		case v == (e.Op == OpOr):
			return a
		}
	}
	switch len(args) {
	case 0:
		return Lit(e.Op == OpAnd)
	case 1:
		return args[0]
	}
	return Expr{Op: e.Op, Args: args}
}

// literalExpr returns the expression of a constant, with its type if the value alone has another.
func literalExpr(n *node) (Expr, bool) {
	out := Expr{Op: OpLiteral, Value: n.value}
	switch n.class() {
	case null, boolean, text:
	case binary:
		if s, ok := n.value.(string); ok {
			out.Value = []byte(s)
		}
	case decimal, date, timestamp:
		if n.value != nil {
			out.Value = textValue(n)
		}
	}
	if l, err := bindLiteral(Expr{Op: OpLiteral, Value: out.Value}); err != nil || !arrow.TypeEqual(l.t, n.t) {
		out.Type = TypeName(n.t)
		if _, err := ParseType(out.Type); err != nil {
			return Expr{}, false
		}
	}
	return out, true
}

// textValue returns the text of a decimal, date or timestamp.
func textValue(n *node) any {
	switch x := n.value.(type) {
	case int128:
		return string(appendDecimal(nil, x, scaleOf(n.t)))
	case int64:
		return string(appendInt64(n.t)(nil, x))
	}
	return n.value
}
