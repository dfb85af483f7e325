package expr

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/apache/arrow-go/v18/arrow"
)

// textOp writes values as text.
type textOp[A any] struct {
	a source[A]
	f func(b []byte, a A) []byte
}

func (o textOp[A]) eval(x *exec) (vec[string], error) {
	v, err := o.a.eval(x)
	if err != nil {
		return vec[string]{}, err
	}
	out := x.allocTexts(x.n)
	for i, a := range v.v[:len(out)] {
		if !bitSet(v.valid, i) {
			out[i] = ""
			continue
		}
		start := len(x.bytes)
		x.bytes = o.f(x.bytes, a)
		out[i] = stringOf(x.bytes[start:])
	}
	return vec[string]{out, v.valid}, nil
}

// castToText converts values of all types to text.
func castToText(n, from *node, try bool) (any, error) {
	if from.class() == boolean {
		p, err := compilePredicate(from)
		return boolText{p}, err
	}
	s, err := compileAny(from)
	if err != nil {
		return nil, err
	}
	switch a := s.(type) {
	case source[string]:
		if from.class() == binary && classOf(n.t) == text {
			return castOp[string, string]{n, a, func(s string) (string, bool) { return s, utf8.ValidString(s) },
				try}, nil
		}
		return a, nil
	case source[int128]:
		scale := scaleOf(from.t)
		return textOp[int128]{a, func(b []byte, v int128) []byte { return appendDecimal(b, v, scale) }}, nil
	case source[int64]:
		return textOp[int64]{a, appendInt64(from.t)}, nil
	case source[int32]:
		if from.class() == date {
			return textOp[int32]{a, func(b []byte, v int32) []byte { return appendDate(b, int64(v)) }}, nil
		}
		return textOp[int32]{a, appendSigned[int32]}, nil
	case source[int8]:
		return textOp[int8]{a, appendSigned[int8]}, nil
	case source[int16]:
		return textOp[int16]{a, appendSigned[int16]}, nil
	case source[uint8]:
		return textOp[uint8]{a, appendUnsigned[uint8]}, nil
	case source[uint16]:
		return textOp[uint16]{a, appendUnsigned[uint16]}, nil
	case source[uint32]:
		return textOp[uint32]{a, appendUnsigned[uint32]}, nil
	case source[uint64]:
		return textOp[uint64]{a, appendUnsigned[uint64]}, nil
	case source[float32]:
		return textOp[float32]{a, func(b []byte, v float32) []byte { return appendFloat(b, float64(v), 32) }}, nil
	case source[float64]:
		return textOp[float64]{a, func(b []byte, v float64) []byte { return appendFloat(b, v, 64) }}, nil
	}
	return nil, nil
}

func appendSigned[T signed](b []byte, v T) []byte     { return strconv.AppendInt(b, int64(v), 10) }
func appendUnsigned[T unsigned](b []byte, v T) []byte { return strconv.AppendUint(b, uint64(v), 10) }

// appendInt64 returns the text of the types that are computed as int64.
func appendInt64(t arrow.DataType) func(b []byte, v int64) []byte {
	switch classOf(t) {
	case decimal:
		scale := scaleOf(t)
		return func(b []byte, v int64) []byte { return appendDecimal(b, int128Of(v), scale) }
	case date:
		perDay := unitsPerDay(t)
		return func(b []byte, v int64) []byte { return appendDate(b, floorDiv(v, perDay)) }
	case timestamp:
		unit := t.(*arrow.TimestampType).Unit
		return func(b []byte, v int64) []byte { return appendTimestamp(b, v, unit) }
	}
	return appendSigned[int64]
}

// appendFloat writes the shortest text that is read as the same number. Whole numbers end with ".0".
func appendFloat(b []byte, v float64, bits int) []byte {
	switch {
	case math.IsNaN(v):
		return append(b, "nan"...)
	case math.IsInf(v, 1):
		return append(b, "inf"...)
	case math.IsInf(v, -1):
		return append(b, "-inf"...)
	}
	start := len(b)
	format := byte('f')
	if a := math.Abs(v); a != 0 && (a < 1e-5 || a >= 1e16) {
		format = 'e'
	}
	b = strconv.AppendFloat(b, v, format, -1, bits)
	if format == 'f' && !strings.Contains(string(b[start:]), ".") {
		b = append(b, ".0"...)
	}
	return b
}

// boolText writes booleans as text.
type boolText struct{ a predicate }

func (o boolText) eval(x *exec) (vec[string], error) {
	v, err := o.a.test(x)
	if err != nil {
		return vec[string]{}, err
	}
	out := x.allocTexts(x.n)
	for i := range out {
		out[i] = "false"
		if bitSet(v.v, i) {
			out[i] = "true"
		}
	}
	return vec[string]{out, v.valid}, nil
}

