package expr

import (
	"cmp"
	"math"
	"math/big"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
)

// always is true for all rows with a value, or false for all.
type always struct {
	of    validity
	value bool
}

func (o always) test(x *exec) (bitvec, error) {
	valid, err := o.of.rows(x)
	return bitvec{fill(x, x.n, o.value), valid}, err
}

// compileWithConstant compares a number or time with a constant, exactly: the constant is converted to the type of the
// operand, and the comparison changed if the type has no such value. x < 2.5 is x <= 2 for integers.
func compileWithConstant(n *node, op Op, a, b *node) (predicate, error) {
	if f, ok := b.value.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) && a.class() != floating {
		of, err := compileValidity(a)
		side := 0 // of the constant
		if f > 0 {
			side = 1
		} else if f < 0 {
			side = -1
		}
		return always{of, outside(op, side)}, err
	}
	if a.class() == floating {
		return compileFloatConstant(op, a, b)
	}
	floor, exact := unitsOf(b, a.t)
	switch formOf(a.t) {
	case formInt8:
		return withConstant[int8](op, a, floor, exact)
	case formInt16:
		return withConstant[int16](op, a, floor, exact)
	case formInt32:
		return withConstant[int32](op, a, floor, exact)
	case formInt64:
		return withConstant[int64](op, a, floor, exact)
	case formUint8:
		return withConstant[uint8](op, a, floor, exact)
	case formUint16:
		return withConstant[uint16](op, a, floor, exact)
	case formUint32:
		return withConstant[uint32](op, a, floor, exact)
	case formUint64:
		return withConstant[uint64](op, a, floor, exact)
	case formInt128:
		return withWideConstant(op, a, floor, exact)
	}
	return nil, n.mismatch("cannot compare %v with %v", a.t, b.t)
}

// outside returns the result of a comparison with a constant that is less (-1) or greater (1) than all values, or NaN
// (0).
func outside(op Op, side int) bool {
	switch op {
	case OpNe:
		return true
	case OpLt, OpLe:
		return side > 0
	case OpGt, OpGe:
		return side < 0
	}
	return false
}

// between returns the comparison with the next lower value if the constant is between two values. ok is false if the
// result is the same for all values.
func between(op Op) (_ Op, ok bool) {
	switch op {
	case OpLt, OpLe:
		return OpLe, true
	case OpGt, OpGe:
		return OpGt, true
	}
	return op, false
}

// unitsOf returns a constant number or time in units of the type of a column, rounded down, and whether that is exact.
func unitsOf(c *node, t arrow.DataType) (floor *big.Int, exact bool) {
	value := rational(c, classOf(t) == decimal)
	unit := new(big.Rat)
	if classOf(t).isTime() {
		unit.SetInt64(unitsPerDay(t))
	} else {
		unit.SetInt(pow10[scaleOf(t)].big())
	}
	value.Mul(value, unit)
	floor, rest := new(big.Int).DivMod(value.Num(), value.Denom(), new(big.Int))
	return floor, rest.Sign() == 0
}

// rational returns the value of a constant: a number, or a time in days. A float is its shortest decimal text if it is
// compared with decimals, so that 0.05 equals the decimal 0.05.
func rational(c *node, shortest bool) *big.Rat {
	out := new(big.Rat)
	if f, ok := c.value.(float64); ok {
		if shortest {
			out.SetString(strconv.FormatFloat(f, 'g', -1, 64))
		} else {
			out.SetFloat64(f)
		}
		return out
	}
	out.SetInt(bigOf(c.value))
	unit := new(big.Rat)
	if c.class().isTime() {
		unit.SetInt64(unitsPerDay(c.t))
	} else {
		unit.SetInt(pow10[scaleOf(c.t)].big())
	}
	return out.Quo(out, unit)
}

