package expr

import (
	"math"
	"strconv"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
)

type signed interface{ int8 | int16 | int32 | int64 }
type unsigned interface {
	uint8 | uint16 | uint32 | uint64
}
type whole interface{ signed | unsigned }
type number interface{ whole | float32 | float64 }

// castOp converts values one by one. A value of a row that cannot be converted is an error, or a null for TryCast.
type castOp[A, T any] struct {
	n   *node
	a   source[A]
	f   func(a A) (T, bool)
	try bool
}

func (o castOp[A, T]) eval(x *exec) (vec[T], error) {
	v, err := o.a.eval(x)
	if err != nil {
		return vec[T]{}, err
	}
	out := newValues[T](x)
	valid := v.valid
	var zero T
	var nulls []uint64
	for i, a := range v.v[:len(out)] {
		if !bitSet(valid, i) { // its value may be anything
			out[i] = zero
			continue
		}
		r, ok := o.f(a)
		if !ok {
			if !o.try {
				return vec[T]{}, o.n.failf("%s cannot be converted to %v; use TryCast for a null instead",
					showValue(a, o.n.args[0].t), o.n.t)
			}
			if nulls == nil {
				nulls = writable(x, valid, x.n)
			}
			nulls[i/64] &^= 1 << (i % 64)
			r = zero
		}
		out[i] = r
	}
	if nulls != nil {
		valid = nulls
	}
	return vec[T]{out, valid}, nil
}

// newValues returns memory for the values of the current rows.
func newValues[T any](x *exec) []T {
	var out []T
	if texts, ok := any(&out).(*[]string); ok {
		*texts = x.allocTexts(x.n)
		return out
	}
	return alloc[T](x, x.n)
}

// compileCast returns the conversion of the operand to the type of n.
func compileCast(n *node) (any, error) {
	from, to := n.args[0], n.t
	try := n.op == OpTryCast
	cf, ct := from.class(), classOf(to)
	if formOf(to) == formBool {
		return compilePredicate(n)
	}
	switch {
	case ct == text || ct == binary:
		return castToText(n, from, try)
	case cf == text:
		a, err := compile[string](from)
		if err != nil {
			return nil, err
		}
		return castFromText(n, a, try), nil
	case cf == boolean:
		return castBool(n, from)
	case cf == decimal:
		return castDecimal(n, from, try)
	case cf.isTime() && ct.isTime():
		return castTime(n, from, try)
	}
	s, err := compileAny(from)
	if err != nil {
		return nil, err
	}
	switch a := s.(type) {
	case source[int8]:
		return castNumber(n, a, try), nil
	case source[int16]:
		return castNumber(n, a, try), nil
	case source[int32]:
		return castNumber(n, a, try), nil
	case source[int64]:
		return castNumber(n, a, try), nil
	case source[uint8]:
		return castNumber(n, a, try), nil
	case source[uint16]:
		return castNumber(n, a, try), nil
	case source[uint32]:
		return castNumber(n, a, try), nil
	case source[uint64]:
		return castNumber(n, a, try), nil
	case source[float32]:
		return castNumber(n, a, try), nil
	case source[float64]:
		return castNumber(n, a, try), nil
	}
	return nil, nil
}

// castNumber converts integers, floats, and times as their numbers.
func castNumber[A number](n *node, a source[A], try bool) any {
	if classOf(n.t) == decimal {
		return numberToDecimal(n, a, try)
	}
	switch formOf(n.t) {
	case formInt8:
		return toNumber[A, int8](n, a, try)
	case formInt16:
		return toNumber[A, int16](n, a, try)
	case formInt32:
		return toNumber[A, int32](n, a, try)
	case formInt64:
		return toNumber[A, int64](n, a, try)
	case formUint8:
		return toNumber[A, uint8](n, a, try)
	case formUint16:
		return toNumber[A, uint16](n, a, try)
	case formUint32:
		return toNumber[A, uint32](n, a, try)
	case formUint64:
		return toNumber[A, uint64](n, a, try)
	case formFloat32:
		return toNumber[A, float32](n, a, try)
	case formFloat64:
		return toNumber[A, float64](n, a, try)
	}
	return nil
}

func isFloat[T any]() bool {
	var zero T
	switch any(zero).(type) {
	case float32, float64:
		return true
	}
	return false
}

// toNumber converts in a plain loop if the type has all values, or if it is a float.
func toNumber[A, T number](n *node, a source[A], try bool) any {
	var from A
	var to T
	var one A = 1
	negative := from-one < 0 // whether A has negative numbers
	signed := to-T(one) < 0
	sf, st := unsafe.Sizeof(from), unsafe.Sizeof(to)
	all := isFloat[T]() || !isFloat[A]() && (negative == signed && st >= sf || !negative && signed && st > sf)
	if all {
		return mapOp[A, T]{a, func(out []T, a []A) {
			for i, v := range a {
				out[i] = T(v)
			}
		}}
	}
	if !isFloat[A]() {
		return castOp[A, T]{n, a, func(a A) (T, bool) {
			r := T(a)
			return r, A(r) == a && (r < 0) == (a < 0)
		}, try}
	}
	least, limit := rangeOf[T]()
	return castOp[A, T]{n, a, func(a A) (T, bool) {
		f := math.RoundToEven(float64(a))
		if !(f >= least && f < limit) {
			return 0, false
		}
		return T(f), true
	}, try}
}

// rangeOf returns the least value of an integer type, and the first float that is too large.
func rangeOf[T number]() (least, limit float64) {
	var zero T
	width := int(unsafe.Sizeof(zero)) * 8
	if zero-1 < 0 {
		return -math.Ldexp(1, width-1), math.Ldexp(1, width-1)
	}
	return 0, math.Ldexp(1, width)
}

