package task

import (
	"bytes"
	"errors"
	"math"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// sent returns a value after it was encoded to frames and to a message.
func sent[T any](t *testing.T, v T) T {
	t.Helper()
	s, err := EncodeValue(v)
	if err != nil {
		t.Fatalf("%T: %v", v, err)
	}
	m, err := wire.Encode(wire.NewDict("data", s), wire.EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	x, err := wire.Decode(m, wire.DecodeOptions{Keep: true})
	if err != nil {
		t.Fatal(err)
	}
	y, _ := x.(wire.Dict).Get("data")
	var out T
	if err := DecodeInto(y.(*wire.Serialized), &out); err != nil {
		t.Fatalf("%T: %v", v, err)
	}
	return out
}

func sameSent[T any](t *testing.T, v T) {
	t.Helper()
	if got := sent(t, v); !reflect.DeepEqual(got, v) {
		t.Errorf("%T as a result: %+v, want %+v", v, got, v)
	}
}

func TestResults(t *testing.T) {
	sameSent(t, 0)
	sameSent(t, -1)
	sameSent(t, 255)
	sameSent(t, 65536)
	sameSent(t, math.MaxInt64)
	sameSent(t, math.MinInt64)
	sameSent(t, int8(-5))
	sameSent(t, uint64(math.MaxUint64))
	sameSent(t, 2.5)
	sameSent(t, float32(2.5))
	sameSent(t, true)
	sameSent(t, "text é")
	sameSent(t, strings.Repeat("long ", 1000))
	sameSent(t, "not \xff text")
	sameSent(t, []byte("bytes"))
	sameSent(t, []byte{})
	sameSent(t, []float64{1, 2})
	sameSent(t, []float32{1})
	sameSent(t, []int{1, -2})
	sameSent(t, []uint{3})
	sameSent(t, []int64{})
	sameSent(t, []bool{true, false})
	sameSent(t, []string{"a", "b"})
	sameSent(t, []string(nil))
	sameSent(t, []any{int64(1), "x", nil, 2.5})
	sameSent(t, map[string]float64{"a": 1})
	sameSent(t, map[int]string{2: "b", 1: "a"})
	sameSent(t, point{1, 2})
	sameSent(t, &point{1, 2})
	sameSent(t, (*point)(nil))
	sameSent(t, []point{{1, 2}, {3, 4}})
	sameSent(t, celsius(3.5))
	sameSent(t, []celsius{1, 2})
	sameSent(t, time.Duration(1234567891))
	sameSent(t, 3*time.Second)
	sameSent(t, wire.Tuple{int64(1), "x"})
	sameSent(t, big.NewInt(5))
	sameSent(t, struct {
		A []float64
		B map[string][]int
		C *int
	}{A: []float64{1.5}, B: map[string][]int{"x": {1}}})
	at := time.Date(2026, 5, 6, 7, 8, 9, 123456789, time.UTC)
	for _, when := range []time.Time{at, at.Truncate(time.Microsecond)} {
		if got := sent(t, when); !got.Equal(when) {
			t.Errorf("%v became %v", when, got)
		}
		if got := sent(t, struct{ T time.Time }{when}); !got.T.Equal(when) {
			t.Errorf("%v in a struct became %v", when, got.T)
		}
	}
	tr := sampleTree()
	tr.Any = "plain" // a Python dict does not keep the types of its values
	tr.Name = "root"
	got := sent(t, tr)
	if !got.When.Equal(tr.When) {
		t.Errorf("time %v", got.When)
	}
	got.When = tr.When
	if !reflect.DeepEqual(got, tr) {
		t.Errorf("got %+v, want %+v", got, tr)
	}
}

func TestResultsAsAny(t *testing.T) {
	noteType(reflect.TypeFor[[]point]())
	if got := sent[any](t, []point{{1, 2}}); !reflect.DeepEqual(got, []point{{1, 2}}) {
		t.Errorf("registered type: got %#v, want it", got)
	}
	if got := sent[any](t, 5); got != int64(5) {
		t.Errorf("number: got %#v, want int64(5)", got)
	}
	if got := sent[any](t, nil); got != nil {
		t.Errorf("nil: got %#v", got)
	}
}

func TestBody(t *testing.T) {
	for _, v := range []any{nil, true, 1, int8(2), int16(3), int32(4), int64(5), uint(6), uint8(7), uint16(8),
		uint32(9), uint64(10), 1.5, float32(2.5), "text"} {
		b, ok := AppendBody(nil, v)
		if !ok {
			t.Errorf("%T has no place in a body", v)
		}
		if _, err := msgpack.Decode(b); err != nil {
			t.Errorf("%T: %v", v, err)
		}
	}
	for _, v := range []any{[]byte("x"), point{}, celsius(1), strings.Repeat("x", maxBody+1), "\xff", []int{1}} {
		if _, ok := AppendBody(nil, v); ok {
			t.Errorf("%T is in the body", v)
		}
	}
	body := func(v any) []byte { b, _ := AppendBody(nil, v); return b }
	if v, err := ReadBody[int](body(7)); v != 7 || err != nil {
		t.Error(v, err)
	}
	if v, err := ReadBody[uint8](body(7)); v != 7 || err != nil {
		t.Error(v, err)
	}
	if _, err := ReadBody[uint8](body(700)); err == nil {
		t.Error("700 as a uint8: got nil, want an error")
	}
	if v, err := ReadBody[float64](body(2.5)); v != 2.5 || err != nil {
		t.Error(v, err)
	}
	if v, err := ReadBody[float64](body(2)); v != 2 || err != nil {
		t.Error(v, err)
	}
	if v, err := ReadBody[string](body("x")); v != "x" || err != nil {
		t.Error(v, err)
	}
	if v, err := ReadBody[bool](body(true)); !v || err != nil {
		t.Error(v, err)
	}
	if v, err := ReadBody[*int](body(nil)); v != nil || err != nil {
		t.Error(v, err)
	}
	var te *TypeError
	if _, err := ReadBody[int](body("x")); !errors.As(err, &te) {
		t.Error(err)
	}
	if _, err := ReadBody[int]([]byte{0xc1}); err == nil {
		t.Error("malformed msgpack as an int: got nil, want an error")
	}
}

func TestValue(t *testing.T) {
	v := NewValue([]float64{1, 2})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			s, err := v.Encoded()
			if err != nil || s.Size() == 0 {
				t.Error(err)
			}
			if x, err := As[[]float64](v); err != nil || len(x) != 2 {
				t.Error(err)
			}
			_ = v.Size()
		})
	}
	wg.Wait()
	s, _ := v.Encoded()
	far := NewEncoded(s.Retain())
	if _, live := far.Live(); live || far.Type() != "" {
		t.Error("Live of a value in frames: got true, want false")
	}
	a, err := As[[]float64](far)
	if err != nil || a[1] != 2 {
		t.Fatal(a, err)
	}
	b, _ := As[[]float64](far)
	if &a[0] != &b[0] {
		t.Error("value was decoded twice")
	}
	if far.Type() == "" {
		t.Error("Live after decoding: got false, want true")
	}
	far.DropEncoded()
	if _, err := far.Encoded(); err != nil {
		t.Error(err)
	}
	if _, err := As[map[string]int](far); err == nil {
		t.Error("slice as a map: got nil, want an error")
	}
	far.Release()
	if _, err := NewValue(make(chan int)).Encoded(); err == nil {
		t.Error("Encoded of a channel: got nil, want an error")
	}
	if x, ok := NewValue(5).AppendBody(nil); !ok || !bytes.Equal(x, []byte{5}) {
		t.Error(x, ok)
	}
}

