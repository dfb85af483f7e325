package task

import (
	"bytes"
	"context"
	"reflect"
	"slices"
	"testing"

	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// fakeMemory is counted device memory. Its addresses are never accessed.
type fakeMemory struct {
	out  int
	next uintptr
}

func (m *fakeMemory) alloc(n int) *mem.Buffer {
	m.out++
	m.next += 1 << 30
	return mem.NewRegion(mem.RegionConfig{Addr: 1<<40 + m.next, Len: n, Kind: mem.Device, Free: func() {
		m.out--
	}}).Buffer()
}

func (m *fakeMemory) array(t testing.TB, n int) *wire.DeviceArray {
	t.Helper()
	a, err := wire.NewDeviceArray[float32](m.alloc(4 * n))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func (m *fakeMemory) gone(t *testing.T, about string) {
	t.Helper()
	if m.out != 0 {
		t.Errorf("%s: %d buffers are still out", about, m.out)
		m.out = 0
	}
}

type pair struct {
	Name   string
	Left   *wire.DeviceArray
	Others []*wire.DeviceArray
	Raw    *mem.Buffer
}

// A Value releases the device memory of a result of any shape, with or without its frames, decoded by the receiver or
// not.
func TestValueOwnsDeviceMemory(t *testing.T) {
	var m fakeMemory
	for _, tc := range []struct {
		about string
		make  func() any
	}{
		{"an array", func() any { return m.array(t, 10) }},
		{"a buffer", func() any { return m.alloc(77) }},
		{"a list", func() any { return []any{m.array(t, 1), "x", []any{m.array(t, 2)}} }},
		{"a slice", func() any { return []*wire.DeviceArray{m.array(t, 1), m.array(t, 2)} }},
		{"a map", func() any { return map[string]*wire.DeviceArray{"a": m.array(t, 1), "b": nil} }},
		{"a dict", func() any { return wire.NewDict("a", m.array(t, 3), "n", 1) }},
		{"a struct", func() any {
			return pair{"x", m.array(t, 1), []*wire.DeviceArray{m.array(t, 4)}, m.alloc(3)}
		}},
		{"dicts in a struct", func() any {
			return struct{ Batches []wire.Dict }{[]wire.Dict{wire.NewDict("a", m.array(t, 3)),
				wire.NewDict("b", m.array(t, 2))}}
		}},
		{"a tuple in a struct", func() any { return struct{ T wire.Tuple }{wire.Tuple{m.array(t, 3), "x"}} }},
		{"nothing", func() any { return (*wire.DeviceArray)(nil) }},
	} {
		v := NewValue(tc.make())
		v.Release()
		v.Release() // also the references of the frames, once
		m.gone(t, tc.about+" that was never sent")

		v = NewValue(tc.make())
		size := v.Size()
		s, err := v.Retained()
		if err != nil {
			t.Errorf("%s: %v", tc.about, err)
			continue
		}
		v.DropEncoded()
		live, _ := v.Live()
		var bytes int64
		for _, f := range s.Frames {
			if f.OnDevice() {
				bytes += int64(f.Len())
			}
		}
		if size < bytes {
			t.Errorf("%s: a size of %d with %d bytes on the device", tc.about, size, bytes)
		}
		there := NewEncoded(s)
		dst := reflect.New(reflect.TypeOf(live)).Elem()
		if err := there.into(dst); err != nil {
			t.Errorf("%s came back as %v", tc.about, err)
		}
		there.Release()
		if v.Release(); m.out != 0 {
			t.Errorf("%s: %d buffers are still out after both sides", tc.about, m.out)
		}
	}
}

// An array is sent as itself, as its buffer and within a struct, in the same memory.
func TestDeviceArrayCrosses(t *testing.T) {
	var m fakeMemory
	a := m.array(t, 6)
	in := pair{"x", a, []*wire.DeviceArray{m.array(t, 2)}, nil}
	s, err := EncodeValue(in)
	if err != nil {
		t.Fatal(err)
	}
	v := NewEncoded(s)
	out, err := As[pair](v)
	if err != nil {
		t.Fatal(err)
	}
	if out.Name != "x" || out.Raw != nil || len(out.Others) != 1 || out.Left.Buffer().Addr() != a.Buffer().Addr() ||
		!slices.Equal(out.Left.Shape, []int{6}) {
		t.Errorf("got %+v, want the arrays that were sent", out)
	}
	v.Release()
	Release(in)
	m.gone(t, "a struct")

	v = NewValue(m.array(t, 5))
	b, err := As[*mem.Buffer](v)
	if err != nil || b.Len() != 20 {
		t.Fatalf("%v, %v", b, err)
	}
	v.Release()
	m.gone(t, "a borrowed buffer")

	v = NewValue(m.alloc(9))
	back, err := As[*wire.DeviceArray](v)
	if err != nil || back.Class != wire.RMMBuffer || !slices.Equal(back.Shape, []int{9}) {
		t.Fatalf("%v, %v", back, err)
	}
	v.Release()
	m.gone(t, "a borrowed array")
}

// On a machine without a GPU the memory is received on the heap, and is still a buffer or an array.
func TestDeviceArrayOnTheHeap(t *testing.T) {
	data := []byte{1, 0, 0, 0, 2, 0, 0, 0}
	a := &wire.DeviceArray{DType: wire.Int32, Shape: []int{2}, Frame: wire.HeapFrame(data).WithCUDA()}
	s, err := EncodeValue(a)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range s.Frames {
		if f.OnDevice() {
			t.Error("heap memory on a device")
		}
	}
	v := NewEncoded(s)
	b, err := As[*mem.Buffer](v)
	if err != nil || !bytes.Equal(b.Bytes(), data) {
		t.Errorf("%v, %v", b, err)
	}
	again, err := As[*wire.DeviceArray](NewValue(a))
	if err != nil || !bytes.Equal(again.Frame.Bytes(), data) || !again.Frame.CUDA() {
		t.Errorf("%v, %v", again, err)
	}
}

// A function may return its argument, or a retained one with another shape.
func TestHandover(t *testing.T) {
	var m fakeMemory
	for _, tc := range []struct {
		about string
		f     func(*wire.DeviceArray) any
	}{
		{"the same", func(a *wire.DeviceArray) any { return a }},
		{"in a list", func(a *wire.DeviceArray) any { return []any{a, 1} }},
		{"twice", func(a *wire.DeviceArray) any { return []*wire.DeviceArray{a, a} }},
		{"reshaped", func(a *wire.DeviceArray) any {
			b := a.Retain()
			b.Shape = []int{2, 3}
			return b
		}},
		{"another", func(a *wire.DeviceArray) any { return m.array(t, 1) }},
		{"none", func(a *wire.DeviceArray) any { return 7 }},
	} {
		arg := NewValue(m.array(t, 6))
		a, err := As[*wire.DeviceArray](arg)
		if err != nil {
			t.Fatal(err)
		}
		result := tc.f(a)
		Handover(result, []*Value{arg, NewValue("other")})
		v := NewValue(result)
		arg.Release()
		eachCounted(result, func(x any) {
			if x.(*wire.DeviceArray).Buffer().Len() == 0 { // panics if the memory was released
				t.Error("empty")
			}
		})
		v.Release()
		m.gone(t, tc.about)
	}
}

var sumBytes = Register2("task.test.device", func(_ context.Context, a *wire.DeviceArray, b *mem.Buffer) (int, error) {
	return a.Buffer().Len() + b.Len(), nil
})

// A shared value outlives the first one, in both of its forms.
func TestShare(t *testing.T) {
	var m fakeMemory
	for _, encoded := range []bool{false, true} {
		v := NewValue([]any{m.array(t, 2), 1})
		if encoded {
			s, err := v.Retained()
			if err != nil {
				t.Fatal(err)
			}
			v.Release()
			v = NewEncoded(s)
		}
		w, err := v.Share()
		if err != nil {
			t.Fatal(err)
		}
		v.Release()
		list, err := As[[]any](w)
		if err != nil || list[0].(*wire.DeviceArray).Buffer().Len() != 8 {
			t.Errorf("%v, %v", list, err)
		}
		w.Release()
		m.gone(t, "a shared value")
	}
}

// Functions with device data are registered and called like others.
func TestDeviceFunction(t *testing.T) {
	var m fakeMemory
	x, y := NewValue(m.array(t, 2)), NewValue(m.array(t, 3))
	got, err := sumBytes.Invoke(t.Context(), []*Value{x, y})
	if err != nil || got != 20 {
		t.Errorf("%v, %v", got, err)
	}
	x.Release()
	y.Release()
	m.gone(t, "arguments")
}

func TestMayCount(t *testing.T) {
	type plain struct{ A, B int }
	type self struct{ Next *self }
	type hidden struct{ next *wire.DeviceArray }
	_ = hidden{}.next
	for _, tc := range []struct {
		v    any
		want bool
	}{
		{plain{}, false}, {[]plain{}, false}, {self{}, false}, {hidden{}, false}, {map[string]int{}, false},
		{[][]byte{}, false},
		{pair{}, true}, {[]any{}, true}, {map[string]any{}, true}, {[1]*wire.DeviceArray{}, true}, {wire.Tuple{}, true},
		{&wire.Object{}, true},
	} {
		if got := mayCount(reflect.TypeOf(tc.v)); got != tc.want {
			t.Errorf("%T: %t", tc.v, got)
		}
	}
}
