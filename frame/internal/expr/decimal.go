package expr

import (
	"github.com/apache/arrow-go/v18/arrow"
)

func scaleOf(t arrow.DataType) int32 {
	if d, ok := t.(*arrow.Decimal128Type); ok {
		return d.Scale
	}
	return 0
}

func precisionOf(t arrow.DataType) int32 { return t.(*arrow.Decimal128Type).Precision }

// fitsDecimal reports whether a has at most precision digits.
func fitsDecimal(a int128, precision int32) bool {
	return a.abs().less(pow10[precision]) && a.abs().hi >= 0
}

// isSmall reports whether values of a decimal type are computed as int64.
func isSmall(n *node) bool { return formOf(n.t) == formInt64 }

// compileWide returns the source of a decimal as int128.
func compileWide(n *node) (source[int128], error) {
	if !isSmall(n) {
		return compile[int128](n)
	}
	s, err := compile[int64](n)
	if err != nil {
		return nil, err
	}
	if c, ok := constantOf(s); ok {
		return literal[int128]{value: int128Of(c)}, nil
	}
	return widened(s), nil
}

// widened returns int64 as int128.
func widened(s source[int64]) source[int128] {
	return mapOp[int64, int128]{s, func(out []int128, a []int64) {
		for i, v := range a {
			out[i] = int128{uint64(v), v >> 63}
		}
	}}
}

// compileDecimal returns an operation whose result is a decimal.
func compileDecimal(n *node) (any, error) {
	switch n.op {
	case OpAdd, OpSub, OpMul, OpMod:
		return compileDecimals(n)
	case OpNeg, OpAbs:
		if isSmall(n) {
			return compileInteger(n)
		}
		a, err := compile[int128](n.args[0])
		return checkedOp[int128, int128]{n, a, func(a int128) (int128, bool) {
			if n.op == OpNeg {
				a = a.neg()
			} else {
				a = a.abs()
			}
			return a, true
		}}, err
	case OpRound, OpFloor, OpCeil:
		a, err := compileWide(n.args[0])
		if err != nil {
			return nil, err
		}
		return decimalResult(n, a, roundDecimal(n), false), nil
	}
	return nil, nil
}

func compileDecimals(n *node) (any, error) {
	small := isSmall(n.args[0]) && isSmall(n.args[1])
	digits := precisionOf(n.t)
	switch {
	case isSmall(n) && small: // the result of at most 18 digits cannot overflow
		o, err := compileBinary[int64](n)
		return intOp{o}, err
	case small && n.op != OpMul && digits <= smallDigits+1:
		o, err := compileBinary[int64](n)
		return widened(intOp{o}), err
	case small && n.op == OpMul && !isSmall(n):
		o, err := compileBinary[int64](n)
		return smallProduct{o}, err
	}
	a, err := compileWide(n.args[0])
	if err != nil {
		return nil, err
	}
	b, err := compileWide(n.args[1])
	if err != nil {
		return nil, err
	}
	o := &binaryOp[int128]{n: n, a: a, b: b}
	o.x, o.ca = constantOf(a)
	o.y, o.cb = constantOf(b)
	if o.ca && o.cb {
		o.ca = false
	}
	wide := wideOp{o}
	if !isSmall(n) {
		return wide, nil
	}
	return mapOp[int128, int64]{wide, func(out []int64, a []int128) {
		for i, v := range a {
			out[i] = int64(v.lo)
		}
	}}, nil
}

// smallProduct is the exact product of decimals of at most 18 digits.
type smallProduct struct{ *binaryOp[int64] }

func (o smallProduct) eval(x *exec) (vec[int128], error) {
	va, vb, err := operands(x, o.a, o.b, o.ca, o.cb)
	if err != nil {
		return vec[int128]{}, err
	}
	out := alloc[int128](x, x.n)
	switch {
	case o.ca:
		b := vb.v[:len(out)]
		for i := range out {
			out[i] = mul64(o.x, b[i])
		}
	case o.cb:
		a := va.v[:len(out)]
		for i := range out {
			out[i] = mul64(a[i], o.y)
		}
	default:
		a, b := va.v[:len(out)], vb.v[:len(out)]
		for i := range out {
			out[i] = mul64(a[i], b[i])
		}
	}
	return vec[int128]{out, both(x, va.valid, vb.valid)}, nil
}

