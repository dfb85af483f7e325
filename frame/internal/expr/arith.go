package expr

import (
	"math"
	"math/big"
	"math/bits"
)

// operands evaluates two sources. A constant one has no values.
func operands[T any](x *exec, a, b source[T], ca, cb bool) (va, vb vec[T], err error) {
	if !ca {
		if va, err = a.eval(x); err != nil {
			return
		}
	}
	if !cb {
		vb, err = b.eval(x)
	}
	return
}

// binary is an operation on two operands of the type of its result. At most one is constant.
type binaryOp[T any] struct {
	n      *node
	a, b   source[T]
	ca, cb bool // constant operands
	x, y   T    // their values
}

func compileBinary[T any](n *node) (*binaryOp[T], error) {
	a, err := compile[T](n.args[0])
	if err != nil {
		return nil, err
	}
	b, err := compile[T](n.args[1])
	if err != nil {
		return nil, err
	}
	out := &binaryOp[T]{n: n, a: a, b: b}
	out.x, out.ca = constantOf(a)
	out.y, out.cb = constantOf(b)
	if out.ca && out.cb { // of a constant that could not be folded
		out.ca = false
	}
	return out, nil
}

// at returns the operands of row i, for messages.
func (o *binaryOp[T]) at(va, vb vec[T], i int) (a, b T) {
	a, b = o.x, o.y
	if !o.ca {
		a = va.v[i]
	}
	if !o.cb {
		b = vb.v[i]
	}
	return a, b
}

// floats is arithmetic of floats.
type floatOp[T float32 | float64] struct{ *binaryOp[T] }

func (o floatOp[T]) eval(x *exec) (vec[T], error) {
	va, vb, err := operands(x, o.a, o.b, o.ca, o.cb)
	if err != nil {
		return vec[T]{}, err
	}
	out := alloc[T](x, x.n)
	switch {
	case o.ca:
		floatsCV(o.n.op, out, o.x, vb.v)
	case o.cb:
		floatsVC(o.n.op, out, va.v, o.y)
	default:
		floatsVV(o.n.op, out, va.v, vb.v)
	}
	return vec[T]{out, both(x, va.valid, vb.valid)}, nil
}

func floatsVV[T float32 | float64](op Op, out, a, b []T) {
	a, b = a[:len(out)], b[:len(out)]
	switch op {
	case OpAdd:
		for i := range out {
			out[i] = a[i] + b[i]
		}
	case OpSub:
		for i := range out {
			out[i] = a[i] - b[i]
		}
	case OpMul:
		for i := range out {
			out[i] = a[i] * b[i]
		}
	case OpDiv:
		for i := range out {
			out[i] = a[i] / b[i]
		}
	default:
		f := floatFunction[T](op)
		for i := range out {
			out[i] = f(a[i], b[i])
		}
	}
}

func floatsVC[T float32 | float64](op Op, out, a []T, c T) {
	a = a[:len(out)]
	switch op {
	case OpAdd:
		for i := range out {
			out[i] = a[i] + c
		}
	case OpSub:
		for i := range out {
			out[i] = a[i] - c
		}
	case OpMul:
		for i := range out {
			out[i] = a[i] * c
		}
	case OpDiv:
		for i := range out {
			out[i] = a[i] / c
		}
	default:
		f := floatFunction[T](op)
		for i := range out {
			out[i] = f(a[i], c)
		}
	}
}

func floatsCV[T float32 | float64](op Op, out []T, c T, b []T) {
	b = b[:len(out)]
	switch op {
	case OpAdd:
		for i := range out {
			out[i] = c + b[i]
		}
	case OpSub:
		for i := range out {
			out[i] = c - b[i]
		}
	case OpMul:
		for i := range out {
			out[i] = c * b[i]
		}
	case OpDiv:
		for i := range out {
			out[i] = c / b[i]
		}
	default:
		f := floatFunction[T](op)
		for i := range out {
			out[i] = f(c, b[i])
		}
	}
}

