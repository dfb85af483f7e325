package arrayif

import (
	"encoding/json"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"
)

// The texts are json.dumps of what the libraries return.
func TestCUDAArrayJSON(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       CUDAArray
		view       View
	}{
		{"UCXX receive " +
			"buffer", `{"shape": [1048576], "typestr": "|u1", "data": [139810000000000, false], "version": 2}`,
			CUDAArray{Shape: []int64{1048576}, TypeStr: "|u1", Ptr: 139810000000000, Version: 2},
			View{Ptr: 139810000000000, Len: 1048576, ItemSize: 1, Kind: CUDA, Device: UnknownDevice}},
		{"CuPy",
			`{"shape": [2, 3], "typestr": "<f4", "descr": [["", "<f4"]], "stream": 1, "version": 3, "strides": null, "data": [140000000000512, false]}`,
			CUDAArray{Shape: []int64{2, 3}, TypeStr: "<f4", Ptr: 140000000000512, Version: 3, Stream: 1},
			View{Ptr: 140000000000512, Len: 24, ItemSize: 4, Kind: CUDA, Device: UnknownDevice, Stream: 1}},
		{"Fortran order, read-only, own " +
			"stream",
			`{"shape": [2, 3], "typestr": "<f8", "data": [18446744073709551000, true], "version": 3, "strides": [8, 16], "stream": 94123456789504, "mask": null}`,
			CUDAArray{Shape: []int64{2, 3}, Strides: []int64{8, 16}, TypeStr: "<f8", Ptr: 18446744073709551000,
				ReadOnly: true, Version: 3, Stream: 94123456789504},
			View{Ptr: 18446744073709551000, Len: 48, ItemSize: 8, Order: OrderF, ReadOnly: true, Kind: CUDA,
				Device: UnknownDevice, Stream: 94123456789504}},
		{"empty", `{"shape": [0], "typestr": "<i8", "data": [0, false], "version": 3, "stream": 2}`,
			CUDAArray{Shape: []int64{0}, TypeStr: "<i8", Version: 3, Stream: 2},
			View{ItemSize: 8, Kind: CUDA, Device: UnknownDevice, Stream: 2}},
		{"empty with an address", `{"shape": [4, 0], "typestr": "<i8", "data": [4096, false], "version": 2}`,
			CUDAArray{Shape: []int64{4, 0}, TypeStr: "<i8", Ptr: 4096, Version: 2},
			View{ItemSize: 8, Kind: CUDA, Device: UnknownDevice}},
		{"no address", `{"shape": [0], "typestr": "<i8", "data": [null, true], "version": 2}`,
			CUDAArray{Shape: []int64{0}, TypeStr: "<i8", ReadOnly: true, Version: 2},
			View{ItemSize: 8, ReadOnly: true, Kind: CUDA, Device: UnknownDevice}},
		{"scalar", `{"shape": [], "typestr": "<c16", "data": [16, false], "version": 3}`,
			CUDAArray{Shape: []int64{}, TypeStr: "<c16", Ptr: 16, Version: 3},
			View{Ptr: 16, Len: 16, ItemSize: 16, Kind: CUDA, Device: UnknownDevice}},
	} {
		var got CUDAArray
		if err := json.Unmarshal([]byte(c.text), &got); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v, want %+v", c.name, got, err, c.want)
			continue
		}
		if v, err := got.View(); err != nil || v != c.view {
			t.Errorf("%s: view %+v, %v, want %+v", c.name, v, err, c.view)
		}
	}
}

func TestCUDAArrayJSONRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, has string }{
		{"no shape", `{"typestr": "|u1", "data": [1, false], "version": 3}`, `"shape"`},
		{"no typestr", `{"shape": [1], "data": [1, false], "version": 3}`, `"typestr"`},
		{"no data", `{"shape": [1], "typestr": "|u1", "version": 3}`, `"data"`},
		{"null data", `{"shape": [1], "typestr": "|u1", "data": null, "version": 3}`, `"data"`},
		{"no version", `{"shape": [1], "typestr": "|u1", "data": [1, false]}`, `"version"`},
		{"fractional shape", `{"shape": [1.5], "typestr": "|u1", "data": [1, false], "version": 3}`, "shape[0]"},
		{"huge stride",
			`{"shape": [1], "strides": [9223372036854775808], "typestr": "|u1", "data": [1, false], "version": 3}`,
			"strides[0]"},
		{"text shape", `{"shape": ["a"], "typestr": "|u1", "data": [1, false], "version": 3}`, "invalid number"},
		{"many dimensions", `{"shape": [` + strings.Repeat("1,", 64) +
			`1], "typestr": "|u1", "data": [1, false], "version": 3}`, "65 dimensions"},
		{"one item of data", `{"shape": [1], "typestr": "|u1", "data": [1], "version": 3}`, "data has 1"},
		{"negative address", `{"shape": [1], "typestr": "|u1", "data": [-1, false], "version": 3}`, "data[0]"},
		{"address over 64 " +
			"bits", `{"shape": [1], "typestr": "|u1", "data": [18446744073709551616, false], "version": 3}`, "data[0]"},
		{"text address", `{"shape": [1], "typestr": "|u1", "data": ["0x10", false], "version": 3}`, "data[0]"},
		{"numeric flag", `{"shape": [1], "typestr": "|u1", "data": [1, 0], "version": 3}`, "data[1]"},
		{"stream 0", `{"shape": [1], "typestr": "|u1", "data": [1, false], "version": 3, "stream": 0}`, "forbids"},
		{"negative stream", `{"shape": [1], "typestr": "|u1", "data": [1, false], "version": 3, "stream": -1}`,
			"stream"},
		{"negative version", `{"shape": [1], "typestr": "|u1", "data": [1, false], "version": -1}`, "version"},
		{"array", `[]`, "cannot unmarshal"},
		{"long", `{"x": "` + strings.Repeat("x", maxJSON) + `"}`, "at most"},
	} {
		a := CUDAArray{Version: 99}
		err := json.Unmarshal([]byte(c.text), &a)
		if !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), c.has) {
			t.Errorf("%s: got %v, want %q", c.name, err, c.has)
		}
		if a.Version != 99 {
			t.Errorf("%s: changed the array before it failed", c.name)
		}
	}
	var a CUDAArray
	if err := a.UnmarshalJSON(
		[]byte(`{"shape": [], "typestr": "|u1", "data": [1, false], "version": 3} {}`)); !errors.Is(err, ErrMalformed) {
		t.Errorf("text behind the description: %v", err)
	}
}

func TestCUDAArrayViewRefuses(t *testing.T) {
	good := CUDAArray{Shape: []int64{4, 4}, TypeStr: "<f4", Ptr: 1 << 20, Version: 3}
	with := func(f func(*CUDAArray)) CUDAArray {
		a := good
		f(&a)
		return a
	}
	for _, c := range []struct {
		name string
		a    CUDAArray
		want error
	}{
		{"old version", with(func(a *CUDAArray) { a.Version = 1 }), ErrMalformed},
		{"future version", with(func(a *CUDAArray) { a.Version = 4 }), ErrMalformed},
		{"mask", with(func(a *CUDAArray) { a.Masked = true }), ErrMasked},
		{"objects", with(func(a *CUDAArray) { a.TypeStr = "|O8" }), ErrType},
		{"gaps", with(func(a *CUDAArray) { a.Strides = []int64{32, 8} }), ErrNotContiguous},
		{"wrong strides", with(func(a *CUDAArray) { a.Strides = []int64{4} }), ErrMalformed},
		{"null", with(func(a *CUDAArray) { a.Ptr = 0 }), ErrMalformed},
		{"too large", with(func(a *CUDAArray) { a.Shape = []int64{math.MaxInt64} }), ErrTooLarge},
		{"wraps", with(func(a *CUDAArray) { a.Ptr = math.MaxUint64 - 62 }), ErrTooLarge},
	} {
		if v, err := c.a.View(); !errors.Is(err, c.want) || v != (View{}) {
			t.Errorf("%s: %+v, %v, want %v", c.name, v, err, c.want)
		}
	}
	last := with(func(a *CUDAArray) { a.Ptr = math.MaxUint64 - 63 })
	if _, err := last.View(); err != nil {
		t.Errorf("the last 64 bytes of the address space: %v", err)
	}
}

func TestCUDAArrayMaskFromJSON(t *testing.T) {
	var a CUDAArray
	text := `{"shape": [1], "typestr": "|u1", "data": [1, false], "version": 3, "mask": {"shape": [1]}}`
	if err := json.Unmarshal([]byte(text), &a); err != nil || !a.Masked {
		t.Fatalf("%+v, %v", a, err)
	}
	if _, err := a.View(); !errors.Is(err, ErrMasked) {
		t.Errorf("got %v", err)
	}
}

func FuzzCUDAArray(f *testing.F) {
	f.Add(
		[]byte(
			`{"shape": [2, 3], "typestr": "<f8", "data": [4096, true], "version": 3, "strides": [8, 16], "stream": 7, "mask": null}`))
	f.Add([]byte(`{"shape": [0], "typestr": "<M8[ns]", "data": [null, false], "version": 2, "mask": []}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		var a CUDAArray
		if err := json.Unmarshal(text, &a); err != nil {
			return
		}
		v, err := a.View()
		if err != nil {
			return
		}
		if v.Len < 0 || v.ItemSize < 0 || v.Len > 0 && (v.Ptr == 0 || v.Ptr+uint64(v.Len)-1 < v.Ptr ||
			v.Len%v.ItemSize != 0) {
			t.Errorf("%s gives %+v", text, v)
		}
	})
}
