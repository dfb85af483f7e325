package expr

import (
	"math"
	"math/big"
	"math/bits"
)

// int128 is an integer in two's complement, in the layout of Arrow's decimal128.
type int128 struct {
	lo uint64
	hi int64
}

func int128Of(x int64) int128 { return int128{uint64(x), x >> 63} }

// fitsInt64 reports whether an int64 has the value.
func (a int128) fitsInt64() bool { return a.hi == int64(a.lo)>>63 }

func (a int128) isNegative() bool { return a.hi < 0 }

func (a int128) neg() int128 {
	lo, borrow := bits.Sub64(0, a.lo, 0)
	hi, _ := bits.Sub64(0, uint64(a.hi), borrow)
	return int128{lo, int64(hi)}
}

// abs returns the absolute value, which is 2^127 as a negative number for -2^127.
func (a int128) abs() int128 {
	if a.hi < 0 {
		return a.neg()
	}
	return a
}

func (a int128) less(b int128) bool { return a.hi < b.hi || a.hi == b.hi && a.lo < b.lo }

func (a int128) cmp(b int128) int {
	switch {
	case a == b:
		return 0
	case a.less(b):
		return -1
	}
	return 1
}

// add returns a + b, and whether it overflows.
func (a int128) add(b int128) (int128, bool) {
	lo, carry := bits.Add64(a.lo, b.lo, 0)
	hi, _ := bits.Add64(uint64(a.hi), uint64(b.hi), carry)
	h := int64(hi)
	return int128{lo, h}, (a.hi^h)&(b.hi^h) < 0
}

// sub returns a - b, and whether it overflows.
func (a int128) sub(b int128) (int128, bool) {
	lo, borrow := bits.Sub64(a.lo, b.lo, 0)
	hi, _ := bits.Sub64(uint64(a.hi), uint64(b.hi), borrow)
	h := int64(hi)
	return int128{lo, h}, (a.hi^b.hi)&(a.hi^h) < 0
}

// mul64 returns the exact product of two int64.
func mul64(a, b int64) int128 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	return int128{lo, int64(hi) - (a>>63)&b - (b>>63)&a}
}

// mul returns a * b, and whether it overflows.
func (a int128) mul(b int128) (int128, bool) {
	if a.fitsInt64() && b.fitsInt64() {
		return mul64(int64(a.lo), int64(b.lo)), false
	}
	negative := a.isNegative() != b.isNegative()
	ua, ub := a.abs(), b.abs()
	if ua.hi != 0 && ub.hi != 0 {
		return int128{}, true
	}
	if ua.hi != 0 {
		ua, ub = ub, ua
	}
	// ua is less than 2^64.
	hi, lo := bits.Mul64(ua.lo, ub.lo)
	over, more := bits.Mul64(ua.lo, uint64(ub.hi))
	hi, carry := bits.Add64(hi, more, 0)
	out := int128{lo, int64(hi)}
	if over != 0 || carry != 0 || out.hi < 0 {
		return out, true
	}
	if negative {
		out = out.neg()
	}
	return out, false
}

// quoRem returns the quotient rounded toward zero and the remainder, which has the sign of a. b is not 0.
func (a int128) quoRem(b int128) (q, r int128) {
	ua, ub := a.abs(), b.abs()
	uq, ur := divideUnsigned(uint128{ua.lo, uint64(ua.hi)}, uint128{ub.lo, uint64(ub.hi)})
	q, r = int128{uq.lo, int64(uq.hi)}, int128{ur.lo, int64(ur.hi)}
	if a.isNegative() != b.isNegative() {
		q = q.neg()
	}
	if a.isNegative() {
		r = r.neg()
	}
	return q, r
}

// divideUnsigned returns the quotient and remainder of unsigned numbers.
func divideUnsigned(a, b uint128) (q, r uint128) {
	if b.hi == 0 {
		var rem uint64
		q.hi, rem = bits.Div64(0, a.hi, b.lo)
		q.lo, r.lo = bits.Div64(rem, a.lo, b.lo)
		return q, r
	}
	// b is at least 2^64, so the quotient is less than 2^64. Half of a divided by the upper 64 bits of b is at most one
	// too large, and never too small.
	shift := bits.LeadingZeros64(b.hi)
	top := b.hi<<shift | b.lo>>(64-shift)
	estimate, _ := bits.Div64(a.hi>>1, a.lo>>1|a.hi<<63, top)
	estimate >>= 63 - shift
	if estimate > 0 {
		estimate--
	}
	q.lo = estimate
	hi, lo := bits.Mul64(estimate, b.lo)
	hi += estimate * b.hi
	var borrow uint64
	r.lo, borrow = bits.Sub64(a.lo, lo, 0)
	r.hi, _ = bits.Sub64(a.hi, hi, borrow)
	for r.hi > b.hi || r.hi == b.hi && r.lo >= b.lo {
		q.lo++
		r.lo, borrow = bits.Sub64(r.lo, b.lo, 0)
		r.hi, _ = bits.Sub64(r.hi, b.hi, borrow)
	}
	return q, r
}

// powers of ten.
var (
	pow10    [maxPrecision + 1]int128
	pow10i64 [smallDigits + 1]int64
	pow10f64 [maxPrecision + 1]float64
)

func init() {
	p := int128Of(1)
	for i := range pow10 {
		pow10[i] = p
		pow10f64[i] = math.Pow10(i)
		if i <= smallDigits {
			pow10i64[i] = int64(p.lo)
		}
		p, _ = p.mul(int128Of(10))
	}
}

// float returns the value as a float64, rounded to nearest.
func (a int128) float() float64 {
	if a.fitsInt64() {
		return float64(int64(a.lo))
	}
	u := a.abs()
	// Two roundings could differ from one: keep the lost bits as a sticky bit.
	n := bits.LeadingZeros64(uint64(u.hi))
	if n == 64 {
		n = 63 // u.lo is at least 2^63
	}
	top := uint64(u.hi)<<n | u.lo>>(64-n)
	if u.lo<<n != 0 {
		top |= 1
	}
	f := math.Ldexp(float64(top), 64-n)
	if a.isNegative() {
		return -f
	}
	return f
}

func (a int128) big() *big.Int {
	out := new(big.Int).Lsh(big.NewInt(a.hi), 64)
	return out.Add(out, new(big.Int).SetUint64(a.lo))
}

// int128OfBig returns b as an int128, and whether it fits.
func int128OfBig(b *big.Int) (int128, bool) {
	if b.BitLen() > 127 {
		return int128{}, false
	}
	u := new(big.Int).Abs(b)
	out := int128{new(big.Int).And(u, new(big.Int).SetUint64(math.MaxUint64)).Uint64(),
		int64(new(big.Int).Rsh(u, 64).Uint64())}
	if b.Sign() < 0 {
		out = out.neg()
	}
	return out, true
}

// appendDecimal appends the text of a decimal with a scale.
func appendDecimal(b []byte, a int128, scale int32) []byte {
	if a.isNegative() {
		b = append(b, '-')
	}
	u := a.abs()
	var digits [40]byte
	n := len(digits)
	v := uint128{u.lo, uint64(u.hi)}
	for v != (uint128{}) || n > len(digits)-1-int(scale) {
		var r uint128
		v, r = divideUnsigned(v, uint128{lo: 10})
		n--
		digits[n] = '0' + byte(r.lo)
	}
	whole := digits[n : len(digits)-int(scale)]
	b = append(b, whole...)
	if scale > 0 {
		b = append(b, '.')
		b = append(b, digits[len(digits)-int(scale):]...)
	}
	return b
}