// floatFunction returns the operations that are calls anyway.
func floatFunction[T float32 | float64](op Op) func(a, b T) T {
	switch op {
	case OpIntDiv:
		return func(a, b T) T { return T(math.Trunc(float64(a) / float64(b))) }
	case OpMod:
		return func(a, b T) T { return T(math.Mod(float64(a), float64(b))) }
	}
	return func(a, b T) T { return T(math.Pow(float64(a), float64(b))) }
}

// intOp is arithmetic of int64. Overflow of a row that is not null is an error.
type intOp struct{ *binaryOp[int64] }

func (o intOp) eval(x *exec) (vec[int64], error) {
	va, vb, err := operands(x, o.a, o.b, o.ca, o.cb)
	if err != nil {
		return vec[int64]{}, err
	}
	out := alloc[int64](x, x.n)
	valid := both(x, va.valid, vb.valid)
	if o.n.op == OpIntDiv || o.n.op == OpMod {
		return o.divide(x, va, vb, out, valid)
	}
	var over bool
	switch {
	case o.ca:
		over = intsCV(o.n.op, out, o.x, vb.v)
	case o.cb:
		over = intsVC(o.n.op, out, va.v, o.y)
	default:
		over = intsVV(o.n.op, out, va.v, vb.v)
	}
	if over {
		for i := range out {
			a, b := o.at(va, vb, i)
			if bitSet(valid, i) && overflows(o.n.op, a, b) {
				return vec[int64]{}, o.n.failf("overflow of int64: %d %s %d; cast an operand to float64 or decimal", a,
					o.n.op, b)
			}
		}
	}
	return vec[int64]{out, valid}, nil
}

func overflows(op Op, a, b int64) bool {
	one := [1]int64{}
	return intsVV(op, one[:], []int64{a}, []int64{b})
}

// divide computes quotients and remainders, which are null for a divisor of 0.
func (o intOp) divide(x *exec, va, vb vec[int64], out []int64, valid []uint64) (vec[int64], error) {
	if o.cb && o.y == 0 {
		return vec[int64]{out, fill(x, x.n, false)}, nil
	}
	quotient := o.n.op == OpIntDiv
	if o.cb && o.y > 0 {
		a, c := va.v[:len(out)], o.y
		for i := range out {
			if quotient {
				out[i] = a[i] / c
			} else {
				out[i] = a[i] % c
			}
		}
		return vec[int64]{out, valid}, nil
	}
	var zeros []uint64
	for i := range out {
		a, b := o.at(va, vb, i)
		switch {
		case b == 0:
			if zeros == nil {
				zeros = writable(x, valid, x.n)
			}
			zeros[i/64] &^= 1 << (i % 64)
			out[i] = 0
		case !quotient:
			out[i] = a % b
		case a == math.MinInt64 && b == -1 && bitSet(valid, i):
			return vec[int64]{}, o.n.failf("overflow of int64: %d // %d", a, b)
		default:
			out[i] = a / b
		}
	}
	if zeros != nil {
		valid = zeros
	}
	return vec[int64]{out, valid}, nil
}

func intsVV(op Op, out, a, b []int64) bool {
	a, b = a[:len(out)], b[:len(out)]
	var over int64
	switch op {
	case OpAdd:
		for i := range out {
			r := a[i] + b[i]
			over |= (a[i] ^ r) & (b[i] ^ r)
			out[i] = r
		}
	case OpSub:
		for i := range out {
			r := a[i] - b[i]
			over |= (a[i] ^ b[i]) & (a[i] ^ r)
			out[i] = r
		}
	case OpMul:
		var wide int64
		for i := range out {
			p := mul64(a[i], b[i])
			wide |= p.hi ^ int64(p.lo)>>63
			out[i] = int64(p.lo)
		}
		return wide != 0
	}
	return over < 0
}

func intsVC(op Op, out, a []int64, c int64) bool {
	a = a[:len(out)]
	var over int64
	switch op {
	case OpAdd:
		for i := range out {
			r := a[i] + c
			over |= (a[i] ^ r) & (c ^ r)
			out[i] = r
		}
	case OpSub:
		for i := range out {
			r := a[i] - c
			over |= (a[i] ^ c) & (a[i] ^ r)
			out[i] = r
		}
	case OpMul:
		var wide int64
		for i := range out {
			p := mul64(a[i], c)
			wide |= p.hi ^ int64(p.lo)>>63
			out[i] = int64(p.lo)
		}
		return wide != 0
	}
	return over < 0
}

