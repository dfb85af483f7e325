package expr

import (
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
)

// bindIf gives both results a common type.
func bindIf(n *node) (*node, error) {
	c := n.args[0]
	switch {
	case c.isNull():
		n.args[0] = nullOf(boolType, c.src)
	case c.class() != boolean:
		return nil, n.mismatch("%v is %v, not bool", c.src, c.t)
	}
	t, err := n.common(n.args[1:])
	if err != nil {
		return nil, err
	}
	n.t = t
	return n, n.convertArgs(boolType, t, t)
}

func bindCoalesce(n *node) (*node, error) {
	t, err := n.common(n.args)
	if err != nil {
		return nil, err
	}
	n.t = t
	for i, a := range n.args {
		if n.args[i], err = convert(a, t); err != nil {
			return nil, err
		}
	}
	return n, nil
}

// bindNullIf keeps the type of the first operand.
func bindNullIf(n *node) (*node, error) {
	pair := &node{op: OpEq, args: slices.Clone(n.args), src: n.src}
	if _, err := bindCompare(pair); err != nil {
		return nil, err
	}
	if n.args[1].isNull() {
		return n.args[0], nil
	}
	n.args, n.t = pair.args, pair.args[0].t
	return n, nil
}

// common returns the type that has the values of all operands.
func (n *node) common(args []*node) (arrow.DataType, error) {
	var t arrow.DataType = arrow.Null
	first := arrow.DataType(arrow.Null)
	for _, literals := range []bool{false, true} { // constants adapt to columns
		for _, a := range args {
			if a.isLiteral() != literals {
				continue
			}
			if first.ID() == arrow.NULL {
				first = a.t
			}
			c, ok := commonType(t, a)
			if !ok {
				return nil, n.mismatch("%v and %v have no common type; use Cast", first, a.t)
			}
			t = c
		}
	}
	return t, nil
}

// commonType returns the type that has the values of type t and those of n.
func commonType(t arrow.DataType, n *node) (arrow.DataType, bool) {
	u := n.t
	ct, cu := classOf(t), classOf(u)
	switch {
	case ct == null || arrow.TypeEqual(t, u):
		return u, true
	case cu == null:
		return t, true
	case n.isLiteral() && fits(n, t):
		return t, true
	case ct == integer && cu == integer:
		return commonInteger(t, u), true
	case ct.isNumber() && cu.isNumber():
		if ct == floating || cu == floating {
			return float64Type, true
		}
		a, b := asDecimal(t), asDecimal(u)
		if n.isLiteral() {
			b = decimalOf(n)
		}
		scale := max(a.Scale, b.Scale)
		return decimalType(max(a.Precision-a.Scale, b.Precision-b.Scale)+scale, scale), true
	case ct == timestamp && cu == timestamp:
		return commonTimestamp(t.(*arrow.TimestampType), u.(*arrow.TimestampType)), true
	case ct == timestamp && cu == date:
		return t, true
	case ct == date && cu == timestamp:
		return u, true
	case ct == date && cu == date:
		return date32Type, true
	case ct == text && cu == text:
		return arrow.BinaryTypes.LargeString, true
	case ct == binary && cu == binary:
		return arrow.BinaryTypes.LargeBinary, true
	}
	return nil, false
}

// fits reports whether type t has the value of a constant, so that the constant does not widen the type.
func fits(n *node, t arrow.DataType) bool {
	c := classOf(t)
	switch n.class() {
	case integer:
		return c == integer && inRange(n.value, t) || c == floating
	case floating:
		return c == floating
	case text:
		return c == text || c.isTime()
	case binary:
		return c == binary
	}
	return false
}

func commonInteger(t, u arrow.DataType) arrow.DataType {
	bt, st := bitsOf(t)
	bu, su := bitsOf(u)
	if st == su {
		if bt >= bu {
			return t
		}
		return u
	}
	unsigned, signed := bt, bu
	if st {
		unsigned, signed = bu, bt
	}
	switch max(signed, 2*unsigned) {
	case 16:
		return arrow.PrimitiveTypes.Int16
	case 32:
		return arrow.PrimitiveTypes.Int32
	case 64:
		return int64Type
	}
	return decimalType(20, 0)
}

