package expr

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// The reference evaluates one row at a time, with big numbers. Values are nil, bool, *big.Int (integers, unscaled
// decimals, times in their unit), float64 and string.

var errRow = errors.New("row fails")

func refEval(n *node, b arrow.RecordBatch, row int) (any, error) {
	switch n.op {
	case OpColumn:
		return refCell(b.Column(n.column), row), nil
	case OpLiteral:
		switch v := n.value.(type) {
		case int64, uint64, int128:
			return bigOf(v), nil
		}
		return n.value, nil
	case OpAnd, OpOr:
		return refLogic(n, b, row)
	case OpIf:
		c, err := refEval(n.args[0], b, row)
		if err != nil {
			return nil, err
		}
		if c == true {
			return refEval(n.args[1], b, row)
		}
		return refEval(n.args[2], b, row)
	case OpCoalesce:
		for _, a := range n.args {
			if v, err := refEval(a, b, row); v != nil || err != nil {
				return v, err
			}
		}
		return nil, nil
	case OpIn:
		return refIn(n, b, row)
	}
	args := make([]any, len(n.args))
	missing := false
	for i, a := range n.args {
		var err error
		if args[i], err = refEval(a, b, row); err != nil {
			return nil, err
		}
		missing = missing || args[i] == nil
	}
	switch n.op {
	case OpIsNull, OpNotNull:
		return missing == (n.op == OpIsNull), nil
	case OpNullIf:
		if !missing && refCompare(n.args[0], n.args[1], args[0], args[1]) == 0 {
			return nil, nil
		}
		return args[0], nil
	}
	if missing {
		return nil, nil
	}
	return refCall(n, args)
}

func refCell(a arrow.Array, i int) any {
	if a.IsNull(i) || a.DataType().ID() == arrow.NULL {
		return nil
	}
	switch a := a.(type) {
	case *array.Boolean:
		return a.Value(i)
	case *array.Float32:
		return float64(a.Value(i))
	case *array.Float64:
		return a.Value(i)
	case *array.Decimal128:
		return a.Value(i).BigInt()
	case *array.String:
		return a.Value(i)
	case *array.LargeString:
		return a.Value(i)
	case *array.StringView:
		return a.Value(i)
	case *array.Binary:
		return string(a.Value(i))
	case *array.Uint64:
		return new(big.Int).SetUint64(a.Value(i))
	case *array.Date32:
		return big.NewInt(int64(a.Value(i)))
	case *array.Timestamp:
		return big.NewInt(int64(a.Value(i)))
	}
	n, err := strconv.ParseInt(a.ValueStr(i), 10, 64)
	if err != nil {
		panic(fmt.Sprintf("cell of type %v: %v", a.DataType(), err))
	}
	return big.NewInt(n)
}

func refLogic(n *node, b arrow.RecordBatch, row int) (any, error) {
	var out any = n.op == OpAnd
	for _, a := range n.args {
		v, err := refEval(a, b, row)
		if err != nil {
			return nil, err
		}
		if v == (n.op == OpOr) {
			return v, nil
		}
		if v == nil {
			out = nil
		}
	}
	return out, nil
}

func refIn(n *node, b arrow.RecordBatch, row int) (any, error) {
	v, err := refEval(n.args[0], b, row)
	if v == nil || err != nil {
		return nil, err
	}
	var out any = false
	for _, constants := range []bool{true, false} {
		for _, a := range n.args[1:] {
			if (a.isLiteral() && n.args[0].class() != boolean) != constants {
				continue
			}
			w, err := refEval(a, b, row)
			switch {
			case err != nil:
				return nil, err
			case w == nil:
				out = nil
			case refCompare(n.args[0], a, v, w) == 0:
				return true, nil
			}
		}
	}
	return out, nil
}

// refRat returns a number, or a time in days, exactly.
func refRat(t arrow.DataType, v any) *big.Rat {
	if f, ok := v.(float64); ok {
		return new(big.Rat).SetFloat64(f)
	}
	unit := pow10[scaleOf(t)].big()
	if classOf(t).isTime() {
		unit = big.NewInt(unitsPerDay(t))
	}
	return new(big.Rat).SetFrac(v.(*big.Int), unit)
}

