package task

import (
	"strings"
	"testing"

	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

type sized int64

func (s sized) SizeOf() int64 { return int64(s) }

// Sizes are used by the accounts of the scheduler: they are exact for values with their own memory.
func TestSizeOf(t *testing.T) {
	var m fakeMemory
	array, buffer := m.array(t, 10), m.alloc(100)
	defer array.Release()
	defer buffer.Release()
	frame := wire.HeapFrame(make([]byte, 50))
	for _, c := range []struct {
		what string
		v    any
		want int64
	}{
		{"nil", nil, 16}, {"bool", true, 16}, {"int", 7, 16}, {"float32", float32(1), 16},
		{"text", strings.Repeat("x", 10), 26}, {"bytes", make([]byte, 3, 10), 34}, {"no bytes", []byte(nil), 24},
		{"floats", make([]float64, 2, 5), 64}, {"ints", []int{1, 2}, 40},
		{"numpy array", wire.NewNDArray(make([]int16, 4)), 104}, {"no numpy array", (*wire.NDArray)(nil), 16},
		{"device array", array, 136}, {"no device array", (*wire.DeviceArray)(nil), 16},
		{"buffer", buffer, 196}, {"no buffer", (*mem.Buffer)(nil), 16},
		{"frames", &wire.Serialized{Header: make([]byte, 5), Frames: []wire.Frame{frame}}, 55},
		{"object", &wire.Object{Frames: []wire.Frame{frame, frame}}, 196},
		{"its own", sized(777), 777},
		// By reflection: the value itself, the memory that it refers to, and 16 bytes.
		{"struct", struct{ A, B int64 }{}, 32}, {"pointer", &struct{ A int64 }{}, 8 + 8 + 16},
		{"nil pointer", (*int)(nil), 8 + 16}, {"int16", int16(1), 2 + 16}, {"array", [4]int32{}, 16 + 16},
		{"slice of int32", make([]int32, 3, 4), 24 + 16 + 16}, {"empty map", map[string]int{}, 8 + 48 + 16},
		{"map", map[int64]int64{1: 2, 3: 4}, 8 + 48 + 32 + 16}, {"texts", []string{"abc", "de"}, 24 + 32 + 5 + 16},
		{"texts in an array", [2]string{"abc", ""}, 32 + 3 + 16}, {"any", []any{int64(1)}, 24 + 16 + 8 + 16},
		{"field", struct{ S string }{"abcd"}, 16 + 4 + 16},
	} {
		if got := SizeOf(c.v); got != c.want {
			t.Errorf("%s: got %d bytes, want %d", c.what, got, c.want)
		}
	}
}

// Device memory within other values counts like separate device memory.
func TestSizeOfCounted(t *testing.T) {
	var m fakeMemory
	for what, in := range map[string]func(*wire.DeviceArray) any{
		"array":  func(a *wire.DeviceArray) any { return a },
		"slice":  func(a *wire.DeviceArray) any { return []*wire.DeviceArray{nil, a} },
		"map":    func(a *wire.DeviceArray) any { return map[string]any{"a": a} },
		"struct": func(a *wire.DeviceArray) any { return &pair{Left: a} },
		"buffer": func(a *wire.DeviceArray) any { return pair{Raw: a.Buffer()} },
	} {
		small, large := m.array(t, 10), m.array(t, 260)
		if got, want := SizeOf(in(large))-SizeOf(in(small)), int64(1000); got != want {
			t.Errorf("%s: 1000 bytes more on the device are %d more", what, got)
		}
		small.Release()
		large.Release()
		m.gone(t, what)
	}
}

// Elements of long lists are sampled evenly.
func TestSizeOfLongLists(t *testing.T) {
	const n = 1000
	list := make([]string, n)
	for i := n / 2; i < n; i++ {
		list[i] = strings.Repeat("x", 1000)
	}
	want := int64(24 + 16*n + 1000*n/2 + 16)
	if got := SizeOf(list); got != want {
		t.Errorf("half of the texts have 1000 bytes: got %d, want %d", got, want)
	}
	nested := make([][]string, n)
	for i := range nested {
		nested[i] = list
	}
	if got := SizeOf(nested); got < n*want/2 || got > 2*n*want {
		t.Errorf("%d such lists: got %d, want about %d", n, got, n*want)
	}
	maps := map[int]string{}
	for i := range n {
		maps[i] = "0123456789"
	}
	if got, want := SizeOf(maps), int64(8+48+n*(8+16+10)+16); got != want {
		t.Errorf("a map of %d: got %d, want %d", n, got, want)
	}
}

func TestTypeName(t *testing.T) {
	for _, c := range []struct {
		v    any
		want string
	}{
		{nil, "NoneType"}, {true, "bool"}, {1, "int"}, {int8(1), "int"}, {uint64(1), "int"}, {1.5, "float"},
		{float32(1), "float"}, {"x", "str"}, {[]byte{}, "bytes"}, {wire.NewNDArray([]int64{1}), "numpy.ndarray"},
		{(*wire.DeviceArray)(nil), "NoneType"}, {&wire.DeviceArray{}, wire.CuPyArray},
		{&wire.DeviceArray{Class: "numba.X"}, "numba.X"}, {new(mem.Buffer), wire.RMMBuffer},
		{&wire.Object{Type: "pandas.DataFrame"}, "pandas.DataFrame"}, {point{},
			"go.millstream.dev/internal/task.point"},
		{[]*point{}, "[]*go.millstream.dev/internal/task.point"}, {map[string]int{}, "map[string]int"},
		{[2]point{}, "[2]go.millstream.dev/internal/task.point"}, {complex(1, 2), "complex128"},
	} {
		if got := TypeName(c.v); got != c.want {
			t.Errorf("%T: got %q, want %q", c.v, got, c.want)
		}
		if got := NewValue(c.v).Type(); got != c.want {
			t.Errorf("a Value of %T: got %q, want %q", c.v, got, c.want)
		}
	}
}