// castFromText reads values of all types but bool from text. Spaces around them are ignored.
func castFromText(n *node, a source[string], try bool) any {
	switch t := n.t; classOf(t) {
	case decimal:
		scale := scaleOf(t)
		return decimalResult(n, a, func(s string) (int128, bool) {
			return parseDecimal(strings.TrimSpace(s),
				scale)
		}, try)
	case date:
		if t.ID() == arrow.DATE32 {
			return castOp[string, int32]{n, a, func(s string) (int32, bool) {
				at, _, ok := parseTime(s)
				return int32(floorDiv(at.Unix(), secondsPerDay)), ok
			}, try}
		}
		return castOp[string, int64]{n, a, func(s string) (int64, bool) {
			at, _, ok := parseTime(s)
			return floorDiv(at.Unix(), secondsPerDay) * millisPerDay, ok
		}, try}
	case timestamp:
		unit := t.(*arrow.TimestampType).Unit
		return castOp[string, int64]{n, a, func(s string) (int64, bool) {
			at, _, ok := parseTime(s)
			if !ok {
				return 0, false
			}
			perSecond := unitsPerSecond(unit)
			v, over := mul64(at.Unix(), perSecond), false
			v, over = v.add(int128Of(int64(at.Nanosecond()) / (nanosPerSecond / perSecond)))
			return int64(v.lo), v.fitsInt64() && !over
		}, try}
	case floating:
		if t.ID() == arrow.FLOAT32 {
			return castOp[string, float32]{n, a, func(s string) (float32, bool) {
				v, ok := parseFloat(s, 32)
				return float32(v), ok
			}, try}
		}
		return castOp[string, float64]{n, a, func(s string) (float64, bool) { return parseFloat(s, 64) }, try}
	}
	switch formOf(n.t) {
	case formInt8:
		return castOp[string, int8]{n, a, parseSigned[int8](8), try}
	case formInt16:
		return castOp[string, int16]{n, a, parseSigned[int16](16), try}
	case formInt32:
		return castOp[string, int32]{n, a, parseSigned[int32](32), try}
	case formInt64:
		return castOp[string, int64]{n, a, parseSigned[int64](64), try}
	case formUint8:
		return castOp[string, uint8]{n, a, parseUnsigned[uint8](8), try}
	case formUint16:
		return castOp[string, uint16]{n, a, parseUnsigned[uint16](16), try}
	case formUint32:
		return castOp[string, uint32]{n, a, parseUnsigned[uint32](32), try}
	case formUint64:
		return castOp[string, uint64]{n, a, parseUnsigned[uint64](64), try}
	}
	return nil
}

func parseSigned[T signed](bits int) func(string) (T, bool) {
	return func(s string) (T, bool) {
		v, err := strconv.ParseInt(strings.TrimSpace(s), 10, bits)
		return T(v), err == nil
	}
}

func parseUnsigned[T unsigned](bits int) func(string) (T, bool) {
	return func(s string) (T, bool) {
		v, err := strconv.ParseUint(strings.TrimPrefix(strings.TrimSpace(s), "+"), 10, bits)
		return T(v), err == nil
	}
}

// parseFloat reads decimal numbers, "inf" and "nan", and rejects the hexadecimal form of Go.
func parseFloat(s string, bits int) (float64, bool) {
	s = strings.TrimSpace(s)
	if strings.ContainsAny(s, "xX_pP") {
		return 0, false
	}
	v, err := strconv.ParseFloat(s, bits)
	return v, err == nil
}

// parseBool reads a boolean.
func parseBool(s string) (value, ok bool) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "true", "t", "yes", "y", "1":
		return true, true
	case "false", "f", "no", "n", "0":
		return false, true
	}
	return false, false
}

// parseDecimal reads a number such as "-12.345" or "1.5e3" as a decimal with a scale. Further digits are rounded,
// halves
// away from zero.
func parseDecimal(s string, scale int32) (int128, bool) {
	negative := false
	if s != "" && (s[0] == '-' || s[0] == '+') {
		negative, s = s[0] == '-', s[1:]
	}
	exponent := 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		e, err := strconv.Atoi(s[i+1:])
		if err != nil || e < -1000 || e > 1000 {
			return int128{}, false
		}
		exponent, s = e, s[:i]
	}
	before, after, _ := strings.Cut(s, ".")
	if before == "" && after == "" {
		return int128{}, false
	}
	// The digit at position p, counted from the point to the right, is kept if it is before the scale.
	var out int128
	keep := len(before) + exponent + int(scale)
	ten := int128Of(10)
	for i := range len(before) + len(after) {
		c := byte(0)
		if i < len(before) {
			c = before[i]
		} else {
			c = after[i-len(before)]
		}
		if c < '0' || c > '9' {
			return int128{}, false
		}
		switch {
		case i < keep:
			var over1, over2 bool
			out, over1 = out.mul(ten)
			out, over2 = out.add(int128Of(int64(c - '0')))
			if over1 || over2 {
				return int128{}, false
			}
		case i == keep && c >= '5':
			var over bool
			if out, over = out.add(int128Of(1)); over {
				return int128{}, false
			}
		}
	}
	for i := len(before) + len(after); i < keep; i++ {
		var over bool
		if out, over = out.mul(ten); over {
			return int128{}, false
		}
		if out == (int128{}) {
			break
		}
	}
	if negative {
		out = out.neg()
	}
	return out, true
}

// showValue returns a value of a type for messages.
func showValue(v any, t arrow.DataType) string {
	var b []byte
	switch x := v.(type) {
	case string:
		if len(x) > 100 {
			x = x[:100] + "…"
		}
		return strconv.Quote(x)
	case int128:
		return string(appendDecimal(b, x, scaleOf(t)))
	case int64:
		return string(appendInt64(t)(b, x))
	case int32:
		if classOf(t) == date {
			return string(appendDate(b, int64(x)))
		}
	}
	return fmt.Sprint(v)
}
