package expr

import (
	"cmp"
	"math/big"

	"github.com/apache/arrow-go/v18/arrow"
)

// compareOp compares two sources of one form.
type compareOp[T cmp.Ordered] struct {
	op   Op
	a, b source[T]
}

func (o compareOp[T]) test(x *exec) (bitvec, error) {
	va, vb, err := operands(x, o.a, o.b, false, false)
	if err != nil {
		return bitvec{}, err
	}
	hits := alloc[bool](x, x.n)
	compareVV(o.op, hits, va.v, vb.v)
	return packed(x, hits, both(x, va.valid, vb.valid)), nil
}

// compareConst compares a source with a constant.
type compareConst[T cmp.Ordered] struct {
	op Op
	a  source[T]
	c  T
}

func (o compareConst[T]) test(x *exec) (bitvec, error) {
	va, err := o.a.eval(x)
	if err != nil {
		return bitvec{}, err
	}
	hits := alloc[bool](x, x.n)
	compareVC(o.op, hits, va.v, o.c)
	return packed(x, hits, va.valid), nil
}

func packed(x *exec, hits []bool, valid []uint64) bitvec {
	out := alloc[uint64](x, wordsFor(x.n))
	pack(out, hits)
	return bitvec{out, valid}
}

func compareVV[T cmp.Ordered](op Op, out []bool, a, b []T) {
	a, b = a[:len(out)], b[:len(out)]
	switch op {
	case OpEq:
		for i := range out {
			out[i] = a[i] == b[i]
		}
	case OpNe:
		for i := range out {
			out[i] = a[i] != b[i]
		}
	case OpLt:
		for i := range out {
			out[i] = a[i] < b[i]
		}
	case OpLe:
		for i := range out {
			out[i] = a[i] <= b[i]
		}
	case OpGt:
		for i := range out {
			out[i] = a[i] > b[i]
		}
	default:
		for i := range out {
			out[i] = a[i] >= b[i]
		}
	}
}

func compareVC[T cmp.Ordered](op Op, out []bool, a []T, c T) {
	a = a[:len(out)]
	switch op {
	case OpEq:
		for i := range out {
			out[i] = a[i] == c
		}
	case OpNe:
		for i := range out {
			out[i] = a[i] != c
		}
	case OpLt:
		for i := range out {
			out[i] = a[i] < c
		}
	case OpLe:
		for i := range out {
			out[i] = a[i] <= c
		}
	case OpGt:
		for i := range out {
			out[i] = a[i] > c
		}
	default:
		for i := range out {
			out[i] = a[i] >= c
		}
	}
}

// unordered is the order of a NaN and another number.
const unordered = 2

// accepts returns the result of a comparison for the orders less, equal, greater and unordered.
func (o Op) accepts() [4]bool {
	switch o {
	case OpEq:
		return [4]bool{1: true}
	case OpNe:
		return [4]bool{0: true, 2: true, 3: true}
	case OpLt:
		return [4]bool{0: true}
	case OpLe:
		return [4]bool{0: true, 1: true}
	case OpGt:
		return [4]bool{2: true}
	}
	return [4]bool{1: true, 2: true}
}

// orderOp compares two sources of different forms, or of one without operators, by a function that returns -1, 0, 1 or
// unordered.
type orderOp[A, B any] struct {
	op    Op
	a     source[A]
	b     source[B]
	order func(a A, b B) int
}

func (o orderOp[A, B]) test(x *exec) (bitvec, error) {
	va, err := o.a.eval(x)
	if err != nil {
		return bitvec{}, err
	}
	vb, err := o.b.eval(x)
	if err != nil {
		return bitvec{}, err
	}
	accept := o.op.accepts()
	hits := alloc[bool](x, x.n)
	a, b := va.v[:len(hits)], vb.v[:len(hits)]
	for i := range hits {
		hits[i] = accept[o.order(a[i], b[i])+1]
	}
	return packed(x, hits, both(x, va.valid, vb.valid)), nil
}