func refCompare(na, nb *node, a, b any) int {
	switch x := a.(type) {
	case string:
		return strings.Compare(x, b.(string))
	case bool:
		return strings.Compare(fmt.Sprint(x), fmt.Sprint(b))
	}
	fa, aFloat := a.(float64)
	fb, bFloat := b.(float64)
	switch { // decimals with floats
	case aFloat && nb.class() == decimal && na.isLiteral() && !math.IsInf(fa, 0) && !math.IsNaN(fa):
		r, _ := new(big.Rat).SetString(strconv.FormatFloat(fa, 'g', -1, 64))
		return r.Cmp(refRat(nb.t, b))
	case bFloat && na.class() == decimal && nb.isLiteral() && !math.IsInf(fb, 0) && !math.IsNaN(fb):
		r, _ := new(big.Rat).SetString(strconv.FormatFloat(fb, 'g', -1, 64))
		return refRat(na.t, a).Cmp(r)
	case aFloat && nb.class() == decimal:
		fb, bFloat = refFloat(nb.t, b), true
		if nb.isLiteral() && na.t.ID() == arrow.FLOAT32 {
			fb = float64(float32(fb))
		}
	case bFloat && na.class() == decimal:
		fa, aFloat = refFloat(na.t, a), true
		if na.isLiteral() && nb.t.ID() == arrow.FLOAT32 {
			fa = float64(float32(fa))
		}
	}
	if aFloat && bFloat {
		switch {
		case fa < fb:
			return -1
		case fa > fb:
			return 1
		case fa == fb:
			return 0
		}
		return unordered
	}
	for _, f := range []struct {
		is   bool
		v    float64
		sign int
	}{{aFloat, fa, 1}, {bFloat, fb, -1}} {
		if f.is && math.IsNaN(f.v) {
			return unordered
		}
		if f.is && math.IsInf(f.v, 0) {
			if f.v > 0 {
				return f.sign
			}
			return -f.sign
		}
	}
	return refRat(na.t, a).Cmp(refRat(nb.t, b))
}

// refFloat is the nearest float of the unscaled number divided by that of the power of ten.
func refFloat(t arrow.DataType, v any) float64 {
	if f, ok := v.(float64); ok {
		return f
	}
	f, _ := new(big.Float).SetInt(v.(*big.Int)).Float64()
	return f / math.Pow10(int(scaleOf(t)))
}

// refInt returns an integer of a type, or an error if it does not fit.
func refInt(t arrow.DataType, v *big.Int) (any, error) {
	var least, most *big.Int
	one := big.NewInt(1)
	switch {
	case classOf(t) == decimal:
		most = new(big.Int).Sub(pow10[precisionOf(t)].big(), one)
		least = new(big.Int).Neg(most)
	default:
		width, signed := 64, true
		if t.ID() == arrow.DATE32 {
			width = 32
		} else if classOf(t) == integer {
			width, signed = bitsOf(t)
		}
		if signed {
			most = new(big.Int).Sub(new(big.Int).Lsh(one, uint(width-1)), one)
			least = new(big.Int).Not(most)
		} else {
			most, least = new(big.Int).Sub(new(big.Int).Lsh(one, uint(width)), one), new(big.Int)
		}
	}
	if v.Cmp(least) < 0 || v.Cmp(most) > 0 {
		return nil, errRow
	}
	return v, nil
}

// roundRat rounds to an integer, halves away from zero.
func roundRat(r *big.Rat) *big.Int {
	two := new(big.Int).Mul(r.Denom(), big.NewInt(2))
	x := new(big.Int).Mul(new(big.Int).Abs(r.Num()), big.NewInt(2))
	x.Add(x, r.Denom()).Quo(x, two)
	if r.Sign() < 0 {
		x.Neg(x)
	}
	return x
}

