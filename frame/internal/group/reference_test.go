package group

import (
	"bytes"
	"cmp"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// A slow group-by, to which results are compared. Its values are nil, bool, *big.Int, float64, string and []any.

// value returns a value of an array.
func value(a arrow.Array, i int) any {
	if a.DataType().ID() == arrow.NULL || a.IsNull(i) {
		return nil
	}
	switch a := a.(type) {
	case *array.Dictionary:
		return value(a.Dictionary(), a.GetValueIndex(i))
	case *array.Boolean:
		return a.Value(i)
	case *array.Float32:
		return float64(a.Value(i))
	case *array.Float64:
		return a.Value(i)
	case *array.Int8:
		return big.NewInt(int64(a.Value(i)))
	case *array.Int16:
		return big.NewInt(int64(a.Value(i)))
	case *array.Int32:
		return big.NewInt(int64(a.Value(i)))
	case *array.Int64:
		return big.NewInt(a.Value(i))
	case *array.Uint8:
		return big.NewInt(int64(a.Value(i)))
	case *array.Uint16:
		return big.NewInt(int64(a.Value(i)))
	case *array.Uint32:
		return big.NewInt(int64(a.Value(i)))
	case *array.Uint64:
		return new(big.Int).SetUint64(a.Value(i))
	case *array.Date32:
		return big.NewInt(int64(a.Value(i)))
	case *array.Timestamp:
		return big.NewInt(int64(a.Value(i)))
	case *array.Decimal128:
		return a.Value(i).BigInt()
	case *array.Binary:
		return string(a.Value(i))
	case *array.List:
		from, to := a.ValueOffsets(i)
		out := []any{}
		for j := from; j < to; j++ {
			out = append(out, value(a.ListValues(), int(j)))
		}
		return out
	}
	return a.ValueStr(i)
}

// show returns a value as text. Floats begin with "~": equalLines allows for sums in another order.
func show(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case float64:
		return fmt.Sprintf("~%.17g", v+0) // zeros are equal
	case []any:
		parts := make([]string, len(v))
		for i, x := range v {
			parts[i] = show(x)
		}
		return "[" + strings.Join(parts, " ") + "]"
	}
	return fmt.Sprint(v)
}

// number returns a value as a number.
func number(v any, scale float64) float64 {
	switch v := v.(type) {
	case bool:
		if v {
			return 1
		}
		return 0
	case *big.Int:
		f, _ := new(big.Float).SetInt(v).Float64()
		return f / scale
	case float64:
		return v
	}
	panic(fmt.Sprintf("number of %T", v))
}

func compare(a, b any) int {
	switch a := a.(type) {
	case bool:
		return cmp.Compare(number(a, 1), number(b, 1))
	case *big.Int:
		return a.Cmp(b.(*big.Int))
	case float64:
		x, y := a, b.(float64)
		if math.IsNaN(x) || math.IsNaN(y) { // above all numbers
			return cmp.Compare(number(math.IsNaN(x), 1), number(math.IsNaN(y), 1))
		}
		return cmp.Compare(x, y)
	}
	return bytes.Compare([]byte(a.(string)), []byte(b.(string)))
}