func commonTimestamp(t, u *arrow.TimestampType) arrow.DataType {
	out := &arrow.TimestampType{Unit: max(t.Unit, u.Unit), TimeZone: t.TimeZone}
	if t.TimeZone != u.TimeZone {
		out.TimeZone = "UTC"
	}
	return out
}

func bindCast(n *node) (*node, error) {
	t, err := ParseType(n.src.Type)
	if err != nil {
		return nil, err
	}
	a := n.args[0]
	if arrow.TypeEqual(a.t, t) {
		return a, nil
	}
	if a.isNull() {
		return nullOf(t, n.src), nil
	}
	if !castable(a.t, t) {
		return nil, n.mismatch("%v cannot be converted to %v", a.t, t)
	}
	n.t = t
	return n, nil
}

// castable reports whether Cast converts values of one type to another. Texts convert to and from all others.
func castable(from, to arrow.DataType) bool {
	f, t := classOf(from), classOf(to)
	number := func(c class) bool { return c.isNumber() || c == boolean }
	switch {
	case f == other || t == other || t == null:
		return false
	case f == null, f == t, f == text, t == text, number(f) && number(t), f.isTime() && t.isTime():
		return true
	case f == integer && t.isTime(), f.isTime() && t == integer:
		return true // the number of days or units since 1970
	}
	return false
}

// resultText returns the type of the result of functions of texts, which is large if an operand is.
func (n *node) resultText() arrow.DataType {
	for _, a := range n.args {
		if a.t.ID() == arrow.LARGE_STRING {
			return a.t
		}
	}
	return utf8Type
}

// bindText is the rule of functions whose operands are all texts.
func bindText(n *node) (*node, error) {
	for _, a := range n.args {
		if a.class() != text && !a.isNull() {
			return nil, n.mismatch("%v is %v, not utf8", a.src, a.t)
		}
	}
	switch n.op {
	case OpContains, OpStartsWith, OpEndsWith, OpLike:
		n.t = boolType
	default:
		n.t = n.resultText()
	}
	if n.anyNull() {
		return nullOf(n.t, n.src), nil
	}
	return n, nil
}

func bindLength(n *node) (*node, error) {
	n.t = int64Type
	switch a := n.args[0]; a.class() {
	case null:
		return nullOf(n.t, n.src), nil
	case text, binary:
		return n, nil
	default:
		return nil, n.mismatch("%v is %v, not utf8", a.src, a.t)
	}
}

func bindSubstring(n *node) (*node, error) {
	for i, a := range n.args {
		if i == 0 && a.class() != text && !a.isNull() {
			return nil, n.mismatch("%v is %v, not utf8", a.src, a.t)
		}
		if i > 0 && a.class() != integer && !a.isNull() {
			return nil, n.mismatch("%v is %v, not an integer", a.src, a.t)
		}
	}
	n.t = n.resultText()
	if n.anyNull() {
		return nullOf(n.t, n.src), nil
	}
	types := []arrow.DataType{n.args[0].t, int64Type, int64Type}
	return n, n.convertArgs(types[:len(n.args)]...)
}

// bindConcat converts operands of all types to text.
func bindConcat(n *node) (*node, error) {
	n.t = n.resultText()
	for i, a := range n.args {
		if a.class() == text {
			continue
		}
		if !castable(a.t, utf8Type) || a.class() == binary {
			return nil, n.mismatch("%v is %v, which has no text", a.src, a.t)
		}
		var err error
		if n.args[i], err = convert(a, utf8Type); err != nil {
			return nil, err
		}
	}
	if n.anyNull() {
		return nullOf(n.t, n.src), nil
	}
	return n, nil
}
