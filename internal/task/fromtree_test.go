package task

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/wire"
)

// converted converts a value to a T, with FromPlain and with a Value that holds it.
func converted[T any](t *testing.T, x any) (T, error) {
	t.Helper()
	a, err := FromPlain[T](x)
	b, err2 := As[T](NewValue(x))
	if (err == nil) != (err2 == nil) || !reflect.DeepEqual(a, b) {
		t.Errorf("%#v as %T: FromPlain is %v, %v, and As %v, %v", x, a, a, err, b, err2)
	}
	var te *TypeError
	if err != nil && !errors.As(err, &te) {
		t.Errorf("%#v as %T: got %v, want a TypeError", x, a, err)
	}
	return a, err
}

// becomes checks that a number is converted to a T with the same text, or is an error if T cannot represent it.
func becomes[T any](t *testing.T, x any, want string) {
	t.Helper()
	got, err := converted[T](t, x)
	if (err == nil) != (want != "") || want != "" && fmt.Sprint(got) != want {
		t.Errorf("%T %v as %T: got %v, %v, want %q", x, x, got, got, err, want)
	}
}

// Every kind of number is converted to every other: inexact conversions are rejected.
func TestNumbersConvert(t *testing.T) {
	max64 := new(big.Int).SetUint64(math.MaxUint64)
	huge := new(big.Int).Lsh(big.NewInt(1), 100)
	for _, c := range []struct {
		x                                any
		i8, i64, u8, u64, f32, f64, c128 string // "" if rejected
	}{
		{int64(0), "0", "0", "0", "0", "0", "0", "(0+0i)"},
		{int64(-1), "-1", "-1", "", "", "-1", "-1", "(-1+0i)"},
		{int64(127), "127", "127", "127", "127", "127", "127", "(127+0i)"},
		{int64(128), "", "128", "128", "128", "128", "128", "(128+0i)"},
		{int64(256), "", "256", "", "256", "256", "256", "(256+0i)"},
		{uint8(7), "7", "7", "7", "7", "7", "7", "(7+0i)"},
		{int64(1 << 53), "", "9007199254740992", "", "9007199254740992", "9.007199e+15", "9.007199254740992e+15",
			"(9.007199254740992e+15+0i)"},
		{int64(1<<53 + 1), "", "9007199254740993", "", "9007199254740993", "", "", ""},
		{uint64(math.MaxUint64), "", "", "", "18446744073709551615", "", "", ""},
		{max64, "", "", "", "18446744073709551615", "", "", ""},
		{huge, "", "", "", "", "1.2676506e+30", "1.2676506002282294e+30", "(1.2676506002282294e+30+0i)"},
		{2.5, "", "", "", "", "2.5", "2.5", "(2.5+0i)"},
		{2.0, "", "", "", "", "2", "2", "(2+0i)"}, // a float is never an integer
		{math.Inf(1), "", "", "", "", "+Inf", "+Inf", "(+Inf+0i)"},
		{true, "", "", "", "", "", "", ""},
		{"1", "", "", "", "", "", "", ""},
		{nil, "", "", "", "", "", "", ""},
		{(*big.Int)(nil), "", "", "", "", "", "", ""},
		{complex(1, 2), "", "", "", "", "", "", "(1+2i)"},
	} {
		becomes[int8](t, c.x, c.i8)
		becomes[int64](t, c.x, c.i64)
		becomes[uint8](t, c.x, c.u8)
		becomes[uint64](t, c.x, c.u64)
		becomes[float32](t, c.x, c.f32)
		becomes[float64](t, c.x, c.f64)
		becomes[complex128](t, c.x, c.c128)
	}
	if got, err := converted[*big.Int](t, int64(5)); err != nil || got.Int64() != 5 {
		t.Errorf("5 as a big.Int: got %v, %v", got, err)
	}
	if got, err := converted[*big.Int](t, huge); err != nil || got.Cmp(huge) != 0 {
		t.Errorf("%v as a big.Int: got %v, %v", huge, got, err)
	}
}

// An error has the position in the value.
func TestConversionErrors(t *testing.T) {
	type row struct {
		N    int
		When time.Time
		M    map[string][]int
	}
	bad := wire.NewDict("M", wire.NewDict("k", []any{int64(1), "x"}))
	for _, c := range []struct {
		x    any
		to   any
		want string
	}{
		{bad, row{}, "field M: value of k: element 1: a string cannot be converted to int"},
		{wire.NewDict("N", nil), row{}, "field N: cannot convert None to int"},
		{wire.NewDict("When", "yesterday"), row{}, "field When: parsing time"},
		{wire.NewDict("When", 1.5), row{}, "field When: a float64 cannot be converted to time.Time"},
		{wire.NewDict("X", int64(1)), row{}, "task.row has no field X"},
		{wire.NewDict(int64(1), int64(1)), row{}, "task.row has no field 1"},
		{[]any{}, row{}, "cannot be converted to task.row"},
		{wire.Tuple{int64(1)}, row{}, "cannot be converted to task.row"},
		{wire.Tuple{"x", "y"}, point{}, "field X: a string cannot be converted to int"},
		{wire.NewDict("a", int64(1)), map[int]int{}, "key a: a string cannot be converted to int"},
		{wire.NewDict("a", "b"), map[string]int{}, "value of a: a string cannot be converted to int"},
		{wire.NewDict(int64(1), int64(1)), map[any]any{}, ""},
		{wire.NewDict(wire.Tuple{int64(1)}, int64(1)), map[any]any{}, "cannot be compared"},
		{"text", map[string]int{}, "a string cannot be converted to map[string]int"},
		{[]any{int64(1), int64(2)}, [3]int{}, "2 elements for a [3]int"},
		{[]byte("ab"), [3]byte{}, "2 bytes for a [3]uint8"},
		{wire.ByteArray("ab"), []int16{}, "cannot be converted to []int16"},
		{wire.NewNDArray([]int64{1, 2}), [3]int{}, "2 elements for a [3]int"},
		{wire.NewNDArray([]int64{1, 300}), []int8{}, "element 1: a int64 cannot be converted to int8"},
		{wire.NewNDArray([]float64{1}, 1, 1), []float64{}, "array of 2 dimensions cannot be converted to []float64"},
		{&wire.NDArray{DType: "<M8[ns]", Shape: []int{1}, Data: make([]byte, 8)}, []int64{},
			"cannot be converted to a slice"},
		{&wire.NDArray{DType: wire.Int64, Shape: []int{9}, Data: make([]byte, 8)}, []int64{}, ""},
		{&wire.Object{Type: "pandas.DataFrame"}, row{}, "pandas.DataFrame) cannot be converted to task.row"},
	} {
		v := reflect.New(reflect.TypeOf(c.to)).Elem()
		err := fromTree(c.x, v, 0)
		if c.want == "" {
			if _, array := c.x.(*wire.NDArray); (err == nil) == array {
				t.Errorf("%#v as %T: got %v", c.x, c.to, err)
			}
			continue
		}
		wants(t, fmt.Sprintf("%#v as %T", c.x, c.to), err, c.want)
	}
}