// aggregate computes an aggregate of rows of a column.
func aggregate(s Spec, a arrow.Array, rows []int) any {
	if s.Func == CountAll {
		return big.NewInt(int64(len(rows)))
	}
	var all, v []any
	for _, r := range rows {
		x := value(a, r)
		all = append(all, x)
		if x != nil {
			v = append(v, x)
		}
	}
	scale := 1.0
	if d, ok := a.DataType().(*arrow.Decimal128Type); ok {
		scale = math.Pow10(int(d.Scale))
	}
	switch s.Func {
	case Count:
		return big.NewInt(int64(len(v)))
	case NUnique:
		set := make(map[string]bool)
		for _, x := range v {
			if f, ok := x.(float64); ok {
				x = fmt.Sprint(f + 0)
			}
			set[fmt.Sprint(x)] = true
		}
		return big.NewInt(int64(len(set)))
	case First, Last, CollectList:
		if len(all) == 0 {
			return nil
		}
		return map[Func]any{First: all[0], Last: all[len(all)-1], CollectList: all}[s.Func]
	}
	if len(v) == 0 {
		return nil
	}
	switch s.Func {
	case Min:
		return slices.MinFunc(v, compare)
	case Max:
		return slices.MaxFunc(v, compare)
	case Sum:
		if _, ok := v[0].(*big.Int); ok {
			sum := new(big.Int)
			for _, x := range v {
				sum.Add(sum, x.(*big.Int))
			}
			return sum
		}
	}
	f := make([]float64, len(v))
	var sum float64
	for i, x := range v {
		f[i] = number(x, scale)
		sum += f[i]
	}
	n := float64(len(f))
	switch s.Func {
	case Sum:
		if _, ok := v[0].(bool); ok {
			return big.NewInt(int64(sum))
		}
		return sum
	case Mean:
		return sum / n
	case Var, Std:
		if n < 2 {
			return nil
		}
		squares := squaresOf(f)
		if s.Func == Std {
			return math.Sqrt(squares / (n - 1))
		}
		return squares / (n - 1)
	}
	q := s.Q
	if s.Func == Median {
		q = 0.5
	}
	slices.SortFunc(f, func(a, b float64) int { return compare(a, b) })
	at := q * (n - 1)
	lo := int(at)
	if part := at - float64(lo); part > 0 && f[lo] != f[lo+1] {
		return f[lo] + (f[lo+1]-f[lo])*part
	}
	return f[lo]
}

// squaresOf returns the sum of the squares of the distances from the mean, computed with many digits.
func squaresOf(v []float64) float64 {
	exact := func(f float64) *big.Float { return new(big.Float).SetPrec(300).SetFloat64(f) }
	mean, sum := exact(0), exact(0)
	for _, x := range v {
		mean.Add(mean, exact(x))
	}
	mean.Quo(mean, exact(float64(len(v))))
	for _, x := range v {
		d := exact(0).Sub(exact(x), mean)
		sum.Add(sum, d.Mul(d, d))
	}
	f, _ := sum.Float64()
	return f
}

// reference returns a line for each group, in order.
func reference(b arrow.RecordBatch, keys []int, specs []Spec) []string {
	groups := make(map[string][]int)
	if len(keys) == 0 {
		groups[""] = nil
	}
	for r := range int(b.NumRows()) {
		var key strings.Builder
		for _, k := range keys {
			key.WriteString(show(value(b.Column(k), r)) + "|")
		}
		groups[key.String()] = append(groups[key.String()], r)
	}
	var out []string
	for key, rows := range groups {
		line := key
		for _, s := range specs {
			var a arrow.Array
			if s.Func != CountAll {
				a = b.Column(s.Column)
			}
			line += show(aggregate(s, a, rows)) + "|"
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

// lines returns the rows of a result as reference does.
func lines(b arrow.RecordBatch) []string {
	var out []string
	for r := range int(b.NumRows()) {
		line := ""
		for _, c := range b.Columns() {
			line += show(value(c, r)) + "|"
		}
		out = append(out, line)
	}
	slices.Sort(out)
	return out
}

// tester is a test, of testing or of rapid.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// equalLines fails with the first line that differs.
func equalLines(t tester, what string, got, want []string) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			t.Fatalf("%s: %d groups, want %d; missing %s", what, len(got), len(want), want[i])
		case i >= len(want):
			t.Fatalf("%s: %d groups, want %d; got also %s", what, len(got), len(want), got[i])
		case !slices.EqualFunc(strings.Split(got[i], "|"), strings.Split(want[i], "|"), equalFields):
			t.Fatalf("%s: group %d:\n got %s\nwant %s", what, i, got[i], want[i])
		}
	}
}

// equalFields reports whether two values as text are equal: floats nearly.
func equalFields(a, b string) bool {
	x, isFloat := strings.CutPrefix(a, "~")
	y, alsoFloat := strings.CutPrefix(b, "~")
	if a == b || !isFloat || !alsoFloat {
		return a == b
	}
	f, err1 := strconv.ParseFloat(x, 64)
	g, err2 := strconv.ParseFloat(y, 64)
	return err1 == nil && err2 == nil && math.Abs(f-g) <= 1e-9*max(1, math.Abs(f), math.Abs(g))
}
