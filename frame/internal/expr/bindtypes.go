package expr

import (
	"github.com/apache/arrow-go/v18/arrow"
)

// nullOf returns the constant null with a type.
func nullOf(t arrow.DataType, src Expr) *node { return &node{op: OpLiteral, t: t, src: src} }

// anyNull reports whether an operand is the constant null.
func (n *node) anyNull() bool {
	for _, a := range n.args {
		if a.isNull() {
			return true
		}
	}
	return false
}

// bindCompare compares numbers with numbers, texts with texts, and times with times or constants that are times as
// text.
func bindCompare(n *node) (*node, error) {
	if n.anyNull() {
		return nullOf(boolType, n.src), nil
	}
	for i := range n.args {
		a, b := n.args[i], n.args[1-i]
		if a.class().isTime() && b.class() == text && b.isLiteral() {
			var err error
			if n.args[1-i], err = timeOfText(b); err != nil {
				return nil, err
			}
		}
	}
	a, b := n.args[0], n.args[1]
	ca, cb := a.class(), b.class()
	switch {
	case ca == other || cb == other:
	case ca == cb, ca.isNumber() && cb.isNumber(), ca.isTime() && cb.isTime():
		n.t = boolType
		return n, nil
	}
	return nil, n.mismatch("cannot compare %v with %v", a.t, b.t)
}

// bindIn compares the first operand with all others.
func bindIn(n *node) (*node, error) {
	n.t = boolType
	if n.args[0].isNull() {
		return nullOf(boolType, n.src), nil
	}
	if first := n.args[0]; first.class() == text && first.isLiteral() {
		for _, a := range n.args[1:] {
			if a.class().isTime() {
				var err error
				if n.args[0], err = timeOfText(first); err != nil {
					return nil, err
				}
				break
			}
		}
	}
	for i, a := range n.args[1:] {
		pair := &node{op: OpEq, args: []*node{n.args[0], a}, src: n.src}
		bound, err := bindCompare(pair)
		if err != nil {
			return nil, err
		}
		if bound == pair {
			n.args[i+1] = pair.args[1]
		}
	}
	return n, nil
}

func bindNullTest(n *node) (*node, error) {
	n.t = boolType
	return n, nil
}

func bindLogic(n *node) (*node, error) {
	for i, a := range n.args {
		switch {
		case a.isNull():
			n.args[i] = nullOf(boolType, a.src)
		case a.class() != boolean:
			return nil, n.mismatch("%v is %v, not bool", a.src, a.t)
		}
	}
	n.t = boolType
	return n, nil
}

// verbs of arithmetic, for messages.
var verbs = map[Op]string{OpAdd: "add", OpSub: "subtract", OpMul: "multiply", OpDiv: "divide", OpIntDiv: "divide",
	OpMod: "divide", OpPow: "raise"}

// bindArithmetic converts the operands of arithmetic to a common type.
func bindArithmetic(n *node) (*node, error) {
	a, b := n.args[0], n.args[1]
	ca, cb := a.class(), b.class()
	if n.op == OpSub && ca == date && cb == date {
		n.t = int64Type
		return n, n.convertArgs(date32Type, date32Type)
	}
	if a.isNull() && b.isNull() {
		return nullOf(float64Type, n.src), nil
	}
	if a.isNull() {
		a, ca = b, cb
	} else if b.isNull() {
		b, cb = a, ca
	}
	if !ca.isNumber() || !cb.isNumber() {
		hint := ""
		if ca.isTime() || cb.isTime() {
			hint = "; use AddDays, AddMonths or DateDiff"
		}
		return nil, n.mismatch("cannot %s %v and %v%s", verbs[n.op], n.args[0].t, n.args[1].t, hint)
	}
	var err error
	switch {
	case n.op == OpDiv || n.op == OpPow || ca == floating || cb == floating || ca != cb && n.op == OpIntDiv ||
		ca == decimal && n.op == OpIntDiv:
		n.t = floatOf(a, b)
		err = n.convertArgs(n.t, n.t)
	case ca == decimal || cb == decimal:
		err = n.decimals(decimalOf(a), decimalOf(b))
	default:
		n.t = integerOf(a, b)
		err = n.convertArgs(n.t, n.t)
	}
	if err != nil {
		return nil, err
	}
	if n.anyNull() {
		return nullOf(n.t, n.src), nil
	}
	return n, nil
}

