package task

import (
	"errors"
	"math"
	"math/big"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
)

// TestFromPython converts values of Python peers to the parameter types of Go functions.
func TestFromPython(t *testing.T) {
	ten := 10
	dtype, err := pickle.ParseDType("<i4")
	if err != nil {
		t.Fatal(err)
	}
	fdtype, err := pickle.ParseDType("<f8")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		from any
		want any
	}{
		{int64(10), int8(10)},
		{int64(10), uint8(10)},
		{uint64(math.MaxUint64), uint64(math.MaxUint64)},
		{big.NewInt(10), 10},
		{new(big.Int).SetUint64(math.MaxUint64), uint(math.MaxUint64)},
		{int64(10), 10.0},
		{int64(10), float32(10)},
		{2.5, float32(2.5)},
		{int64(10), &ten},
		{int64(3), complex(3, 0)},
		{complex(1, 2), complex64(complex(1, 2))},
		{"text", "text"},
		{[]byte("raw"), "raw"},
		{[]byte("raw"), []byte("raw")},
		{wire.ByteArray("raw"), []byte("raw")},
		{[]byte("raw"), [3]byte{'r', 'a', 'w'}},
		{wire.Tuple{int64(1), int64(2)}, []int{1, 2}},
		{wire.Tuple{int64(1), int64(2)}, [2]int{1, 2}},
		{wire.Set{"a"}, []string{"a"}},
		{wire.FrozenSet{"a"}, []string{"a"}},
		{[]any{int64(1), 2.5}, []float64{1, 2.5}},
		{[]any{nil, int64(10)}, []*int{nil, &ten}},
		{wire.NewDict("a", int64(1)), map[string]int{"a": 1}},
		{wire.NewDict(int64(1), "x"), map[int]string{1: "x"}},
		{wire.NewDict("X", int64(1), "Y", int64(2)), point{1, 2}},
		{wire.NewDict("X", int64(1)), point{1, 0}},
		{wire.NewNDArray([]int32{1, 2}), []int{1, 2}},
		{wire.NewNDArray([]int64{1, 2}), []int{1, 2}},
		{wire.NewNDArray([]uint64{1, 2}), []uint{1, 2}},
		{wire.NewNDArray([]int64{1, 2}), []float64{1, 2}},
		{wire.NewNDArray([]float32{1, 2}), []float64{1, 2}},
		{wire.NewNDArray([]float64{1, 2}), [2]float64{1, 2}},
		{wire.NewNDArray([]float64{1, 2}), []celsius{1, 2}},
		{wire.NewNDArray([]uint8{1, 2}), []byte{1, 2}},
		{wire.NewNDArray([]int8{1}), []int8{1}},
		{wire.NewNDArray([]int16{1}), []int16{1}},
		{wire.NewNDArray([]uint16{1}), []uint16{1}},
		{wire.NewNDArray([]uint32{1}), []uint32{1}},
		{wire.NewNDArray([]bool{true}), []bool{true}},
		{wire.NewNDArray([]complex64{1}), []complex64{1}},
		{wire.NewNDArray([]complex128{1}), []complex128{1}},
		{pickle.Scalar{DType: dtype, Data: []byte{7, 0, 0, 0}}, 7},
		{pickle.Scalar{DType: fdtype, Data: []byte{0, 0, 0, 0, 0, 0, 4, 64}}, 2.5},
		{time.Second, time.Second},
		{int64(5), time.Duration(5)},
		{"2026-01-02T03:04:05.000000006Z", time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)},
		{wire.NaiveTime{Time: time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)},
			time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)},
		{nil, []int(nil)},
		{nil, map[string]int(nil)},
	} {
		v := reflect.New(reflect.TypeOf(c.want)).Elem()
		if err := fromTree(c.from, v, 0); err != nil {
			t.Errorf("%T to %T: %v", c.from, c.want, err)
		} else if !reflect.DeepEqual(v.Interface(), c.want) {
			t.Errorf("%T to %T: %#v, want %#v", c.from, c.want, v.Interface(), c.want)
		}
	}
}

