package task

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	"go.millstream.dev/wire"
)

// Python receives slices of numbers as numpy arrays of the same type.
func TestSlicesAreArrays(t *testing.T) {
	for _, c := range []struct {
		v     any
		dtype wire.DType
	}{
		{[]float64{1, math.NaN()}, wire.Float64}, {[]float32{1}, wire.Float32}, {[]int64{-1}, wire.Int64},
		{[]int32{-1}, wire.Int32}, {[]int16{-1}, wire.Int16}, {[]int8{-1}, wire.Int8}, {[]uint64{1}, wire.Uint64},
		{[]uint32{1}, wire.Uint32}, {[]uint16{1}, wire.Uint16}, {[]bool{true}, wire.Bool},
		{[]complex128{1i}, wire.Complex128}, {[]complex64{1i}, wire.Complex64}, {[]int{-1, 2}, wire.Int64},
		{[]uint{1, 2}, wire.Uint64}, {[]int{}, wire.Int64}, {[]uint{}, wire.Uint64}, {[]float64{}, wire.Float64},
	} {
		x, err := encodedOf(t, c.v).Decode(wire.DecodeOptions{})
		a, ok := x.(*wire.NDArray)
		n := reflect.ValueOf(c.v).Len()
		if err != nil || !ok || a.DType != c.dtype || len(a.Shape) != 1 || a.Shape[0] != n {
			t.Errorf("%T: got %#v, %v, want %d elements of %s", c.v, x, err, n, c.dtype)
		}
	}
	for _, v := range []any{[]int(nil), []uint(nil), []float64(nil), []bool(nil), []string(nil), []byte(nil)} {
		if x, err := encodedOf(t, v).Decode(wire.DecodeOptions{}); x != nil || err != nil {
			t.Errorf("%T that is nil: got %#v, %v, want None", v, x, err)
		}
	}
}

// Frames of large slices are the memory of the value, without a copy.
func TestFramesBorrow(t *testing.T) {
	numbers, raw := make([]float64, 1000), make([]byte, 1000)
	for what, c := range map[string]struct {
		v  any
		at unsafe.Pointer
	}{
		"numbers":             {numbers, unsafe.Pointer(&numbers[0])},
		"bytes":               {raw, unsafe.Pointer(&raw[0])},
		"numbers in a struct": {struct{ A []float64 }{numbers}, unsafe.Pointer(&numbers[0])},
		"numbers in a map":    {map[string][]float64{"a": numbers}, unsafe.Pointer(&numbers[0])},
	} {
		found := false
		for _, f := range encodedOf(t, c.v).Frames {
			found = found || f.Len() > 0 && unsafe.Pointer(&f.Bytes()[0]) == c.at
		}
		if !found {
			t.Errorf("%s: no frame is the memory of the slice", what)
		}
	}
}

// A string is sent in the body of a message up to a maximum length.
func TestLongestBody(t *testing.T) {
	for n, want := range map[int]bool{0: true, maxBody - 1: true, maxBody: true, maxBody + 1: false} {
		dst, ok := AppendBody([]byte{1}, strings.Repeat("x", n))
		if ok != want || len(dst) == 1 == want || dst[0] != 1 {
			t.Errorf("%d bytes: got %v and %d bytes, want %v", n, ok, len(dst), want)
		}
		if dst, ok := NewValue(strings.Repeat("x", n)).AppendBody(nil); ok != want || (len(dst) > 0) != want {
			t.Errorf("a Value of %d bytes: got %v, want %v", n, ok, want)
		}
	}
	if dst, ok := NewEncoded(encodedOf(t, 5)).AppendBody([]byte{1}); ok || len(dst) != 1 {
		t.Errorf("AppendBody of a value in frames: got %v, %v, want false", dst, ok)
	}
}

// Long arrays on the Go heap are not copied, like bytes.
func TestLongArraysAreShared(t *testing.T) {
	for n, shared := range map[int]bool{shareFrom / 8: true, shareFrom/8 - 1: false} {
		s := encodedOf(t, make([]int64, n))
		a, err := As[*wire.NDArray](NewEncoded(s))
		if err != nil || a.Len() != n {
			t.Fatalf("%d elements: got %v, %v", n, a, err)
		}
		in := false
		for _, f := range s.Frames {
			in = in || f.Len() == len(a.Data) && &f.Bytes()[0] == &a.Data[0]
		}
		if in != shared {
			t.Errorf("%d elements: got shared %v, want %v", n, in, shared)
		}
	}
}

// The Go type in a header is used if it can be decoded and is registered.
func TestGoTypeOfHeaders(t *testing.T) {
	header := func(pairs ...any) []byte { return mustHeader(wire.NewDict(pairs...)) }
	RegisterType[point]()
	name := fullName(reflect.TypeFor[point]())
	for _, c := range []struct {
		header []byte
		want   reflect.Type
	}{
		{header("go-type", name), reflect.TypeFor[point]()}, {header("a", []any{1}, "go-type", "[]"+name),
			reflect.TypeFor[[]point]()},
		{header("go-type", "nowhere.T"), nil}, {header("a", 1), nil}, {header("go-type", 5), nil}, {header(), nil},
		{nil, nil},
		{[]byte{0xc1}, nil}, {header("go-type", name)[:4], nil}, {append([]byte{0x82}, header("a", 1)[1:]...), nil},
	} {
		if got, ok := goType(c.header); ok != (c.want != nil) || ok && got != c.want {
			t.Errorf("%q: got %v, %v, want %v", c.header, got, ok, c.want)
		}
	}
	s := encodedOf(t, wire.NewDict("X", 1, "Z", 2))
	s.Header = header("serializer", "pickle", "writeable", []any{}, "go-type", name, "num-sub-frames", 1)
	data := encodedOf(t, map[string]int{"X": 1, "Z": 2})
	s.Frames = data.Frames
	var out any
	wants(t, "another value than the header says", DecodeInto(s, &out), "has no field Z")
}

