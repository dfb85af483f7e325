package pickle

import (
	"encoding/binary"
	"math"
	"strings"
	"testing"
)

func TestParseDType(t *testing.T) {
	for _, s := range []string{"<f8", ">i2", "|b1", "|S5", "<U3", "<M8[ns]", "<m8[25s]", "<M8", "|O", "|V12", "<c16",
		"<f2", "|u1", "|S0"} {
		d, err := ParseDType(s)
		if err != nil || d.String() != s {
			t.Errorf("%s: %v, %v", s, d, err)
		}
	}
	for _, s := range []string{"", "f", "f8", "<f3", "<x8", "<f8[ns]", "<M8[ns", "<i-1", "<U999999999", "|O4", "?f8",
		"<f", "|b2", "<" + strings.Repeat("f", 100)} {
		if d, err := ParseDType(s); err == nil {
			t.Errorf("%q is %v", s, d)
		}
	}
	if d, err := ParseDType("=f8"); err != nil || d.Order != '<' {
		t.Error(d, err)
	}
}

func TestNewArray(t *testing.T) {
	a, err := NewArray("<f8", []int{2, 3}, make([]byte, 48))
	if err != nil || a.Strides[0] != 24 || a.Strides[1] != 8 {
		t.Fatal(a, err)
	}
	for name, c := range map[string]struct {
		dtype string
		shape []int
		n     int
	}{
		"short": {"<f8", []int{2, 3}, 47}, "long": {"<f8", []int{2}, 17}, "negative": {"<f8", []int{-1, -2}, 16},
		"overflow": {"<f8", []int{1 << 32, 1 << 32}, 0},
		"objects":  {"|O", []int{1}, 8}, "dtype": {"f8", []int{1}, 8},
	} {
		if _, err := NewArray(c.dtype, c.shape, make([]byte, c.n)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// dt is the tree of a dtype as numpy pickles it.
func dt(text, order string) *Object {
	return call("numpy", "dtype", text, false, true).WithState(Tuple{int64(3), order, nil, nil, nil, int64(-1),
		int64(-1), int64(0)})
}

func TestDecodeArrayForms(t *testing.T) {
	data := []byte("01234567")
	for _, v := range []Value{
		call("numpy._core.numeric", "_frombuffer", data, dt("i4", "<"), Tuple{int64(2)}, "C"),
		call("numpy.core.numeric", "_frombuffer", &Buffer{Data: data}, dt("i4", "<"), Tuple{int64(2)}, "F"),
		call("numpy._core.numeric", "_frombuffer", &ByteArray{data}, dt("i4", "<"), int64(2), "K", Tuple{int64(0)}),
		call("numpy.core.multiarray", "_reconstruct", Global{"numpy", "ndarray"}, Tuple{int64(0)},
			[]byte("b")).WithState(Tuple{int64(1), Tuple{int64(2)}, dt("i4", "<"), false, data}),
		call("numpy", "ndarray", Tuple{int64(2)}, call("numpy", "dtype", "<i4"), data, int64(0), Tuple{int64(4)}),
	} {
		got, err := Decode(v)
		a, ok := got.(*Array)
		if err != nil || !ok || a.DType.String() != "<i4" || len(a.Shape) != 1 || a.Shape[0] != 2 ||
			a.Strides[0] != 4 || &a.Data[0] != &data[0] {
			t.Errorf("%s: %v, %v", Repr(v), got, err)
		}
	}
	permuted, err := Decode(call("numpy._core.numeric", "_frombuffer", make([]byte, 24), dt("i4", "<"),
		Tuple{int64(2), int64(3)}, "K", Tuple{int64(1), int64(0)}))
	if a, ok := permuted.(*Array); err != nil || !ok || a.Shape[0] != 3 || a.Shape[1] != 2 || a.Strides[0] != 4 ||
		a.Strides[1] != 12 {
		t.Errorf("%+v", permuted)
	}
}

// TestDecodeArrayLies: an array that is not what it says stays a tree. Nothing may be read
// or made beyond the bytes that are there.
func TestDecodeArrayLies(t *testing.T) {
	data := []byte("01234567")
	from := func(args ...Value) Value { return call("numpy._core.numeric", "_frombuffer", args...) }
	rec := func(state ...Value) Value {
		return call("numpy.core.multiarray", "_reconstruct", Global{"numpy", "ndarray"}, Tuple{int64(0)},
			[]byte("b")).WithState(Tuple(state))
	}
	nd := func(args ...Value) Value { return call("numpy", "ndarray", args...) }
	i4 := dt("i4", "<")
	nested := Value(i4)
	for range 100 {
		nested = call("numpy", "dtype", "V4", false, true).WithState(Tuple{int64(3), "|", nil, Tuple{"a"},
			NewDict("a", Tuple{nested, int64(0)}), int64(4), int64(1), int64(0)})
	}
	many := make(Tuple, 100)
	for i := range many {
		many[i] = int64(1)
	}
	for _, v := range []Value{
		from(data, i4, Tuple{int64(3)}, "C"), from(data, i4, Tuple{int64(-2)}, "C"),
		from(data, i4, Tuple{int64(1) << 62, int64(8)}, "C"), from(data, i4, Tuple{int64(2)}, "X"),
		from(data, i4, Tuple{int64(2)}, "K"), from(data, i4, Tuple{int64(2)}, "K", Tuple{int64(1)}),
		from(data, i4, Tuple{int64(2), int64(1)}, "K", Tuple{int64(0), int64(0)}),
		from("text", i4, Tuple{int64(2)}, "C"), from(data, "i4", Tuple{int64(2)}, "C"), from(data, i4, "shape", "C"),
		from(data, dt("O8", "|"), Tuple{int64(1)}, "C"), from(data, i4, many, "C"),
		rec(), rec(int64(1), Tuple{int64(3)}, i4, false, data), rec(int64(1), Tuple{int64(2)}, i4, "no", data),
		rec(int64(1), Tuple{int64(2)}, i4, false, &List{}),
		rec(int64(1), Tuple{int64(2)}, dt("O8", "|"), false, &List{Items: []Value{nil}}),
		rec(int64(1), Tuple{int64(2)}, i4, false, nil),
		call("numpy.core.multiarray", "_reconstruct", Global{"m", "Sub"}, Tuple{int64(0)},
			[]byte("b")).WithState(Tuple{int64(1), Tuple{int64(2)}, i4, false, data}),
		nd(Tuple{int64(2)}, i4, data, int64(0), Tuple{int64(8)}),
		nd(Tuple{int64(2)}, i4, data, int64(4), Tuple{int64(4)}), nd(Tuple{int64(2)}, i4, data, int64(0), Tuple{}),
		nd(Tuple{int64(2)}, i4, data, int64(0), Tuple{int64(math.MaxInt64)}),
		nd(Tuple{int64(2)}, i4, data, int64(0), Tuple{int64(-4)}), nd(Tuple{int64(2)}, i4),
		dt("x4", "<"), dt("f99999999999", "<"), dt("f8", "?"), dt("", "<"), call("numpy", "dtype", int64(8)),
		call("numpy", "dtype", "f8"), call("numpy", "dtype", "f8", false, true).WithState(Tuple{int64(3)}), nested,
		call("numpy", "dtype", "V4", false, true).WithState(Tuple{int64(3), "|", nil, Tuple{"a"},
			NewDict("a", Tuple{i4, int64(1)}), int64(4), int64(1), int64(0)}),
		call("numpy", "dtype", "V4", false, true).WithState(Tuple{int64(3), "|", nil, Tuple{"b"},
			NewDict("a", Tuple{i4, int64(0)}), int64(4), int64(1), int64(0)}),
		call("numpy", "dtype", "V4", false, true).WithState(Tuple{int64(3), "|", Tuple{i4}, nil, nil, int64(4),
			int64(1), int64(0)}),
		call("numpy", "dtype", "M8", false, true).WithState(Tuple{int64(4), "<", nil, nil, nil, int64(-1), int64(-1),
			int64(0), Tuple{nil, Tuple{"ns"}}}),
		call("numpy", "dtype", NewDict("names", &List{Items: []Value{"a"}}, "itemsize", int64(4))),
		call("numpy", "dtype", NewDict("itemsize", int64(-4))),
		call("numpy.core.multiarray", "scalar", i4, data), call("numpy.core.multiarray", "scalar", dt("O8", "|"), data),
		call("numpy.core.multiarray", "scalar", i4),
	} {
		got, err := Decode(v)
		if _, isNode := got.(*Object); err != nil || !isNode {
			t.Errorf("%s: %v, %v", Repr(v), got, err)
		}
	}
}

func TestScalarValue(t *testing.T) {
	scalar := func(dtype string, data []byte) any {
		d, err := ParseDType(dtype)
		if err != nil {
			t.Fatal(err)
		}
		return Scalar{d, data}.Value()
	}
	le, be := binary.LittleEndian, binary.BigEndian
	f32 := func(x float32) []byte { return le.AppendUint32(nil, math.Float32bits(x)) }
	for _, c := range []struct{ got, want any }{
		{scalar("|b1", []byte{1}), true}, {scalar("|i1", []byte{0xff}), int64(-1)},
		{scalar("<i2", []byte{0xfe, 0xff}), int64(-2)}, {scalar(">i4", []byte{0, 0, 1, 0}), int64(256)},
		{scalar("<u8", le.AppendUint64(nil, math.MaxUint64)), uint64(math.MaxUint64)},
		{scalar(">u2", []byte{1, 0}), uint64(256)}, {scalar("|u1", []byte{200}), uint64(200)},
		{scalar("<f4", f32(1.5)), 1.5}, {scalar(">f8", be.AppendUint64(nil, math.Float64bits(-2))), -2.0},
		{scalar("<f16", make([]byte, 16)), nil},
		{scalar("<f2", []byte{0, 0x3c}), 1.0}, {scalar("<f2", []byte{0, 0xc0}), -2.0},
		{scalar("<f2", []byte{1, 0}), math.Ldexp(1, -24)}, {scalar("<f2", []byte{0, 0xfc}), math.Inf(-1)},
		{scalar("<c8", append(f32(1), f32(-2)...)), complex(1, -2)}, {scalar("<c32", make([]byte, 32)), nil},
		{scalar("<M8[ns]", le.AppendUint64(nil, 5)), int64(5)},
		{scalar("<U2", []byte{0xe9, 0, 0, 0, 0, 0, 0, 0}), "é"}, {scalar("<i4", []byte{1}), nil},
		{scalar("|O", make([]byte, 8)), nil},
	} {
		if c.got != c.want {
			t.Errorf("got %v (%T), want %v", c.got, c.got, c.want)
		}
	}
	if got := scalar("|S3", []byte("a\x00\x00")).([]byte); string(got) != "a" {
		t.Errorf("%q", got)
	}
	if got := scalar("|V2", []byte("ab")).([]byte); string(got) != "ab" {
		t.Errorf("%q", got)
	}
	if got := scalar("<f2", []byte{1, 0x7c}).(float64); !math.IsNaN(got) {
		t.Error(got)
	}
}
