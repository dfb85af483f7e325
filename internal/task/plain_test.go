package task

import (
	"math"
	"math/big"
	"reflect"
	"testing"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

func TestPlainValues(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
	n := 5
	for _, c := range []struct {
		v, want any
	}{
		{nil, nil}, {true, true}, {int8(-3), int64(-3)}, {uint16(3), uint64(3)}, {2.5, 2.5}, {float32(0.5), 0.5},
		{"x", "x"}, {"\xff", []byte("\xff")}, {[]byte("b"), []byte("b")}, {[]byte(nil), nil}, {celsius(1.5), 1.5},
		{at, "2026-01-02T03:04:05.000000006Z"}, {at.Truncate(time.Second), "2026-01-02T03:04:05Z"},
		{time.Second, int64(time.Second)}, {time.Nanosecond, int64(1)},
		{big.NewInt(-7), int64(-7)}, {new(big.Int).SetUint64(math.MaxUint64), uint64(math.MaxUint64)},
		{[]int{1, 2}, []any{int64(1), int64(2)}}, {[]uint32{7}, []any{uint64(7)}}, {[]float32{0.5}, []any{0.5}},
		{[]bool{true, false}, []any{true, false}}, {[]int{}, []any{}}, {[]string{"a", ""}, []any{"a", ""}},
		{[]string(nil), nil}, {[2]int{1, 2}, []any{int64(1), int64(2)}}, {wire.Tuple{"a", int64(1)}, []any{"a",
			int64(1)}},
		{map[string]int{"b": 2, "a": 1}, wire.NewDict("a", int64(1), "b", int64(2))},
		{map[point]bool{{1, 2}: true}, wire.Dict{{Key: []any{int64(1), int64(2)}, Value: true}}},
		{point{1, 2}, wire.NewDict("X", int64(1), "Y", int64(2))}, {&point{1, 2}, wire.NewDict("X", int64(1), "Y",
			int64(2))},
		{(*point)(nil), nil}, {&n, int64(5)}, {[]any{1, nil, []any{"x"}}, []any{int64(1), nil, []any{"x"}}},
		{RefOf(7), int64(7)}, {struct{}{}, wire.Dict{}},
	} {
		got, err := Plain(c.v)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%T %v: got %#v, %v, want %#v", c.v, c.v, got, err, c.want)
			continue
		}
		if _, err := msgpack.Append(nil, got); err != nil {
			t.Errorf("%T %v is not plain: %v", c.v, c.v, err)
		}
	}
}

func TestNotPlain(t *testing.T) {
	var m fakeMemory
	array := m.array(t, 1)
	defer array.Release()
	for _, v := range []any{
		complex(1, 2), []complex64{1}, new(big.Int).Lsh(big.NewInt(1), 70), make(chan int), func() {},
		[]any{make(chan int)},
		map[string]any{"x": complex(1, 2)}, map[complex128]int{1: 1}, array, []any{array}, wire.Date{},
		struct{ c int }{},
		[]any{[]any{complex(1, 2)}},
	} {
		if got, err := Plain(v); err == nil {
			t.Errorf("%T: got %#v, want an error", v, got)
		}
	}
}

// bothWays checks that a value is unchanged after encoding and decoding in a body.
func bothWays[T any](t *testing.T, v T) {
	t.Helper()
	p, err := Plain(v)
	if err != nil {
		t.Errorf("%T: %v", v, err)
		return
	}
	b, err := msgpack.Append(nil, p)
	if err != nil {
		t.Errorf("%T: %v", v, err)
		return
	}
	got, err := ReadBody[T](b)
	if err != nil || !reflect.DeepEqual(got, v) {
		t.Errorf("%T: got %#v, %v, want %#v", v, got, err, v)
	}
}

func TestBodiesBothWays(t *testing.T) {
	bothWays(t, 7)
	bothWays(t, int8(-7))
	bothWays(t, uint64(math.MaxUint64))
	bothWays(t, 2.5)
	bothWays(t, float32(2.5))
	bothWays(t, true)
	bothWays(t, "text")
	bothWays(t, "\xff")
	bothWays(t, []byte("x"))
	bothWays(t, 3*time.Hour)
	bothWays(t, []int{1, 2})
	bothWays(t, []float64{})
	bothWays(t, []string(nil))
	bothWays(t, map[string][]int{"a": {1}})
	bothWays(t, map[point]string{{1, 2}: "x"})
	bothWays(t, []point{{1, 2}})
	bothWays(t, (*point)(nil))
	bothWays(t, [2]bool{true, false})
	bothWays(t, struct {
		A *int
		B any
	}{nil, "x"})
}

// The bodies of common types are decoded without a tree, with the same results.
func TestReadBodyMismatch(t *testing.T) {
	for _, v := range []any{nil, true, 7, -7, 2.5, "x"} {
		raw, ok := AppendBody(nil, v)
		if !ok {
			t.Fatalf("%v has no place in a body", v)
		}
		_, isInt := v.(int)
		_, isFloat := v.(float64)
		_, isText := v.(string)
		_, isBool := v.(bool)
		for what, c := range map[string]struct {
			err  error
			want bool
		}{
			"int": {readError[int](raw), isInt}, "float64": {readError[float64](raw), isFloat || isInt},
			"string": {readError[string](raw), isText}, "bool": {readError[bool](raw), isBool},
			"uint8": {readError[uint8](raw), isInt && v.(int) >= 0}, "*int": {readError[*int](raw), v == nil || isInt},
			"any": {readError[any](raw), true}, "[]int": {readError[[]int](raw), v == nil},
		} {
			if (c.err == nil) != c.want {
				t.Errorf("%v as %s: got %v, want it to be one: %v", v, what, c.err, c.want)
			}
		}
	}
	for _, raw := range []string{"", "\xc1", "\xd9", "\x91"} {
		if readError[int]([]byte(raw)) == nil || readError[string]([]byte(raw)) == nil {
			t.Errorf("%q is a value, want an error", raw)
		}
	}
}

func readError[T any](raw []byte) error {
	_, err := ReadBody[T](raw)
	return err
}
