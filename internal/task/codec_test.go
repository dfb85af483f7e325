package task

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/wire/msgpack"
)

// readAs decodes an encoded value as a T, by its codec and by reflection.
func readAs[T any](args []byte) (byCodec, byPlan T, errs [2]error) {
	call := Call{Func: incF, args: args}
	r := call.reader(nil)
	byCodec, errs[0] = codecFor[T]().read(&r)
	r = call.reader(nil)
	errs[1] = planOf(reflect.TypeFor[T]()).read(&r, reflect.ValueOf(&byPlan).Elem())
	return byCodec, byPlan, errs
}

// fitsInto checks that a number is decoded to a T if T can represent it, and rejected otherwise.
func fitsInto[T signed | unsigned](t *testing.T, args []byte, n string, fits bool) {
	t.Helper()
	a, b, errs := readAs[T](args)
	for i, got := range []T{a, b} {
		if (errs[i] == nil) != fits || fits && fmt.Sprint(got) != n {
			t.Errorf("%s as %T: got %v, %v, want it to fit: %v", n, got, got, errs[i], fits)
		}
	}
}

// The extreme numbers of every type, decoded as every other: none wraps around.
func TestNumbersDoNotWrap(t *testing.T) {
	for _, n := range []int64{0, 1, -1, math.MaxInt8, math.MaxInt8 + 1, math.MinInt8, math.MinInt8 - 1, math.MaxUint8,
		math.MaxUint8 + 1, math.MaxInt16, math.MaxInt16 + 1, math.MinInt16, math.MinInt16 - 1, math.MaxUint16,
		math.MaxUint16 + 1, math.MaxInt32, math.MaxInt32 + 1, math.MinInt32, math.MinInt32 - 1, math.MaxUint32,
		math.MaxUint32 + 1, math.MaxInt64, math.MinInt64} {
		args, text := msgpack.AppendInt(nil, n), fmt.Sprint(n)
		fitsInto[int8](t, args, text, n == int64(int8(n)))
		fitsInto[int16](t, args, text, n == int64(int16(n)))
		fitsInto[int32](t, args, text, n == int64(int32(n)))
		fitsInto[int64](t, args, text, true)
		fitsInto[int](t, args, text, true)
		fitsInto[uint8](t, args, text, n >= 0 && n <= math.MaxUint8)
		fitsInto[uint16](t, args, text, n >= 0 && n <= math.MaxUint16)
		fitsInto[uint32](t, args, text, n >= 0 && n <= math.MaxUint32)
		fitsInto[uint64](t, args, text, n >= 0)
		fitsInto[uint](t, args, text, n >= 0)
	}
	args := msgpack.AppendUint(nil, math.MaxUint64)
	fitsInto[uint64](t, args, fmt.Sprint(uint64(math.MaxUint64)), true)
	fitsInto[int64](t, args, "", false)
	fitsInto[uint32](t, args, "", false)
	type small int8
	if _, _, errs := readAs[small](msgpack.AppendInt(nil, 128)); errs[0] == nil || errs[1] == nil ||
		!strings.Contains(errs[1].Error(), "128 does not fit into task.small") {
		t.Errorf("a type of its own: got %v, want errors", errs)
	}
}

// cut checks that every prefix of an encoded value, and one with another first byte, is an error.
func cut[T any](t *testing.T, v T) {
	t.Helper()
	var b Builder
	if err := codecFor[T]().append(&b, v); err != nil {
		t.Fatal(err)
	}
	call := Call{Func: incF}
	for end := range b.args {
		call.args = b.args[:end]
		r := call.reader(nil)
		if got, err := codecFor[T]().read(&r); err == nil {
			t.Errorf("%T: %d of %d bytes are %v, want an error", v, end, len(b.args), got)
		}
	}
	call.args = append([]byte{0xc1}, b.args[1:]...) // a byte that msgpack never uses
	r := call.reader(nil)
	if got, err := codecFor[T]().read(&r); err == nil {
		t.Errorf("%T: malformed msgpack: got %v, want an error", v, got)
	}
}

func TestCutArguments(t *testing.T) {
	cut(t, true)
	cut(t, 300)
	cut(t, uint16(300))
	cut(t, 2.5)
	cut(t, float32(2.5))
	cut(t, "text")
	cut(t, []byte("bytes"))
	cut(t, []int{1, 2})
	cut(t, []float32{1, 2})
	cut(t, complex(1, 2))
	cut(t, &point{1, 2})
	cut(t, []string{"a", "b"})
	cut(t, [2]string{"a", "b"})
	cut(t, map[string]point{"a": {1, 2}})
	cut(t, []wide{{}})
	cut(t, struct {
		A int
		B string
	}{1, "x"})
	cut[any](t, []any{1, "x"})
	cut(t, time.Minute)
	cut(t, celsius(3))
}

// Slices of numbers are encoded as their memory.
func TestPackedNumbers(t *testing.T) {
	packed(t, []int{math.MinInt64, 0, 7}, 8)
	packed(t, []int64{1, -1}, 8)
	packed(t, []int32{math.MinInt32, math.MaxInt32}, 4)
	packed(t, []float64{0.1, math.Inf(1)}, 8)
	packed(t, []float32{0.1, -2}, 4)
}

func packed[T number](t *testing.T, v []T, size int) {
	t.Helper()
	for _, in := range [][]T{v, v[:1], {}, nil} {
		same(t, in)
	}
	var b Builder
	if err := codecFor[[]T]().append(&b, v); err != nil || len(b.args) != 2+size*len(v) {
		t.Errorf("%T: got %d bytes, %v, want %d and a header of two", v, len(b.args), err, size*len(v))
	}
	for extra := 1; extra < size; extra++ {
		args := msgpack.AppendBytes(nil, make([]byte, size+extra))
		call := Call{Func: incF, args: args}
		r := call.reader(nil)
		if got, err := codecFor[[]T]().read(&r); err == nil {
			t.Errorf("%d bytes are %v, want an error", size+extra, got)
		}
	}
}

// Arguments are copies: a function may change them.
func TestArgumentsAreCopies(t *testing.T) {
	var b Builder
	if err := codecFor[[]byte]().append(&b, []byte("abc")); err != nil {
		t.Fatal(err)
	}
	if err := codecFor[[]int32]().append(&b, []int32{1, 2}); err != nil {
		t.Fatal(err)
	}
	if err := codecFor[string]().append(&b, "text"); err != nil {
		t.Fatal(err)
	}
	call := Call{Func: incF, args: b.args}
	r := call.reader(nil)
	raw, err1 := codecFor[[]byte]().read(&r)
	numbers, err2 := codecFor[[]int32]().read(&r)
	text, err3 := codecFor[string]().read(&r)
	clear(b.args)
	if string(raw) != "abc" || fmt.Sprint(numbers) != "[1 2]" || text != "text" || err1 != nil || err2 != nil ||
		err3 != nil {
		t.Errorf("got %q, %v, %q after the message was reused, want abc, [1 2], text", raw, numbers, text)
	}
	if cap(raw) != 3 {
		t.Errorf("capacity of the bytes: got %d, want 3: append would overwrite memory", cap(raw))
	}
}