func refCall(n *node, args []any) (any, error) {
	switch n.op {
	case OpNot:
		return !args[0].(bool), nil
	case OpEq, OpNe, OpLt, OpLe, OpGt, OpGe:
		return n.op.accepts()[refCompare(n.args[0], n.args[1], args[0], args[1])+1], nil
	case OpAdd, OpSub, OpMul, OpDiv, OpIntDiv, OpMod, OpPow:
		return refArithmetic(n, args)
	case OpNeg, OpAbs, OpRound, OpFloor, OpCeil, OpSqrt, OpExp, OpLog:
		return refUnary(n, args[0])
	case OpCast, OpTryCast:
		v, err := refCast(n.args[0].t, n.t, args[0])
		if err != nil && n.op == OpTryCast {
			return nil, nil
		}
		return v, err
	case OpLower:
		return strings.ToLower(args[0].(string)), nil
	case OpUpper:
		return strings.ToUpper(args[0].(string)), nil
	case OpTrim:
		return strings.Trim(args[0].(string), " "), nil
	case OpReplace:
		if args[1] == "" {
			return args[0], nil
		}
		return strings.ReplaceAll(args[0].(string), args[1].(string), args[2].(string)), nil
	case OpLength:
		if n.args[0].class() == binary {
			return big.NewInt(int64(len(args[0].(string)))), nil
		}
		return big.NewInt(int64(len([]rune(args[0].(string))))), nil
	case OpConcat:
		out := ""
		for _, a := range args {
			out += a.(string)
		}
		return out, nil
	case OpSubstring:
		return refSubstring(args), nil
	case OpContains:
		return strings.Contains(args[0].(string), args[1].(string)), nil
	case OpStartsWith:
		return strings.HasPrefix(args[0].(string), args[1].(string)), nil
	case OpEndsWith:
		return strings.HasSuffix(args[0].(string), args[1].(string)), nil
	case OpLike:
		return refLike([]rune(args[0].(string)), []rune(args[1].(string))), nil
	}
	return refTime(n, args)
}

func refLike(s, p []rune) bool {
	switch {
	case len(p) == 0:
		return len(s) == 0
	case p[0] == '%':
		return refLike(s, p[1:]) || len(s) > 0 && refLike(s[1:], p)
	}
	return len(s) > 0 && (p[0] == '_' || p[0] == s[0]) && refLike(s[1:], p[1:])
}

func refSubstring(args []any) string {
	s := []rune(args[0].(string))
	start := args[1].(*big.Int).Int64()
	if start < 0 {
		start += int64(len(s)) + 1
	}
	out := ""
	for i, c := range s {
		at := int64(i) + 1
		if at >= start && (len(args) < 3 || at-start < args[2].(*big.Int).Int64()) {
			out += string(c)
		}
	}
	return out
}

func refArithmetic(n *node, args []any) (any, error) {
	if x, ok := args[0].(float64); ok {
		y := args[1].(float64)
		var r float64
		switch n.op {
		case OpAdd:
			r = x + y
		case OpSub:
			r = x - y
		case OpMul:
			r = x * y
		case OpDiv:
			r = x / y
		case OpIntDiv:
			r = math.Trunc(x / y)
		case OpMod:
			r = math.Mod(x, y)
		case OpPow:
			r = math.Pow(x, y)
		}
		return refFloatOf(n.t, r), nil
	}
	x, y := args[0].(*big.Int), args[1].(*big.Int)
	r := new(big.Int)
	switch n.op {
	case OpAdd:
		r.Add(x, y)
	case OpSub:
		r.Sub(x, y)
	case OpMul:
		r.Mul(x, y)
	default:
		if y.Sign() == 0 {
			return nil, nil
		}
		if n.op == OpIntDiv {
			r.Quo(x, y)
		} else {
			r.Rem(x, y)
		}
	}
	return refInt(n.t, r)
}

func refFloatOf(t arrow.DataType, v float64) float64 {
	if t.ID() == arrow.FLOAT32 {
		return float64(float32(v))
	}
	return v
}

func refUnary(n *node, v any) (any, error) {
	f, isFloat := v.(float64)
	functions := map[Op]func(float64) float64{OpNeg: func(v float64) float64 { return -v }, OpAbs: math.Abs,
		OpFloor: math.Floor, OpCeil: math.Ceil, OpSqrt: math.Sqrt, OpExp: math.Exp, OpLog: math.Log,
		OpRound: func(v float64) float64 { return roundFloat(v, n.digits()) }}
	if isFloat {
		return refFloatOf(n.t, functions[n.op](f)), nil
	}
	x := v.(*big.Int)
	switch n.op {
	case OpNeg:
		return refInt(n.t, new(big.Int).Neg(x))
	case OpAbs:
		return refInt(n.t, new(big.Int).Abs(x))
	}
	from, digits := int64(scaleOf(n.args[0].t)), n.digits()
	if digits >= from {
		return refInt(n.t, x)
	}
	step := new(big.Int).Exp(big.NewInt(10), big.NewInt(from-digits), nil)
	r := new(big.Rat).SetFrac(x, step)
	var q *big.Int
	switch n.op {
	case OpRound:
		q = roundRat(r)
	case OpFloor:
		q = new(big.Int).Div(r.Num(), r.Denom())
	default:
		q = new(big.Int).Div(new(big.Int).Neg(r.Num()), r.Denom())
		q.Neg(q)
	}
	if digits < 0 {
		q.Mul(q, new(big.Int).Exp(big.NewInt(10), big.NewInt(-digits), nil))
	}
	return refInt(n.t, q)
}

