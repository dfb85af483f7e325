package wire

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestDType(t *testing.T) {
	for text, size := range map[DType]int{"<f8": 8, "|b1": 1, ">i4": 4, "<c16": 16, "<U5": 20, "|S3": 3, "<M8[ns]": 8,
		"<m8[25s]": 8, "<m8": 8, "<f16": 16, "=i8": 8, "|S0": 0} {
		if _, err := text.parse(); err != nil || text.ItemSize() != size {
			t.Errorf("%s: %d bytes, %v, want %d", text, text.ItemSize(), err, size)
		}
	}
	for _, text := range []DType{"", "f8", "<f", "<f3", "|O8", "<x4", "<f8[ns]", "<M8[", "<M8[]", "<f99999999999",
		"<b2", "<i-8", "<U999999999"} {
		if _, err := text.parse(); err == nil || text.ItemSize() != 0 {
			t.Errorf("%q: got %v and %d bytes, want an error and 0", text, err, text.ItemSize())
		}
	}
	if !DType(">f8").bigEndian() || DType("<f8").bigEndian() || DType("").kind() != 0 {
		t.Error("byte order or kind")
	}
	if dtypeOf[time.Duration]() != Int64 || dtypeOf[bool]() != Bool || dtypeOf[complex64]() != Complex64 ||
		dtypeOf[uint16]() != Uint16 {
		t.Error("types of Go")
	}
}

func TestElements(t *testing.T) {
	a := NewNDArray([]int32{1, 2, 3, 4, 5, 6}, 2, 3)
	got, err := Elements[int32](a)
	if err != nil || !slices.Equal(got, []int32{1, 2, 3, 4, 5, 6}) {
		t.Fatalf("got %v, %v", got, err)
	}
	if got[0] = 9; a.Data[0] != 9 {
		t.Error("elements in C order were copied")
	}
	a.Data[0] = 1
	for name, tc := range map[string]struct {
		a    NDArray
		want []int32
	}{
		"transposed":   {NDArray{Shape: []int{3, 2}, Strides: []int{4, 12}}, []int32{1, 4, 2, 5, 3, 6}},
		"reversed":     {NDArray{Shape: []int{6}, Strides: []int{-4}, Offset: 20}, []int32{6, 5, 4, 3, 2, 1}},
		"every second": {NDArray{Shape: []int{3}, Strides: []int{8}}, []int32{1, 3, 5}},
		"broadcast":    {NDArray{Shape: []int{2, 2}, Strides: []int{0, 4}}, []int32{1, 2, 1, 2}},
		"single":       {NDArray{Offset: 4}, []int32{2}},
		"empty":        {NDArray{Shape: []int{0, 5}}, []int32{}},
	} {
		tc.a.DType, tc.a.Data = Int32, a.Data
		got, err := Elements[int32](&tc.a)
		if err != nil || !slices.Equal(got, tc.want) {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, tc.want)
		}
		clone, err := Elements[int32](tc.a.clone())
		if err != nil || !slices.Equal(clone, tc.want) {
			t.Errorf("%s: clone: %v, %v", name, clone, err)
		}
		// What travels, and comes back.
		h, frames, err := encodeNDArray(&tc.a)
		if err != nil {
			t.Fatal(err)
		}
		v, err := decodeNDArray(reread(t, h), frames)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if back, err := Elements[int32](v.(*NDArray)); err != nil || !slices.Equal(back, tc.want) {
			t.Errorf("%s: came back as %v, %v", name, back, err)
		}
		if name == "broadcast" && frames[0].Len() != 8 {
			t.Errorf("a broadcast of two elements travels in %d bytes", frames[0].Len())
		}
	}
	if _, err := Elements[float64](a); err == nil {
		t.Error("int32 read as float64")
	}
}

// reread is a header after its journey.
func reread(t *testing.T, h Dict) Dict {
	t.Helper()
	out, err := decodeHeader(mustPack(t, h))
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestElementsOtherOrders(t *testing.T) {
	b := binary.BigEndian.AppendUint64(nil, math.Float64bits(2.5))
	got, err := Elements[float64](&NDArray{DType: ">f8", Shape: []int{1}, Data: b})
	if err != nil || got[0] != 2.5 {
		t.Errorf("big-endian: %v, %v", got, err)
	}
	c := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, math.Float32bits(1)), math.Float32bits(-2))
	z, err := Elements[complex64](&NDArray{DType: ">c8", Shape: []int{1}, Data: c})
	if err != nil || z[0] != complex(1, -2) {
		t.Errorf("big-endian complex: %v, %v", z, err)
	}
	odd := append([]byte{0}, 5, 0, 0, 0, 0, 0, 0, 0)
	n, err := Elements[int64](&NDArray{DType: Int64, Shape: []int{1}, Data: odd, Offset: 1})
	if err != nil || n[0] != 5 {
		t.Errorf("not aligned: %v, %v", n, err)
	}
}

func TestNDArrayOrders(t *testing.T) {
	for _, tc := range []struct {
		shape, strides []int
		c, f           bool
	}{
		{[]int{2, 3}, nil, true, false},
		{[]int{2, 3}, []int{8, 16}, false, true},
		{[]int{6}, nil, true, true},
		{nil, nil, true, true},
		{[]int{1, 3, 1}, []int{999, 8, 777}, true, true},
		{[]int{3}, []int{16}, false, false},
		{[]int{0, 3}, []int{1, 1}, true, true},
	} {
		a := NDArray{DType: Float64, Shape: tc.shape, Strides: tc.strides, Data: make([]byte, 4096)}
		if a.COrder() != tc.c || a.FOrder() != tc.f {
			t.Errorf("%v %v: C %t, Fortran %t", tc.shape, tc.strides, a.COrder(), a.FOrder())
		}
	}
}