// compileCompare returns the comparison of two operands, whose types bindCompare has accepted.
func compileCompare(n *node) (predicate, error) {
	a, b, op := n.args[0], n.args[1], n.op
	if a.isLiteral() && !b.isLiteral() {
		a, b, op = b, a, op.flip()
	}
	if a.class() == boolean {
		return compileBools(op, a, b)
	}
	if a.class() == text || a.class() == binary {
		return sameForm[string](op, a, b)
	}
	if b.isLiteral() && !b.isNull() {
		return compileWithConstant(n, op, a, b)
	}
	switch {
	case a.class().isTime():
		return compileTimes(op, a, b)
	case a.class() == decimal || b.class() == decimal:
		return compileDecimalOrder(n, op, a, b)
	}
	fa, fb := formOf(a.t), formOf(b.t)
	if fa == fb {
		return compileSame(op, a, b)
	}
	if a.class() == integer && b.class() == integer {
		return compileIntegers(op, a, b)
	}
	return compileMixed(op, a, b)
}

// sameForm compares two operands of the form T.
func sameForm[T cmp.Ordered](op Op, a, b *node) (predicate, error) {
	sa, err := compile[T](a)
	if err != nil {
		return nil, err
	}
	sb, err := compile[T](b)
	if err != nil {
		return nil, err
	}
	if c, ok := constantOf(sb); ok {
		return compareConst[T]{op, sa, c}, nil
	}
	return compareOp[T]{op, sa, sb}, nil
}

func compileSame(op Op, a, b *node) (predicate, error) {
	switch formOf(a.t) {
	case formInt8:
		return sameForm[int8](op, a, b)
	case formInt16:
		return sameForm[int16](op, a, b)
	case formInt32:
		return sameForm[int32](op, a, b)
	case formInt64:
		return sameForm[int64](op, a, b)
	case formUint8:
		return sameForm[uint8](op, a, b)
	case formUint16:
		return sameForm[uint16](op, a, b)
	case formUint32:
		return sameForm[uint32](op, a, b)
	case formUint64:
		return sameForm[uint64](op, a, b)
	case formFloat32:
		return sameForm[float32](op, a, b)
	case formFloat64:
		return sameForm[float64](op, a, b)
	}
	return sameForm[string](op, a, b)
}

// compileAs is compile of n converted to a type that has all its values.
func compileAs[T any](n *node, t arrow.DataType) (source[T], error) {
	c, err := convert(n, t)
	if err != nil {
		return nil, err
	}
	return compile[T](c)
}

// compileIntegers compares integers of different types.
func compileIntegers(op Op, a, b *node) (predicate, error) {
	_, sa := bitsOf(a.t)
	_, sb := bitsOf(b.t)
	switch {
	case a.t.ID() != arrow.UINT64 && b.t.ID() != arrow.UINT64:
		return converted[int64](op, a, b, int64Type)
	case !sa && !sb:
		return converted[uint64](op, a, b, uint64Type)
	case sa:
		a, b, op = b, a, op.flip()
	}
	// a is uint64, b is signed.
	ua, err := compile[uint64](a)
	if err != nil {
		return nil, err
	}
	ib, err := compileAs[int64](b, int64Type)
	return orderOp[uint64, int64]{op, ua, ib, func(a uint64, b int64) int {
		if b < 0 {
			return 1
		}
		return cmp.Compare(a, uint64(b))
	}}, err
}

func converted[T cmp.Ordered](op Op, a, b *node, t arrow.DataType) (predicate, error) {
	ca, err := convert(a, t)
	if err != nil {
		return nil, err
	}
	cb, err := convert(b, t)
	if err != nil {
		return nil, err
	}
	return sameForm[T](op, ca, cb)
}