func intsCV(op Op, out []int64, c int64, b []int64) bool {
	if op != OpSub {
		return intsVC(op, out, b, c)
	}
	b = b[:len(out)]
	var over int64
	for i := range out {
		r := c - b[i]
		over |= (c ^ b[i]) & (c ^ r)
		out[i] = r
	}
	return over < 0
}

// uintOp is arithmetic of uint64.
type uintOp struct{ *binaryOp[uint64] }

func (o uintOp) eval(x *exec) (vec[uint64], error) {
	va, vb, err := operands(x, o.a, o.b, o.ca, o.cb)
	if err != nil {
		return vec[uint64]{}, err
	}
	out := alloc[uint64](x, x.n)
	valid := both(x, va.valid, vb.valid)
	var zeros []uint64
	for i := range out {
		a, b := o.at(va, vb, i)
		var over uint64
		switch o.n.op {
		case OpAdd:
			out[i], over = bits.Add64(a, b, 0)
		case OpSub:
			out[i], over = bits.Sub64(a, b, 0)
		case OpMul:
			over, out[i] = bits.Mul64(a, b)
		default:
			if b == 0 {
				if zeros == nil {
					zeros = writable(x, valid, x.n)
				}
				zeros[i/64] &^= 1 << (i % 64)
				b = 1
			}
			if o.n.op == OpIntDiv {
				out[i] = a / b
			} else {
				out[i] = a % b
			}
		}
		if over != 0 && bitSet(valid, i) {
			return vec[uint64]{}, o.n.failf("overflow of uint64: %d %s %d; cast an operand to float64 or decimal", a,
				o.n.op, b)
		}
	}
	if zeros != nil {
		valid = zeros
	}
	return vec[uint64]{out, valid}, nil
}

// mapOp is an operation on the values of one source, which fails for none.
type mapOp[A, T any] struct {
	a source[A]
	f func(out []T, a []A)
}

func (o mapOp[A, T]) eval(x *exec) (vec[T], error) {
	v, err := o.a.eval(x)
	if err != nil {
		return vec[T]{}, err
	}
	out := alloc[T](x, x.n)
	o.f(out, v.v[:len(out)])
	return vec[T]{out, v.valid}, nil
}

// checkedOp is an operation on the values of one source. f returns the rows that fail, in valid rows an error.
type checkedOp[A, T any] struct {
	n *node
	a source[A]
	f func(a A) (T, bool)
}

func (o checkedOp[A, T]) eval(x *exec) (vec[T], error) {
	v, err := o.a.eval(x)
	if err != nil {
		return vec[T]{}, err
	}
	out := alloc[T](x, x.n)
	for i, a := range v.v[:len(out)] {
		r, ok := o.f(a)
		if !ok && bitSet(v.valid, i) {
			return vec[T]{}, o.n.failf("overflow: %v has no %s of type %v", showValue(a, o.n.args[0].t), o.n.op, o.n.t)
		}
		out[i] = r
	}
	return vec[T]{out, v.valid}, nil
}

// compileInteger returns an operation whose result is int64.
func compileInteger(n *node) (any, error) {
	switch n.op {
	case OpAdd, OpSub, OpMul, OpIntDiv, OpMod:
		if n.args[0].class() == date {
			return compileDays(n)
		}
		o, err := compileBinary[int64](n)
		return intOp{o}, err
	case OpNeg, OpAbs:
		a, err := compile[int64](n.args[0])
		f := func(a int64) (int64, bool) { return -a, a != math.MinInt64 }
		if n.op == OpAbs {
			f = func(a int64) (int64, bool) { return max(a, -a), a != math.MinInt64 }
		}
		return checkedOp[int64, int64]{n, a, f}, err
	case OpRound, OpFloor, OpCeil:
		return compileRoundInteger[int64](n)
	case OpLength:
		return compileLength(n)
	case OpYear, OpQuarter, OpMonth, OpDay, OpHour, OpMinute, OpSecond, OpDayOfWeek, OpDayOfYear:
		return compilePart(n)
	case OpDateDiff:
		return compileDateDiff(n)
	}
	return nil, nil
}