func refCast(from, to arrow.DataType, v any) (any, error) {
	cf, ct := classOf(from), classOf(to)
	if b, ok := v.(bool); ok && ct.isNumber() {
		v, from, cf = new(big.Int), int64Type, integer
		if b {
			v = big.NewInt(1)
		}
	}
	s, isText := v.(string)
	switch {
	case ct == text && cf == binary, ct == text && cf == text, ct == binary:
		return v, nil
	case ct == text:
		return refText(from, v), nil
	case ct == boolean && isText:
		b, ok := parseBool(s)
		if !ok {
			return nil, errRow
		}
		return b, nil
	case ct == boolean:
		if f, ok := v.(float64); ok {
			return f != 0, nil
		}
		return v.(*big.Int).Sign() != 0, nil
	case isText && ct.isTime():
		at, _, ok := parseTime(s)
		if !ok {
			return nil, errRow
		}
		ns := new(big.Int).Add(new(big.Int).Mul(big.NewInt(at.Unix()), big.NewInt(1e9)),
			big.NewInt(int64(at.Nanosecond())))
		perUnit := big.NewInt(secondsPerDay * 1e9 / unitsPerDay(to))
		return refInt(to, ns.Div(ns, perUnit))
	case isText && ct == floating:
		f, ok := parseFloat(s, map[bool]int{true: 32, false: 64}[to.ID() == arrow.FLOAT32])
		if !ok {
			return nil, errRow
		}
		return refFloatOf(to, f), nil
	case isText && ct == integer:
		i, ok := new(big.Int).SetString(strings.TrimSpace(s), 10)
		if !ok || strings.Contains(s, "_") {
			return nil, errRow
		}
		return refInt(to, i)
	case isText:
		r, ok := new(big.Rat).SetString(strings.TrimSpace(s))
		if !ok || strings.ContainsAny(s, "/_xXpPbBoO") {
			return nil, errRow
		}
		return refInt(to, roundRat(r.Mul(r, new(big.Rat).SetInt(pow10[scaleOf(to)].big()))))
	case ct == floating && cf == integer:
		f, _ := new(big.Float).SetInt(v.(*big.Int)).Float64()
		if to.ID() == arrow.FLOAT32 {
			f32, _ := new(big.Float).SetInt(v.(*big.Int)).Float32()
			return float64(f32), nil
		}
		return f, nil
	case ct == floating:
		return refFloatOf(to, refFloat(from, v)), nil
	case cf.isTime() && ct.isTime():
		r := refRat(from, v)
		if ct == date {
			r.SetInt(new(big.Int).Div(r.Num(), r.Denom()))
		}
		r.Mul(r, new(big.Rat).SetInt64(unitsPerDay(to)))
		return refInt(to, new(big.Int).Div(r.Num(), r.Denom()))
	}
	if f, ok := v.(float64); ok {
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return nil, errRow
		}
		if ct == integer {
			i, _ := new(big.Float).SetFloat64(math.RoundToEven(f)).Int(nil)
			return refInt(to, i)
		}
		r, _ := new(big.Rat).SetString(strconv.FormatFloat(f, 'g', -1, 64))
		return refInt(to, roundRat(r.Mul(r, new(big.Rat).SetInt(pow10[scaleOf(to)].big()))))
	}
	if cf.isTime() || ct.isTime() { // as numbers
		return refInt(to, v.(*big.Int))
	}
	r := refRat(from, v)
	return refInt(to, roundRat(r.Mul(r, new(big.Rat).SetInt(pow10[scaleOf(to)].big()))))
}
