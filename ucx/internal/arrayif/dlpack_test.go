package arrayif

import (
	"errors"
	"math"
	"testing"
)

func TestTensorView(t *testing.T) {
	base := Tensor{Data: 4096, DeviceType: DLCUDA, DeviceID: 2, Code: DLFloat, Bits: 32, Lanes: 1, Shape: []int64{2, 3}}
	with := func(f func(*Tensor)) Tensor {
		c := base
		f(&c)
		return c
	}
	for _, c := range []struct {
		name string
		t    Tensor
		want View
	}{
		{"plain", base, View{Ptr: 4096, Len: 24, ItemSize: 4, Kind: CUDA, Device: 2}},
		{"offset", with(func(x *Tensor) { x.ByteOffset = 256 }), View{Ptr: 4352, Len: 24, ItemSize: 4, Kind: CUDA,
			Device: 2}},
		{"C strides in elements", with(func(x *Tensor) { x.Strides = []int64{3, 1} }),
			View{Ptr: 4096, Len: 24, ItemSize: 4, Kind: CUDA, Device: 2}},
		{"F strides in elements", with(func(x *Tensor) { x.Strides = []int64{1, 2} }),
			View{Ptr: 4096, Len: 24, ItemSize: 4, Order: OrderF, Kind: CUDA, Device: 2}},
		{"vector lanes", with(func(x *Tensor) { x.Lanes = 4 }), View{Ptr: 4096, Len: 96, ItemSize: 16, Kind: CUDA,
			Device: 2}},
		{"bfloat16", with(func(x *Tensor) { x.Code, x.Bits = DLBfloat, 16 }),
			View{Ptr: 4096, Len: 12, ItemSize: 2, Kind: CUDA, Device: 2}},
		{"float8", with(func(x *Tensor) { x.Code, x.Bits = 10, 8 }), View{Ptr: 4096, Len: 6, ItemSize: 1, Kind: CUDA,
			Device: 2}},
		{"complex128", with(func(x *Tensor) { x.Code, x.Bits = DLComplex, 128 }),
			View{Ptr: 4096, Len: 96, ItemSize: 16, Kind: CUDA, Device: 2}},
		{"bool, read-only, 1.0", with(func(x *Tensor) { x.Code, x.Bits, x.ReadOnly, x.Major = DLBool, 8, true, 1 }),
			View{Ptr: 4096, Len: 6, ItemSize: 1, ReadOnly: true, Kind: CUDA, Device: 2}},
		{"host", with(func(x *Tensor) { x.DeviceType, x.DeviceID = DLCPU, 0 }),
			View{Ptr: 4096, Len: 24, ItemSize: 4, Device: UnknownDevice}},
		{"pinned", with(func(x *Tensor) { x.DeviceType = DLCUDAHost }),
			View{Ptr: 4096, Len: 24, ItemSize: 4, Kind: HostPinned, Device: UnknownDevice}},
		{"managed", with(func(x *Tensor) { x.DeviceType = DLCUDAManaged }),
			View{Ptr: 4096, Len: 24, ItemSize: 4, Kind: CUDAManaged, Device: 2}},
		{"ROCm", with(func(x *Tensor) { x.DeviceType = DLROCm }), View{Ptr: 4096, Len: 24, ItemSize: 4, Kind: ROCm,
			Device: 2}},
		{"empty without memory", with(func(x *Tensor) { x.Data, x.Shape = 0, []int64{0, 3} }),
			View{ItemSize: 4, Kind: CUDA, Device: 2}},
	} {
		if got, err := c.t.View(); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
	for _, c := range []struct {
		name string
		t    Tensor
		want error
	}{
		{"zero value", Tensor{}, ErrMalformed},
		{"DLPack 2", with(func(x *Tensor) { x.Major = 2 }), ErrMalformed},
		{"Vulkan", with(func(x *Tensor) { x.DeviceType = 7 }), ErrMalformed},
		{"device id", with(func(x *Tensor) { x.DeviceID = -1 }), ErrMalformed},
		{"handles", with(func(x *Tensor) { x.Code, x.Bits = 3, 64 }), ErrType},
		{"float4", with(func(x *Tensor) { x.Code, x.Bits = 17, 4 }), ErrType},
		{"unknown code", with(func(x *Tensor) { x.Code = 200 }), ErrType},
		{"12 bits", with(func(x *Tensor) { x.Bits = 12 }), ErrType},
		{"no bits", with(func(x *Tensor) { x.Bits = 0 }), ErrType},
		{"no lanes", with(func(x *Tensor) { x.Lanes = 0 }), ErrType},
		{"gaps", with(func(x *Tensor) { x.Strides = []int64{6, 2} }), ErrNotContiguous},
		{"strides overflow", with(func(x *Tensor) { x.Strides = []int64{math.MaxInt64, 1} }), ErrTooLarge},
		{"too many strides", with(func(x *Tensor) { x.Strides = make([]int64, 65) }), ErrMalformed},
		{"null", with(func(x *Tensor) { x.Data = 0 }), ErrMalformed},
		{"null with offset", with(func(x *Tensor) { x.Data, x.ByteOffset = 0, 64 }), ErrMalformed},
		{"offset wraps", with(func(x *Tensor) { x.ByteOffset = math.MaxUint64 }), ErrTooLarge},
		{"end wraps", with(func(x *Tensor) { x.Data = math.MaxUint64 - 22 }), ErrTooLarge},
		{"negative shape", with(func(x *Tensor) { x.Shape = []int64{-2, 3} }), ErrMalformed},
		{"huge", with(func(x *Tensor) { x.Shape = []int64{1 << 62, 8} }), ErrTooLarge},
	} {
		if got, err := c.t.View(); !errors.Is(err, c.want) || got != (View{}) {
			t.Errorf("%s: %+v, %v, want %v", c.name, got, err, c.want)
		}
	}
}

func FuzzTensor(f *testing.F) {
	f.Add(uint64(4096), uint64(0), int32(2), uint8(2), uint8(32), uint16(1), int64(2), int64(3), int64(3), int64(1),
		true)
	f.Add(uint64(math.MaxUint64), uint64(9), int32(1), uint8(5), uint8(128), uint16(9), int64(0), int64(1),
		int64(-1), int64(math.MinInt64), true)
	f.Fuzz(func(t *testing.T, data, off uint64, dev int32, code, bits uint8, lanes uint16, n0, n1, s0, s1 int64,
		strided bool) {
		x := Tensor{Data: data, ByteOffset: off, DeviceType: dev, Code: code, Bits: bits, Lanes: lanes,
			Shape: []int64{n0, n1}}
		if strided {
			x.Strides = []int64{s0, s1}
		}
		v, err := x.View()
		if err != nil {
			if v != (View{}) {
				t.Errorf("%+v: %+v beside %v", x, v, err)
			}
			return
		}
		if v.Len < 0 || v.ItemSize <= 0 || v.Len%v.ItemSize != 0 || v.Len > 0 &&
			(v.Ptr < data || v.Ptr+uint64(v.Len)-1 < v.Ptr) {
			t.Errorf("%+v gives %+v", x, v)
		}
	})
}