func compileUint(n *node) (any, error) {
	switch n.op {
	case OpAdd, OpSub, OpMul, OpIntDiv, OpMod:
		o, err := compileBinary[uint64](n)
		return uintOp{o}, err
	case OpAbs:
		return compile[uint64](n.args[0])
	case OpRound, OpFloor, OpCeil:
		return compileRoundInteger[uint64](n)
	}
	return nil, nil
}

// compileRoundInteger rounds integers, which Floor and Ceil leave unchanged.
func compileRoundInteger[T any](n *node) (any, error) {
	a, err := compile[T](n.args[0])
	if err != nil || n.digits() >= 0 {
		return a, err
	}
	step := new(big.Int).Exp(big.NewInt(10), big.NewInt(min(-n.digits(), 40)), nil)
	half := new(big.Int).Rsh(step, 1)
	return checkedOp[T, T]{n, a, func(a T) (T, bool) {
		b := bigOf(scalarOf(a, n.t))
		neg := b.Sign() < 0
		b.Abs(b).Add(b, half)
		b.Sub(b, new(big.Int).Rem(b, step))
		if neg {
			b.Neg(b)
		}
		var v any = b.Int64()
		if b.IsUint64() && !b.IsInt64() {
			v = b.Uint64()
		}
		return scalarAs[T](v), (b.IsInt64() || b.IsUint64()) && inRange(v, n.t)
	}}, nil
}

// bigOf returns the value of a constant that is an integer or decimal, without its scale.
func bigOf(v any) *big.Int {
	switch x := v.(type) {
	case int64:
		return big.NewInt(x)
	case uint64:
		return new(big.Int).SetUint64(x)
	case int128:
		return x.big()
	}
	return new(big.Int)
}

// compileFloat returns an operation whose result is a float.
func compileFloat[T float32 | float64](n *node) (any, error) {
	switch n.op {
	case OpAdd, OpSub, OpMul, OpDiv, OpIntDiv, OpMod, OpPow:
		o, err := compileBinary[T](n)
		return floatOp[T]{o}, err
	}
	a, err := compile[T](n.args[0])
	if err != nil {
		return nil, err
	}
	var f func(out, a []T)
	switch n.op {
	case OpNeg:
		f = func(out, a []T) {
			for i, v := range a {
				out[i] = -v
			}
		}
	case OpAbs:
		f = each[T](math.Abs)
	case OpFloor:
		f = each[T](math.Floor)
	case OpCeil:
		f = each[T](math.Ceil)
	case OpSqrt:
		f = func(out, a []T) {
			for i, v := range a {
				out[i] = T(math.Sqrt(float64(v)))
			}
		}
	case OpExp:
		f = each[T](math.Exp)
	case OpLog:
		f = each[T](math.Log)
	case OpRound:
		d := n.digits()
		f = each[T](func(v float64) float64 { return roundFloat(v, d) })
	default:
		return nil, nil
	}
	return mapOp[T, T]{a, f}, nil
}

func each[T float32 | float64](f func(float64) float64) func(out, a []T) {
	return func(out, a []T) {
		for i, v := range a {
			out[i] = T(f(float64(v)))
		}
	}
}

// roundFloat rounds to a number of decimal digits. Values that have no such digits are unchanged.
func roundFloat(v float64, digits int64) float64 {
	switch {
	case digits == 0:
		return math.Round(v)
	case digits > 0:
		p := math.Pow10(int(min(digits, 400)))
		if r := math.Round(v*p) / p; !math.IsInf(r, 0) && !math.IsNaN(r) {
			return r
		}
		return v
	}
	p := math.Pow10(int(min(-digits, 400)))
	if math.IsInf(p, 0) {
		return 0 * v
	}
	return math.Round(v/p) * p
}
