package task

import (
	"bytes"
	"reflect"
	"slices"
	"testing"
	"unsafe"

	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// numbers returns n numbers.
func numbers[E float64 | float32 | int64 | int32 | int](n int) []E {
	v := make([]E, n)
	for i := range v {
		v[i] = E(i - 5)
	}
	return v
}

// encodedFrames returns the frames of a value in memory of their own, of a pool if pool is set.
func encodedFrames(t *testing.T, v any, pool bool) *wire.Serialized {
	t.Helper()
	s, err := EncodeValue(v)
	if err != nil {
		t.Fatal(err)
	}
	out := &wire.Serialized{Header: s.Header}
	for _, f := range s.Frames {
		b := wire.HeapFrame(bytes.Clone(f.Bytes()))
		if pool {
			b = wire.BufferFrame(mem.FromBytes(b.Bytes()))
		}
		out.Frames = append(out.Frames, b)
	}
	return out
}

// checkOwned decodes a slice, and checks its elements and whether it has the memory of the frames.
func checkOwned[E float64 | float32 | int64 | int32 | int](t *testing.T, n int, pool, shared bool) {
	t.Helper()
	want := numbers[E](n)
	s := encodedFrames(t, want, pool)
	var got []E
	if err := DecodeOwned(s, &got); err != nil || !slices.Equal(got, want) {
		t.Fatalf("%T: got %d elements, %v, want %d", want, len(got), err, len(want))
	}
	at := uintptr(unsafe.Pointer(&got[0]))
	in := slices.ContainsFunc(s.Frames, func(f wire.Frame) bool {
		return at-uintptr(unsafe.Pointer(&f.Bytes()[0])) < uintptr(f.Len())
	})
	if in != shared || cap(got) != len(got) && shared {
		t.Errorf("%T of %d, pool %v: got shared %v, capacity %d, want shared %v", want, n, pool, in, cap(got), shared)
	}
}

// Long slices of numbers keep the memory of their frames, others are copies.
func TestDecodeOwnedNumbers(t *testing.T) {
	for _, tc := range []struct {
		n            int
		pool, shared bool
	}{{n: shareFrom, shared: true}, {n: 100}, {n: shareFrom, pool: true}} {
		checkOwned[float64](t, tc.n, tc.pool, tc.shared)
		checkOwned[float32](t, tc.n, tc.pool, tc.shared)
		checkOwned[int64](t, tc.n, tc.pool, tc.shared)
		checkOwned[int32](t, tc.n, tc.pool, tc.shared)
		checkOwned[int](t, tc.n, tc.pool, tc.shared)
	}
}

// Values that are not such arrays are decoded as by DecodeInto, with the same errors.
func TestDecodeOwnedOthers(t *testing.T) {
	n := shareFrom
	square := wire.NewNDArray(numbers[float64](n), 2, n/2)
	for name, v := range map[string]any{"other type": numbers[float32](n), "square": square,
		"text": string(bytes.Repeat([]byte("x"), n)), "strings": slices.Repeat([]string{"abc"}, n)} {
		s := encodedFrames(t, v, false)
		var got, want []float64
		err, wantErr := DecodeOwned(s, &got), DecodeInto(s, &want)
		if (err == nil) != (wantErr == nil) || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %d elements, %v, want %d, %v", name, len(got), err, len(want), wantErr)
		}
	}
}