// withConstant compares an integer form with a constant that is rounded down.
func withConstant[T whole](op Op, a *node, floor *big.Int, exact bool) (predicate, error) {
	least, most := bounds[T]()
	side := 0
	switch {
	case floor.Cmp(most) > 0:
		side = 1
	case floor.Cmp(least) < 0:
		side = -1
	}
	newOp, varies := op, true
	if !exact {
		newOp, varies = between(op)
	}
	if side != 0 || !varies {
		of, err := compileValidity(a)
		if side == 0 {
			return always{of, op == OpNe}, err
		}
		return always{of, outside(op, side)}, err
	}
	s, err := compile[T](a)
	c := T(floor.Int64())
	if floor.IsUint64() {
		c = T(floor.Uint64())
	}
	return compareConst[T]{newOp, s, c}, err
}

func bounds[T whole]() (least, most *big.Int) {
	l, m := rangeOf[T]()
	least, _ = big.NewFloat(l).Int(nil)
	most, _ = big.NewFloat(m).Int(nil)
	return least, most.Sub(most, big.NewInt(1))
}

// compareWide compares decimals of more than 18 digits with a constant.
type compareWide struct {
	op Op
	a  source[int128]
	c  int128
}

func (o compareWide) test(x *exec) (bitvec, error) {
	va, err := o.a.eval(x)
	if err != nil {
		return bitvec{}, err
	}
	hits := alloc[bool](x, x.n)
	a, c := va.v[:len(hits)], o.c
	switch o.op {
	case OpEq, OpNe:
		for i := range hits {
			hits[i] = (a[i] == c) == (o.op == OpEq)
		}
	case OpLt, OpGe:
		for i := range hits {
			hits[i] = a[i].less(c) == (o.op == OpLt)
		}
	default:
		for i := range hits {
			hits[i] = c.less(a[i]) == (o.op == OpGt)
		}
	}
	return packed(x, hits, va.valid), nil
}

func withWideConstant(op Op, a *node, floor *big.Int, exact bool) (predicate, error) {
	c, fits := int128OfBig(floor)
	newOp, varies := op, true
	if !exact {
		newOp, varies = between(op)
	}
	if !fits || !varies {
		of, err := compileValidity(a)
		if fits {
			return always{of, op == OpNe}, err
		}
		return always{of, outside(op, floor.Sign())}, err
	}
	s, err := compile[int128](a)
	return compareWide{newOp, s, c}, err
}

// compileFloatConstant compares floats with a constant.
func compileFloatConstant(op Op, a, b *node) (predicate, error) {
	if a.t.ID() == arrow.FLOAT32 {
		return floatConstant[float32](op, a, b)
	}
	return floatConstant[float64](op, a, b)
}

func floatConstant[T float32 | float64](op Op, a, b *node) (predicate, error) {
	s, err := compile[T](a)
	if err != nil {
		return nil, err
	}
	if d, ok := b.value.(int128); ok { // a decimal is compared as the nearest float
		return compareConst[T]{op, s, T(d.float() / pow10f64[scaleOf(b.t)])}, nil
	}
	if f, ok := b.value.(float64); ok && (float64(T(f)) == f || f != f) {
		return compareConst[T]{op, s, T(f)}, nil
	}
	want := rational(b, false)
	f64, _ := want.Float64()
	c := T(f64)
	order := func(f T) int {
		if math.IsInf(float64(f), 0) {
			return cmp.Compare(f, 0)
		}
		return new(big.Rat).SetFloat64(float64(f)).Cmp(want)
	}
	next := func(f T, up float64) T {
		if x, ok := any(f).(float32); ok {
			return T(math.Nextafter32(x, float32(math.Inf(int(up)))))
		}
		return T(math.Nextafter(float64(f), math.Inf(int(up))))
	}
	for order(c) > 0 { // the largest float that is at most the constant
		c = next(c, -1)
	}
	for order(next(c, 1)) <= 0 {
		c = next(c, 1)
	}
	if order(c) == 0 {
		return compareConst[T]{op, s, c}, nil
	}
	newOp, varies := between(op)
	if !varies {
		of, err := compileValidity(a)
		return always{of, op == OpNe}, err
	}
	return compareConst[T]{newOp, s, c}, nil
}