// Long bytes that were received on the Go heap are not copied for a task, which must not change them. Short ones would
// keep their frame alive, memory of pools must be returned, and a client returns copies to its user unless the frames
// have no other user.
func TestLongBytesAreShared(t *testing.T) {
	for name, tc := range map[string]struct {
		n      int
		pool   bool
		shared bool
	}{
		"long": {n: shareFrom, shared: true}, "short": {n: shareFrom - 1}, "of a pool": {n: shareFrom, pool: true},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := EncodeValue(bytes.Repeat([]byte{7}, tc.n))
			if err != nil {
				t.Fatal(err)
			}
			if tc.pool {
				for i, f := range s.Frames {
					s.Frames[i] = wire.BufferFrame(mem.FromBytes(bytes.Clone(f.Bytes())))
				}
			}
			inFrames := func(b []byte) bool {
				return slices.ContainsFunc(s.Frames, func(f wire.Frame) bool {
					at := uintptr(unsafe.Pointer(&f.Bytes()[0]))
					return uintptr(unsafe.Pointer(&b[0]))-at < uintptr(f.Len())
				})
			}
			a, err := As[[]byte](NewEncoded(s))
			if err != nil || len(a) != tc.n || inFrames(a) != tc.shared {
				t.Errorf("%d bytes, shared %v, %v", len(a), inFrames(a), err)
			}
			var b []byte
			if err := NewEncoded(s).into(reflect.ValueOf(&b).Elem()); err != nil || len(b) != tc.n ||
				inFrames(b) != tc.shared {
				t.Errorf("%d bytes, shared %v, %v", len(b), inFrames(b), err)
			}
			var c []byte
			if err := DecodeInto(s, &c); err != nil || !bytes.Equal(c, a) || inFrames(c) {
				t.Errorf("a user's %d bytes, shared %v, %v", len(c), inFrames(c), err)
			}
			var d []byte
			if err := DecodeOwned(s, &d); err != nil || !bytes.Equal(d, a) || inFrames(d) != tc.shared {
				t.Errorf("%d bytes of own frames: shared %v, %v, want shared %v", len(d), inFrames(d), err, tc.shared)
			}
		})
	}
}