// compileMixed compares floats of different types, and integers with floats exactly.
func compileMixed(op Op, a, b *node) (predicate, error) {
	if a.class() == floating && b.class() == integer {
		a, b, op = b, a, op.flip()
	}
	wide := func(n *node) bool { return n.t.ID() == arrow.INT64 || n.t.ID() == arrow.UINT64 }
	if !wide(a) {
		return converted[float64](op, a, b, float64Type)
	}
	fb, err := compileAs[float64](b, float64Type)
	if err != nil {
		return nil, err
	}
	if a.t.ID() == arrow.INT64 {
		ia, err := compile[int64](a)
		return orderOp[int64, float64]{op, ia, fb, orderIntFloat[int64]}, err
	}
	ua, err := compile[uint64](a)
	return orderOp[uint64, float64]{op, ua, fb, orderIntFloat[uint64]}, err
}

// orderIntFloat compares exactly: 2^53+1 is greater than 2^53.
func orderIntFloat[T int64 | uint64](a T, b float64) int {
	if b != b {
		return unordered
	}
	if f := float64(a); f != b {
		return cmp.Compare(f, b)
	}
	least, limit := rangeOf[T]()
	if b >= limit { // the integer was rounded up to it
		return -1
	}
	if b < least {
		return 1
	}
	return cmp.Compare(a, T(b))
}

// compileTimes compares dates and timestamps of different units exactly.
func compileTimes(op Op, a, b *node) (predicate, error) {
	pa, pb := unitsPerDay(a.t), unitsPerDay(b.t)
	if pa > pb {
		a, b, op, pa, pb = b, a, op.flip(), pb, pa
	}
	if pa == pb && formOf(a.t) == formOf(b.t) {
		return compileSame(op, a, b)
	}
	coarse, err := compileInt64(a)
	if err != nil {
		return nil, err
	}
	fine, err := compileInt64(b)
	if err != nil {
		return nil, err
	}
	factor := pb / pa
	return orderOp[int64, int64]{op, coarse, fine, func(a, b int64) int {
		q := floorDiv(b, factor)
		if a == q && b != q*factor {
			return -1
		}
		return cmp.Compare(a, q)
	}}, nil
}

// compileDecimalOrder compares decimals with numbers.
func compileDecimalOrder(n *node, op Op, a, b *node) (predicate, error) {
	if a.class() == floating || b.class() == floating {
		return converted[float64](op, a, b, float64Type)
	}
	ta, tb := asDecimal(a.t), asDecimal(b.t)
	scale := max(ta.Scale, tb.Scale)
	digits := max(ta.Precision-ta.Scale, tb.Precision-tb.Scale) + scale
	if digits > maxPrecision {
		return compileBigOrder(op, a, b, ta, tb)
	}
	common := decimalType(digits, scale)
	if digits <= smallDigits {
		return converted[int64](op, a, b, common)
	}
	wide := func(n *node) (source[int128], error) {
		c, err := convert(n, common)
		if err != nil {
			return nil, err
		}
		return compileWide(c)
	}
	wa, err := wide(a)
	if err != nil {
		return nil, err
	}
	wb, err := wide(b)
	return orderOp[int128, int128]{op, wa, wb, int128.cmp}, err
}

// compileBigOrder compares decimals that have no common type.
func compileBigOrder(op Op, a, b *node, ta, tb *arrow.Decimal128Type) (predicate, error) {
	ca, err := convert(a, ta)
	if err != nil {
		return nil, err
	}
	cb, err := convert(b, tb)
	if err != nil {
		return nil, err
	}
	wa, err := compileWide(ca)
	if err != nil {
		return nil, err
	}
	wb, err := compileWide(cb)
	return orderOp[int128, int128]{op, wa, wb, func(a, b int128) int {
		x := new(big.Int).Mul(a.big(), pow10[tb.Scale].big())
		return x.Cmp(new(big.Int).Mul(b.big(), pow10[ta.Scale].big()))
	}}, err
}