func TestNDArrayHostile(t *testing.T) {
	header := func(kv ...any) Dict {
		h := NewDict("dtype", []any{0, "<f8"}, "shape", []int{2}, "strides", []int{8}, "writeable", []any{true})
		for i := 0; i < len(kv); i += 2 {
			h.Set(kv[i].(string), kv[i+1])
		}
		return h
	}
	for name, h := range map[string]Dict{
		"more than the frame": header("shape", []int{3}),
		"huge shape":          header("shape", []int{1 << 60, 1 << 60}, "strides", []int{8, 8}),
		"huge strides":        header("strides", []int{1 << 61}),
		"negative strides":    header("strides", []int{-8}),
		"overflowing strides": header("shape", []any{int64(math.MaxInt64)}, "strides",
			[]any{int64(math.MaxInt64)}),
		"negative shape":            header("shape", []int{-2}),
		"strides of another shape":  header("strides", []int{8, 8}),
		"no strides":                header("strides", nil),
		"too many dimensions":       header("shape", make([]int, 100), "strides", make([]int, 100)),
		"no type":                   header("dtype", nil),
		"broadcast beyond the data": header("broadcast_to", []int{1 << 40, 5}, "strides", []int{0, 8}),
		"lengths that are no ints":  header("shape", []any{"x"}),
	} {
		if v, err := decodeNDArray(reread(t, h), []Frame{HeapFrame(make([]byte, 16))}); err == nil {
			t.Errorf("%s: accepted as %v", name, v)
		}
	}
	for name, h := range map[string]Dict{
		"objects":    header("pickle", true),
		"structured": header("dtype", []any{1, []byte("x")}),
		"descr":      header("dtype", []any{0, []any{[]any{"a", "<f8"}}}),
		"matrix":     header("matrix", true),
		"odd type":   header("dtype", []any{0, "|O8"}),
	} {
		if v, err := decodeNDArray(reread(t, h), []Frame{HeapFrame(make([]byte, 16))}); err != nil || v != nil {
			t.Errorf("%s: %v, %v, want it to stay closed", name, v, err)
		}
	}
	if _, err := decodeNDArray(reread(t, header()), nil); err == nil {
		t.Error("an array without a frame")
	}
	// A broadcast far beyond memory costs nothing, also when it is passed on or cloned.
	v, err := decodeNDArray(reread(t, header("broadcast_to", []int{1 << 40, 2}, "strides", []int{0, 8})),
		[]Frame{HeapFrame(make([]byte, 16))})
	if err != nil || v.(*NDArray).Len() != 1<<41 {
		t.Errorf("a large broadcast: %v", err)
	}
	m, err := Encode(Serialize{[]any{[]any{"first", Clone(v)}}}, EncodeOptions{})
	if err != nil || m.Size() > 2000 {
		t.Errorf("a large broadcast passed on: %v", err)
	}
	if _, err := Encode(ToPickle{v}, EncodeOptions{}); err == nil {
		t.Error("a large broadcast was pickled")
	}
	if _, err := Elements[float64](v.(*NDArray)); err == nil {
		t.Error("a large broadcast was copied")
	}
}

func TestNewNDArrayPanics(t *testing.T) {
	defer func() {
		if p, _ := recover().(string); !strings.Contains(p, "shape") {
			t.Errorf("got %q", p)
		}
	}()
	NewNDArray([]int8{1, 2, 3}, 2, 2)
}

func TestDeviceArray(t *testing.T) {
	data := bytes.Repeat([]byte{1, 2}, 12)
	for _, class := range []string{"", CuPyArray, NumbaArray, RMMBuffer} {
		for _, cuda := range []bool{true, false} {
			f := HeapFrame(data)
			if cuda {
				f = f.WithCUDA()
			}
			in := &DeviceArray{Class: class, DType: Float32, Shape: []int{2, 3}, Frame: f}
			m, err := Encode(Serialize{[]any{in, []byte("x")}}, EncodeOptions{Compression: "lz4", ShardSize: 10})
			if err != nil {
				t.Fatal(err)
			}
			if n := len(m.Frames); cuda && n != 4 {
				t.Errorf("%d frames: one of a GPU is never split", n)
			}
			if m.Frames[2].CUDA() != cuda {
				t.Error("the flag is lost")
			}
			v, err := Decode(m, DecodeOptions{})
			if err != nil {
				t.Fatal(err)
			}
			got := v.([]any)[0].(*DeviceArray)
			if want := class; want == "" && got.Class != CuPyArray || want != "" && got.Class != want {
				t.Errorf("class %s", got.Class)
			}
			if got.Frame.CUDA() != cuda || !bytes.Equal(got.Frame.Bytes(), data) ||
				!slices.Equal(got.Shape, in.Shape) || got.DType != Float32 {
				t.Errorf("%q, cuda %t: got %+v", class, cuda, got)
			}
		}
	}
	for name, bad := range map[string]*DeviceArray{
		"short frame": {DType: Float32, Shape: []int{7}, Frame: HeapFrame(data)},
		"gaps":        {DType: Float32, Shape: []int{2}, Strides: []int{8}, Frame: HeapFrame(data)},
		"class":       {Class: "torch.Tensor", DType: Float32, Shape: []int{2}, Frame: HeapFrame(data)},
		"type":        {DType: "|O8", Shape: []int{2}, Frame: HeapFrame(data)},
		"strides":     {DType: Float32, Shape: []int{2}, Strides: []int{4, 4}, Frame: HeapFrame(data)},
	} {
		if _, err := Encode(Serialize{bad}, EncodeOptions{}); err == nil {
			t.Errorf("%s: encoded", name)
		}
	}
}