// Decoded values are copies.
func TestConversionCopies(t *testing.T) {
	raw := []byte("abc")
	array := wire.NewNDArray([]int64{1, 2})
	for _, x := range []any{raw, wire.ByteArray(raw), []any{raw}, wire.NewDict("k", raw), array} {
		var out any
		switch x.(type) {
		case []byte, wire.ByteArray:
			out = new([]byte)
		case []any:
			out = new([][]byte)
		case wire.Dict:
			out = new(map[string][]byte)
		default:
			out = new([]int64)
		}
		v := reflect.ValueOf(out).Elem()
		if err := fromTree(x, v, 0); err != nil {
			t.Fatalf("%T: %v", x, err)
		}
		before := fmt.Sprint(v)
		raw[0]++
		array.Data[0]++
		if got := fmt.Sprint(v); got != before {
			t.Errorf("%T as %v: got %[4]s after the message was reused, want %[3]s", x, v.Type(), before, got)
		}
	}
}

// Memory with equal types of elements is copied at once, also for named types; other arrays element by element.
func TestArraysToSlices(t *testing.T) {
	type myInt int
	type myFloat float64
	offset := &wire.NDArray{DType: wire.Int64, Shape: []int{2}, Strides: []int{-8}, Offset: 8,
		Data: wire.NewNDArray([]int64{1, 2}).Data}
	for _, c := range []struct {
		a    *wire.NDArray
		want any
	}{
		{wire.NewNDArray([]int64{1, -2}), []myInt{1, -2}}, {wire.NewNDArray([]int32{1, -2}), []myInt{1, -2}},
		{wire.NewNDArray([]uint64{1, 2}), []int{1, 2}}, {wire.NewNDArray([]int64{1, 2}), []uint{1, 2}},
		{wire.NewNDArray([]float64{1.5}), []myFloat{1.5}}, {wire.NewNDArray([]float32{1.5}), []myFloat{1.5}},
		{wire.NewNDArray([]int64{}), []int{}}, {wire.NewNDArray([]float64{}), []float32{}},
		{wire.NewNDArray([]bool{true}), []bool{true}}, {wire.NewNDArray([]int64{3}), []any{int64(3)}},
		{offset, []int64{2, 1}}, {wire.NewNDArray([]int64{1, 2}), [2]uint8{1, 2}},
	} {
		v := reflect.New(reflect.TypeOf(c.want)).Elem()
		if err := fromTree(c.a, v, 0); err != nil || !reflect.DeepEqual(v.Interface(), c.want) {
			t.Errorf("%v as %T: got %#v, %v, want %#v", c.a.DType, c.want, v.Interface(), err, c.want)
		}
	}
	if _, err := converted[[]uint](t, wire.NewNDArray([]int64{-1})); err == nil {
		t.Error("-1 as a uint: got nil, want an error")
	}
}

// The order of map keys is deterministic.
func TestSortedMapKeys(t *testing.T) {
	for _, c := range []struct {
		m    any
		want string
	}{
		{map[string]int{"b": 1, "a": 1, "": 1}, "[ a b]"}, {map[int]int{3: 1, -1: 1, 2: 1}, "[-1 2 3]"},
		{map[uint8]int{200: 1, 3: 1}, "[3 200]"}, {map[float64]int{2.5: 1, -1: 1}, "[-1 2.5]"},
		{map[bool]int{true: 1, false: 1}, "[false true]"}, {map[point]int{{2, 1}: 1, {1, 2}: 1}, "[{1 2} {2 1}]"},
		{map[[1]int]int{{2}: 1, {1}: 1}, "[[1] [2]]"}, {map[string]int{}, "[]"},
	} {
		for range 5 {
			keys := sortedMapKeys(reflect.ValueOf(c.m))
			var got []string
			for _, k := range keys {
				got = append(got, fmt.Sprint(k))
			}
			if text := "[" + strings.Join(got, " ") + "]"; text != c.want {
				t.Errorf("%T: got %s, want %s", c.m, text, c.want)
			}
		}
	}
	big := map[int]string{}
	for i := range 40 {
		big[i] = fmt.Sprint(i)
	}
	first := encodedOf(t, big)
	for range 5 {
		if again := encodedOf(t, big); !slices.Equal(again.Frames[0].Bytes(), first.Frames[0].Bytes()) {
			t.Fatal("equal maps have frames that differ")
		}
	}
}