func TestUnserializableResults(t *testing.T) {
	for _, v := range []any{make(chan int), func() {}, struct{ F func() }{func() {}}, []any{make(chan int)},
		struct{ hidden int }{1}} {
		_, err := EncodeValue(v)
		var e *EncodeError
		if !errors.As(err, &e) {
			t.Errorf("%T: %v", v, err)
		}
	}
	type loop struct{ Next *loop }
	l := &loop{}
	l.Next = l
	if _, err := EncodeValue(l); err == nil {
		t.Error("value that contains itself: got nil, want an error")
	}
}

func TestSizes(t *testing.T) {
	if n := SizeOf(make([]byte, 1000)); n < 1000 || n > 1100 {
		t.Errorf("size of 1000 bytes: got %d, want 1000 to 1100", n)
	}
	big := make([]string, 1000)
	for i := range big {
		big[i] = strings.Repeat("x", 100)
	}
	if n := SizeOf(big); n < 100_000 || n > 130_000 {
		t.Errorf("size of 1000 strings of 100 bytes: got %d, want 100000 to 130000", n)
	}
	type loop struct{ Next *loop }
	l := &loop{}
	l.Next = l
	if n := SizeOf(l); n <= 0 {
		t.Errorf("size of a cycle: got %d, want more than 0", n)
	}
	if n := SizeOf(map[string][]byte{"a": make([]byte, 5000)}); n < 5000 {
		t.Errorf("size of a map with 5000 bytes: got %d, want at least 5000", n)
	}
}

func TestPlain(t *testing.T) {
	type inner struct {
		At  time.Time
		For time.Duration
		Xs  []float64
		M   map[string]int
	}
	want := inner{time.Date(2026, 1, 1, 0, 0, 0, 5, time.UTC), 77, []float64{1.5, 2}, map[string]int{"a": 1}}
	p, err := Plain(want)
	if err != nil {
		t.Fatal(err)
	}
	b, err := msgpack.Append(nil, p)
	if err != nil {
		t.Fatalf("Plain: got %v, want nil", err)
	}
	x, err := msgpack.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	got, err := FromPlain[inner](x)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v: %v", got, want, err)
	}
	if _, err := Plain(complex(1, 2)); err == nil {
		t.Error("Plain of a complex number: got nil, want an error")
	}
	if v, err := FromPlain[int](int64(5)); v != 5 || err != nil {
		t.Error(v, err)
	}
	if _, err := FromPlain[point](wire.NewDict("X", int64(1), "Z", int64(2))); err == nil {
		t.Error("unknown field: got nil, want an error")
	}
}

func TestBroadcastIsBounded(t *testing.T) {
	a := &wire.NDArray{DType: wire.Float64, Shape: []int{1 << 40}, Strides: []int{0}, Data: make([]byte, 8)}
	s, err := EncodeValue(a)
	if err != nil {
		t.Fatal(err)
	}
	var out []float64
	if err := DecodeInto(s, &out); err == nil {
		t.Errorf("8 bytes became %d elements", len(out))
	}
	a.Shape[0] = 100
	if s, err = EncodeValue(a); err != nil {
		t.Fatal(err)
	}
	if err := DecodeInto(s, &out); err != nil || len(out) != 100 {
		t.Errorf("%d elements, %v", len(out), err)
	}
}

func FuzzDecodeInto(f *testing.F) {
	for _, v := range []any{1, "x", []float64{1}, point{1, 2}, sampleTree(), map[string]int{"a": 1}} {
		s, err := EncodeValue(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(s.Header, s.Frames[0].Bytes())
	}
	f.Fuzz(func(t *testing.T, header, frame []byte) {
		s := &wire.Serialized{Header: header, Frames: []wire.Frame{wire.HeapFrame(frame)}}
		var a int
		_ = DecodeInto(s, &a)
		var b string
		_ = DecodeInto(s, &b)
		var c tree
		_ = DecodeInto(s, &c)
		var d any
		_ = DecodeInto(s, &d)
		var e []float64
		_ = DecodeInto(s, &e)
		_, _ = ReadBody[tree](frame)
	})
}
