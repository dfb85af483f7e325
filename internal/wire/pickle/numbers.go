package pickle

import (
	"encoding/hex"
	"math/big"
	"regexp"
	"strings"
)

// Range is Python's range. Its parts are int64 or *big.Int.
type Range struct {
	Start, Stop, Step Value
}

// Slice is Python's slice. Its parts are any values, usually None.
type Slice struct {
	Start, Stop, Step Value
}

// Decimal is Python's decimal.Decimal, as text: "1.50", "-1E+3", "NaN".
type Decimal string

// UUID is Python's uuid.UUID, most significant byte first.
type UUID [16]byte

// String returns the UUID in Python's form, in groups of 8-4-4-4-12 digits.
func (u UUID) String() string {
	s := hex.EncodeToString(u[:])
	return strings.Join([]string{s[:8], s[8:12], s[12:16], s[16:20], s[20:]}, "-")
}

func (r Range) pickleTree(int) (Value, error) {
	return Call(Global{"builtins", "range"}, r.Start, r.Stop, r.Step), nil
}

func (s Slice) pickleTree(int) (Value, error) {
	return Call(Global{"builtins", "slice"}, s.Start, s.Stop, s.Step), nil
}

func (d Decimal) pickleTree(int) (Value, error) {
	return Call(Global{"decimal", "Decimal"}, string(d)), nil
}

func (u UUID) pickleTree(int) (Value, error) {
	return New(Global{"uuid", "UUID"}).WithState(NewDict("int", new(big.Int).SetBytes(u[:]))), nil
}

// rationalTree returns fractions.Fraction(numerator, denominator).
func rationalTree(r *big.Rat) Value {
	return Call(Global{"fractions", "Fraction"}, intValue(r.Num()), intValue(r.Denom()))
}

func buildComplex(_ *decoder, o *Object) (any, bool, error) {
	if !o.call(2, 2) {
		return nil, false, nil
	}
	re, ok1 := o.Args[0].(float64)
	im, ok2 := o.Args[1].(float64)
	return complex(re, im), ok1 && ok2, nil
}

func isInt(v Value) bool {
	switch v.(type) {
	case int64, *big.Int:
		return true
	}
	return false
}

func buildRange(_ *decoder, o *Object) (any, bool, error) {
	if !o.call(3, 3) || !isInt(o.Args[0]) || !isInt(o.Args[1]) || !isInt(o.Args[2]) {
		return nil, false, nil
	}
	return Range{o.Args[0], o.Args[1], o.Args[2]}, true, nil
}

func buildSlice(d *decoder, o *Object) (any, bool, error) {
	if !o.call(3, 3) {
		return nil, false, nil
	}
	parts, err := d.items(o.Args)
	if err != nil {
		return nil, false, err
	}
	return Slice{parts[0], parts[1], parts[2]}, true, nil
}

func buildDecimal(_ *decoder, o *Object) (any, bool, error) {
	if !o.call(1, 1) {
		return nil, false, nil
	}
	s, ok := o.Args[0].(string)
	return Decimal(s), ok && decimalText.MatchString(s), nil
}

// decimalText matches Python's str of a Decimal. Its constructor accepts more.
var decimalText = regexp.MustCompile(`^-?(?:[0-9]+(?:\.[0-9]+)?|[0-9](?:\.[0-9]+)?E[+-][0-9]+|s?NaN[0-9]*|Infinity)$`)

// toBig returns an int node as a big.Int.
func toBig(v Value) (*big.Int, bool) {
	switch x := v.(type) {
	case int64:
		return big.NewInt(x), true
	case *big.Int:
		return x, x != nil
	}
	return nil, false
}

// buildFraction decodes Fraction(n, d) and, from Python before 3.12 by protocol or version, Fraction("n/d").
func buildFraction(_ *decoder, o *Object) (any, bool, error) {
	if !o.call(1, 2) {
		return nil, false, nil
	}
	if s, ok := o.Args[0].(string); ok && len(o.Args) == 1 {
		num, den, found := strings.Cut(s, "/")
		if !found {
			den = "1"
		}
		if len(s) > maxDigits {
			return nil, false, nil
		}
		n, ok1 := new(big.Int).SetString(num, 10)
		d, ok2 := new(big.Int).SetString(den, 10)
		if !ok1 || !ok2 || d.Sign() == 0 {
			return nil, false, nil
		}
		return new(big.Rat).SetFrac(n, d), true, nil
	}
	if len(o.Args) != 2 {
		return nil, false, nil
	}
	n, ok1 := toBig(o.Args[0])
	d, ok2 := toBig(o.Args[1])
	if !ok1 || !ok2 || d.Sign() == 0 || max(n.BitLen(), d.BitLen()) > 1<<14 { // the common divisor takes time
		return nil, false, nil
	}
	return new(big.Rat).SetFrac(n, d), true, nil
}

func buildUUID(_ *decoder, o *Object) (any, bool, error) {
	state, _ := o.State()
	d, ok := state.(*Dict)
	if !ok || o.Kind != NewObj || len(o.Args) > 0 || len(o.Steps) != 1 || d.Len() != 1 {
		return nil, false, nil // with is_safe, which a UUID of Go does not have
	}
	v, _ := d.Get("int")
	n, ok := toBig(v)
	if !ok || n.Sign() < 0 || n.BitLen() > 128 {
		return nil, false, nil
	}
	var u UUID
	n.FillBytes(u[:])
	return u, true, nil
}