// wideOp is arithmetic of decimals of more than 18 digits. A result of more digits than its type has is an error.
type wideOp struct{ *binaryOp[int128] }

func (o wideOp) eval(x *exec) (vec[int128], error) {
	va, vb, err := operands(x, o.a, o.b, o.ca, o.cb)
	if err != nil {
		return vec[int128]{}, err
	}
	out := alloc[int128](x, x.n)
	valid := both(x, va.valid, vb.valid)
	limit := pow10[precisionOf(o.n.t)]
	least := limit.neg()
	var zeros []uint64
	for i := range out {
		a, b := o.x, o.y
		if !o.ca {
			a = va.v[i]
		}
		if !o.cb {
			b = vb.v[i]
		}
		var r int128
		var over bool
		switch o.n.op {
		case OpAdd:
			r, over = a.add(b)
		case OpSub:
			r, over = a.sub(b)
		case OpMul:
			r, over = a.mul(b)
		default:
			if b == (int128{}) {
				if zeros == nil {
					zeros = writable(x, valid, x.n)
				}
				zeros[i/64] &^= 1 << (i % 64)
			} else {
				_, r = a.quoRem(b)
			}
		}
		if (over || !r.less(limit) || !least.less(r)) && bitSet(valid, i) {
			return vec[int128]{}, o.n.failf("overflow of %v: %s %s %s; cast an operand to float64", o.n.t,
				showValue(a, o.n.args[0].t), o.n.op, showValue(b, o.n.args[1].t))
		}
		out[i] = r
	}
	if zeros != nil {
		valid = zeros
	}
	return vec[int128]{out, valid}, nil
}

// decimalResult returns an operation whose result is a decimal in its form.
func decimalResult[A any](n *node, a source[A], f func(a A) (int128, bool), try bool) any {
	digits := precisionOf(n.t)
	if isSmall(n) {
		return castOp[A, int64]{n, a, func(a A) (int64, bool) {
			r, ok := f(a)
			return int64(r.lo), ok && fitsDecimal(r, digits)
		}, try}
	}
	return castOp[A, int128]{n, a, func(a A) (int128, bool) {
		r, ok := f(a)
		return r, ok && fitsDecimal(r, digits)
	}, try}
}

// roundDecimal returns the function of Round, Floor and Ceil, from the scale of the operand to that of the result.
func roundDecimal(n *node) func(a int128) (int128, bool) {
	from, digits := scaleOf(n.args[0].t), n.digits()
	if digits >= int64(from) {
		return func(a int128) (int128, bool) { return a, true }
	}
	drop := int64(from) - digits // digits that are dropped, at least 1
	if drop > maxPrecision {
		return func(int128) (int128, bool) { return int128{}, true }
	}
	step := pow10[drop]
	back := pow10[max(-digits, 0)] // of Round to tens, hundreds and so on
	return func(a int128) (int128, bool) {
		q, r := a.quoRem(step)
		switch {
		case r == (int128{}):
		case n.op == OpFloor && a.isNegative():
			q, _ = q.sub(int128Of(1))
		case n.op == OpCeil && !a.isNegative():
			q, _ = q.add(int128Of(1))
		case n.op == OpRound:
			q = awayFromZero(q, r, step, a.isNegative())
		}
		out, over := q.mul(back)
		return out, !over
	}
}

// awayFromZero rounds the quotient q with remainder r, halves away from zero.
func awayFromZero(q, r, step int128, negative bool) int128 {
	rest, _ := step.sub(r.abs())
	if r.abs().less(rest) {
		return q
	}
	if negative {
		q, _ = q.sub(int128Of(1))
	} else {
		q, _ = q.add(int128Of(1))
	}
	return q
}

// rescale returns the function that converts decimals of one scale to another. Digits that are lost are rounded.
func rescale(from, to int32) func(a int128) (int128, bool) {
	if to >= from {
		factor := pow10[to-from]
		return func(a int128) (int128, bool) {
			r, over := a.mul(factor)
			return r, !over
		}
	}
	step := pow10[from-to]
	return func(a int128) (int128, bool) {
		q, r := a.quoRem(step)
		if r == (int128{}) {
			return q, true
		}
		return awayFromZero(q, r, step, a.isNegative()), true
	}
}