func TestFromPythonRefused(t *testing.T) {
	for _, c := range []struct {
		from any
		to   any
	}{
		{int64(300), int8(0)},
		{int64(-1), uint(0)},
		{2.5, 0},
		{int64(1<<62 + 1), 0.0},
		{"5", 0},
		{int64(1), "x"},
		{int64(1), true},
		{nil, 0},
		{[]any{int64(1)}, [2]int{}},
		{[]byte("ab"), [3]byte{}},
		{[]byte("ab"), []int{}},
		{[]any{"x"}, []int{}},
		{wire.NewNDArray([]float64{1, 2, 3, 4}, 2, 2), []float64{}},
		{wire.NewNDArray([]float64{1}), [2]float64{}},
		{wire.NewNDArray([]float64{1.5}), []int{}},
		{wire.NewDict("a", "x"), map[string]int{}},
		{wire.NewDict("a", int64(1)), map[int]int{}},
		{wire.NewDict([]any{int64(1)}, int64(1)), map[any]int{}},
		{wire.NewDict("Z", int64(1)), point{}},
		{[]any{}, point{}},
		{[]any{}, map[string]int{}},
		{"yesterday", time.Time{}},
		{int64(5), time.Time{}},
		{&wire.Object{Type: "pandas.DataFrame"}, []int{}},
		{"x", big.NewInt(0)},
		{int64(1), make(chan int)},
	} {
		v := reflect.New(reflect.TypeOf(c.to)).Elem()
		if err := fromTree(c.from, v, 0); err == nil {
			t.Errorf("%#v became %#v", c.from, v.Interface())
		}
	}
	var deep any
	for range 2 * maxDepth {
		deep = []any{deep}
	}
	type list []list
	var l list
	if err := fromTree(deep, reflect.ValueOf(&l).Elem(), 0); err == nil {
		t.Error("endless list: got nil, want an error")
	}
}

// wide has elements that are larger than their encoding.
type wide struct{ A [64]int64 }

func TestLongSlices(t *testing.T) {
	in := make([]*wide, 50_000)
	in[40_000] = &wide{}
	same(t, in)
	big := make([]wide, 3000) // its elements are decoded one by one
	big[2999].A[63] = 5
	same(t, big)
}

func TestHostileLengths(t *testing.T) {
	// A slice of 2^32-1 elements in a few bytes, of a type whose elements are large.
	var b Builder
	b.Begin(incF)
	b.args = append(b.args, 0xdd, 0xff, 0xff, 0xff, 0xff, 0)
	call := Call{Func: incF, args: b.args}
	r := call.reader(nil)
	if _, err := codecFor[[]wide]().read(&r); err == nil {
		t.Error("announced length without data: got nil, want an error")
	}
}

func TestErrorsSayWhat(t *testing.T) {
	for _, c := range []struct {
		err  error
		want []string
	}{
		{&TypeError{Func: "f", Arg: 2, Want: "int", Got: "a string", Err: errors.New("why")},
			[]string{"argument 2 of f", "must be int", "why"}},
		{&TypeError{Want: "int", Got: "a string"}, []string{"value must be int"}},
		{&EncodeError{Type: reflect.TypeFor[int](), Path: ".A[3]", Reason: "no"}, []string{"int", "at .A[3]", "no"}},
		{&SpecError{Reason: "r", Err: errors.New("why")}, []string{"r", "why"}},
		{&PanicError{Func: "f", Value: "v"}, []string{"f panicked: v"}},
		{&UnknownFuncError{Name: "f"}, []string{`"f"`, "package level"}},
	} {
		for _, w := range c.want {
			if !strings.Contains(c.err.Error(), w) {
				t.Errorf("%q lacks %q", c.err, w)
			}
		}
	}
	if errors.Unwrap(&PanicError{Value: 5}) != nil || errors.Unwrap(&TypeError{Err: ErrOutside}) != ErrOutside ||
		errors.Unwrap(&SpecError{Err: ErrOutside}) != ErrOutside {
		t.Error("causes")
	}
}