// numberToDecimal converts integers exactly and floats by rounding.
func numberToDecimal[A number](n *node, a source[A], try bool) any {
	scale := scaleOf(n.t)
	factor := pow10[scale]
	if !isFloat[A]() {
		return decimalResult(n, a, func(a A) (int128, bool) {
			wide := int128Of(int64(a))
			if a > 0 {
				wide = int128{lo: uint64(a)}
			}
			r, over := wide.mul(factor)
			return r, !over
		}, try)
	}
	return decimalResult(n, a, func(a A) (int128, bool) { return floatToDecimal(float64(a), scale) }, try)
}

// floatToDecimal rounds the shortest decimal text of a float to a scale.
func floatToDecimal(f float64, scale int32) (int128, bool) {
	if scaled := f * pow10f64[scale]; math.Abs(scaled) < 1<<52 {
		if whole := math.Round(scaled); math.Abs(math.Abs(scaled-whole)-0.5) > 1e-3 { // not close to a half
			return int128Of(int64(whole)), true
		}
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return int128{}, false
	}
	var b [32]byte
	return parseDecimal(string(strconv.AppendFloat(b[:0], f, 'e', -1, 64)), scale)
}

// boolCast converts booleans to 0 and 1.
type boolCast[T any] struct {
	a   predicate
	one T
}

func (o boolCast[T]) eval(x *exec) (vec[T], error) {
	v, err := o.a.test(x)
	if err != nil {
		return vec[T]{}, err
	}
	out := newValues[T](x)
	var zero T
	for i := range out {
		if bitSet(v.v, i) {
			out[i] = o.one
		} else {
			out[i] = zero
		}
	}
	return vec[T]{out, v.valid}, nil
}

func castBool(n, from *node) (any, error) {
	p, err := compilePredicate(from)
	if err != nil {
		return nil, err
	}
	switch formOf(n.t) {
	case formInt8:
		return boolCast[int8]{p, 1}, nil
	case formInt16:
		return boolCast[int16]{p, 1}, nil
	case formInt32:
		return boolCast[int32]{p, 1}, nil
	case formInt64:
		if pow10[precision(n.t)-scaleOf(n.t)] == int128Of(1) {
			return nil, n.mismatch("%v cannot represent 1", n.t)
		}
		return boolCast[int64]{p, pow10i64[scaleOf(n.t)]}, nil
	case formUint8:
		return boolCast[uint8]{p, 1}, nil
	case formUint16:
		return boolCast[uint16]{p, 1}, nil
	case formUint32:
		return boolCast[uint32]{p, 1}, nil
	case formUint64:
		return boolCast[uint64]{p, 1}, nil
	case formFloat32:
		return boolCast[float32]{p, 1}, nil
	case formFloat64:
		return boolCast[float64]{p, 1}, nil
	case formInt128:
		return boolCast[int128]{p, pow10[scaleOf(n.t)]}, nil
	}
	return nil, nil
}

// precision returns the digits of a decimal, or those of the type of an integer.
func precision(t arrow.DataType) int32 {
	if classOf(t) == decimal {
		return precisionOf(t)
	}
	return digitsOf(t)
}

// castDecimal converts decimals to other numbers.
func castDecimal(n, from *node, try bool) (any, error) {
	scale := scaleOf(from.t)
	if f := formOf(n.t); isSmall(from) && f == formFloat64 {
		a, err := compile[int64](from)
		p := pow10f64[scale]
		return mapOp[int64, float64]{a, func(out []float64, a []int64) {
			for i, v := range a {
				out[i] = float64(v) / p
			}
		}}, err
	}
	a, err := compileWide(from)
	if err != nil {
		return nil, err
	}
	toInt := rescale(scale, 0)
	switch formOf(n.t) {
	case formFloat64:
		return castOp[int128, float64]{n, a, func(a int128) (float64, bool) {
			return a.float() / pow10f64[scale], true
		}, try}, nil
	case formFloat32:
		return castOp[int128, float32]{n, a, func(a int128) (float32, bool) {
			return float32(a.float() / pow10f64[scale]), true
		}, try}, nil
	}
	switch classOf(n.t) {
	case decimal:
		return decimalResult(n, a, rescale(scale, scaleOf(n.t)), try), nil
	case integer:
		return narrow(n, a, toInt, try), nil
	}
	return nil, nil
}

// narrow returns the conversion of an int128 to an integer type.
func narrow(n *node, a source[int128], f func(int128) (int128, bool), try bool) any {
	switch formOf(n.t) {
	case formInt8:
		return castOp[int128, int8]{n, a, narrowTo[int8](f), try}
	case formInt16:
		return castOp[int128, int16]{n, a, narrowTo[int16](f), try}
	case formInt32:
		return castOp[int128, int32]{n, a, narrowTo[int32](f), try}
	case formInt64:
		return castOp[int128, int64]{n, a, narrowTo[int64](f), try}
	case formUint8:
		return castOp[int128, uint8]{n, a, narrowTo[uint8](f), try}
	case formUint16:
		return castOp[int128, uint16]{n, a, narrowTo[uint16](f), try}
	case formUint32:
		return castOp[int128, uint32]{n, a, narrowTo[uint32](f), try}
	}
	return castOp[int128, uint64]{n, a, narrowTo[uint64](f), try}
}

func narrowTo[T whole](f func(int128) (int128, bool)) func(int128) (T, bool) {
	return func(a int128) (T, bool) {
		r, ok := f(a)
		out := T(r.lo)
		back := int128{lo: uint64(out)}
		if out < 0 {
			back.hi = -1
		}
		return out, ok && back == r
	}
}