// convertArgs converts the operands to types.
func (n *node) convertArgs(types ...arrow.DataType) error {
	for i, t := range types {
		var err error
		if n.args[i], err = convert(n.args[i], t); err != nil {
			return err
		}
	}
	return nil
}

// floatOf returns the type of float arithmetic: float32 of a float32 with another or with a constant, else float64.
func floatOf(a, b *node) arrow.DataType {
	is32 := func(n *node) bool { return n.t.ID() == arrow.FLOAT32 }
	adapts := func(n *node) bool { return n.isLiteral() && n.class() != decimal }
	if is32(a) && (is32(b) || adapts(b)) || is32(b) && adapts(a) {
		return float32Type
	}
	return float64Type
}

// integerOf returns the type of integer arithmetic.
func integerOf(a, b *node) arrow.DataType {
	natural := func(n *node) bool {
		if x, ok := n.value.(int64); ok && n.isLiteral() {
			return x >= 0
		}
		return arrow.IsUnsignedInteger(n.t.ID())
	}
	if (a.t.ID() == arrow.UINT64 || b.t.ID() == arrow.UINT64) && natural(a) && natural(b) {
		return uint64Type
	}
	return int64Type
}

// decimalOf returns the decimal type of an operand: for a constant integer the one with as many digits as it has.
func decimalOf(n *node) *arrow.Decimal128Type {
	if n.isLiteral() && n.class() == integer && !n.isNull() {
		return &arrow.Decimal128Type{Precision: int32(len(digits(n.value)))}
	}
	return asDecimal(n.t)
}

// decimals sets the type of decimal arithmetic. Operands of a sum get a common scale, and those of a product keep
// theirs.
func (n *node) decimals(a, b *arrow.Decimal128Type) error {
	whole := max(a.Precision-a.Scale, b.Precision-b.Scale)
	scale := max(a.Scale, b.Scale)
	switch n.op {
	case OpMul:
		if a.Scale+b.Scale > maxPrecision {
			return n.mismatch("the product of %v and %v has more than %d digits after the point; cast one to float64",
				a, b, maxPrecision)
		}
		n.t = decimalType(a.Precision+b.Precision, a.Scale+b.Scale)
		return n.convertArgs(a, b)
	case OpMod:
		n.t = decimalType(whole+scale, scale)
	default:
		n.t = decimalType(whole+scale+1, scale)
	}
	return n.convertArgs(decimalType(a.Precision-a.Scale+scale, scale), decimalType(b.Precision-b.Scale+scale, scale))
}

func bindSign(n *node) (*node, error) {
	a := n.args[0]
	switch a.class() {
	case null:
		return nullOf(int64Type, n.src), nil
	case integer:
		n.t = int64Type
		if n.op == OpAbs && a.t.ID() == arrow.UINT64 {
			n.t = uint64Type
		}
		return n, n.convertArgs(n.t)
	case floating, decimal:
		n.t = a.t
		return n, nil
	}
	return nil, n.mismatch("%v is %v, not a number", a.src, a.t)
}

// bindRound keeps the types of integers and floats. A decimal loses the digits after the point.
func bindRound(n *node) (*node, error) {
	a := n.args[0]
	if len(n.args) == 2 {
		if _, ok := n.args[1].value.(int64); !ok || !n.args[1].isLiteral() {
			return nil, n.mismatch("the number of digits must be a constant integer")
		}
	}
	switch a.class() {
	case null:
		return nullOf(float64Type, n.src), nil
	case integer, floating:
		n.t = a.t
		return n, nil
	case decimal:
		d := asDecimal(a.t)
		scale := min(max(n.digits(), 0), int64(d.Scale))
		n.t = decimalType(d.Precision-d.Scale+int32(scale)+1, int32(scale))
		return n, nil
	}
	return nil, n.mismatch("%v is %v, not a number", a.src, a.t)
}

// digits returns the digits of a Round, 0 for Floor and Ceil.
func (n *node) digits() int64 {
	if n.op == OpRound && len(n.args) == 2 {
		return n.args[1].value.(int64)
	}
	return 0
}

func bindFloat(n *node) (*node, error) {
	a := n.args[0]
	if !a.class().isNumber() && !a.isNull() {
		return nil, n.mismatch("%v is %v, not a number", a.src, a.t)
	}
	n.t = float64Type
	if a.isNull() {
		return nullOf(n.t, n.src), nil
	}
	return n, n.convertArgs(n.t)
}