// Times keep their nanoseconds and zone offset, durations their nanoseconds.
func TestTimesAreExact(t *testing.T) {
	zone := time.FixedZone("", 90*60)
	for _, when := range []time.Time{time.Unix(0, 0).UTC(), time.Unix(1, 1).UTC(), time.Date(2026, 2, 3, 4, 5, 6, 7000,
		zone),
		time.Date(2026, 2, 3, 4, 5, 6, 7001, zone), time.Date(1, 1, 1, 0, 0, 0, 999, time.UTC), time.Now()} {
		_, want := when.Zone()
		got := sent(t, when)
		if _, offset := got.Zone(); !got.Equal(when) || offset != want {
			t.Errorf("%v: got %v", when, got)
		}
		if got := through(t, when); !got.Equal(when) {
			t.Errorf("%v as an argument: got %v", when, got)
		}
	}
	for _, d := range []time.Duration{0, 1, -1, 999, 1000, time.Hour, math.MaxInt64, math.MinInt64} {
		sameSent(t, d)
		sameSent(t, []time.Duration{d})
		same(t, d)
	}
	for ns, want := range map[int64]bool{0: true, 1: false, 999: false, 1000: true, -1000: true, -1: false} {
		if isExact(ns) != want {
			t.Errorf("%d ns: got %v, want %v", ns, isExact(ns), want)
		}
	}
}

// Arrays that are views of others keep their elements, separately and within other values.
func TestViewsInValues(t *testing.T) {
	data := wire.NewNDArray([]int32{0, 1, 2, 3, 4, 5}).Data
	type holder struct {
		Name  string
		Array *wire.NDArray
	}
	for what, a := range map[string]*wire.NDArray{
		"plain":    {DType: wire.Int32, Shape: []int{6}, Data: data},
		"fortran":  {DType: wire.Int32, Shape: []int{2, 3}, Strides: []int{4, 8}, Data: data},
		"offset":   {DType: wire.Int32, Shape: []int{2, 2}, Strides: []int{8, 4}, Offset: 8, Data: data},
		"middle":   {DType: wire.Int32, Shape: []int{2, 2}, Strides: []int{4, 8}, Offset: 4, Data: data},
		"column":   {DType: wire.Int32, Shape: []int{3}, Strides: []int{8}, Data: data},
		"backward": {DType: wire.Int32, Shape: []int{6}, Strides: []int{-4}, Offset: 20, Data: data},
		"repeated": {DType: wire.Int32, Shape: []int{4}, Strides: []int{0}, Offset: 4, Data: data},
		"empty":    {DType: wire.Int32, Shape: []int{0, 3}, Data: []byte{}},
	} {
		want, err := wire.Elements[int32](a)
		if err != nil {
			t.Fatal(err)
		}
		for as, got := range map[string]*wire.NDArray{
			"itself": sent(t, a), "in a map": sent(t, map[string]*wire.NDArray{"a": a})["a"],
			"in a slice": sent(t, []*wire.NDArray{nil, a})[1], "in a struct": sent(t, holder{"x", a}).Array,
			"as an argument": through(t, a), "in an argument": through(t, holder{"x", a}).Array,
		} {
			items, err := wire.Elements[int32](got)
			if err != nil || fmt.Sprint(items, got.Shape) != fmt.Sprint(want, a.Shape) {
				t.Errorf("%s %s: got %v %v, %v, want %v %v", what, as, items, got.Shape, err, want, a.Shape)
			}
		}
		if len(a.Shape) == 1 {
			list := make([]any, len(want))
			for i, v := range want {
				list[i] = int64(v)
			}
			if got, err := Plain(a); err != nil || !reflect.DeepEqual(got, list) {
				t.Errorf("%s in a body: got %v, %v, want %v", what, got, err, list)
			}
		}
	}
	_, err := EncodeValue([]any{&wire.NDArray{DType: wire.Int32, Shape: []int{9}, Data: data}})
	wants(t, "an array without its memory", err, "at [0] cannot be serialized")
}

// A serialized value is passed on unchanged.
func TestEncodeSerialized(t *testing.T) {
	s := encodedOf(t, 5)
	again := encodedOf(t, s)
	if got, err := again.Decode(wire.DecodeOptions{}); err != nil || got != int64(5) {
		t.Errorf("got %v, %v, want 5", got, err)
	}
	if !bytes.Equal(again.Header, pickleHeader) {
		t.Errorf("header %q, want that of a scalar", again.Header)
	}
	var m fakeMemory
	array := m.array(t, 3)
	first := encodedOf(t, array)
	second := encodedOf(t, first)
	first.Release()
	array.Release()
	if m.out != 1 {
		t.Errorf("%d buffers are out, want that of the second", m.out)
	}
	second.Release()
	m.gone(t, "frames of frames")
}
