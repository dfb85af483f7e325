package arrayif

import (
	"errors"
	"math"
	"testing"
)

func TestByteLength(t *testing.T) {
	for _, c := range []struct {
		shape []int64
		item  int64
		want  int64
		err   error
	}{
		{nil, 8, 8, nil},
		{[]int64{3}, 4, 12, nil},
		{[]int64{3, 5, 7}, 2, 210, nil},
		{[]int64{0}, 8, 0, nil},
		{[]int64{1 << 40, 1 << 40, 0}, 8, 0, nil},
		{[]int64{math.MaxInt64}, 1, math.MaxInt64, nil},
		{[]int64{5}, 0, 0, nil},
		{[]int64{math.MaxInt64}, 2, 0, ErrTooLarge},
		{[]int64{1 << 32, 1 << 32}, 1, 0, ErrTooLarge},
		{[]int64{1 << 62, 4, 4, 4}, 16, 0, ErrTooLarge},
		{[]int64{-1}, 1, 0, ErrMalformed},
		{[]int64{0, -1}, 1, 0, ErrMalformed},
		{make([]int64, 65), 1, 0, ErrMalformed},
	} {
		got, err := byteLength(c.shape, c.item)
		if got != c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("byteLength(%v, %d) = %d, %v, want %d, %v", c.shape, c.item, got, err, c.want, c.err)
		}
	}
}

func TestContiguity(t *testing.T) {
	for _, c := range []struct {
		name           string
		shape, strides []int64
		item           int64
		want           Order
		err            error
	}{
		{"no strides", []int64{2, 3}, nil, 4, OrderC, nil},
		{"scalar", []int64{}, []int64{}, 4, OrderC, nil},
		{"C", []int64{2, 3, 4}, []int64{48, 16, 4}, 4, OrderC, nil},
		{"F", []int64{2, 3, 4}, []int64{4, 8, 24}, 4, OrderF, nil},
		{"one dimension is C", []int64{5}, []int64{8}, 8, OrderC, nil},
		{"strides of ones are free", []int64{1, 5, 1}, []int64{999, 8, -7}, 8, OrderC, nil},
		{"F with a one", []int64{3, 1, 2}, []int64{4, 12345, 12}, 4, OrderF, nil},
		{"all ones", []int64{1, 1}, []int64{0, -1}, 4, OrderC, nil},
		{"empty", []int64{0, 7}, []int64{1, 2}, 4, OrderC, nil},
		{"no bytes", []int64{3}, []int64{7}, 0, OrderC, nil},
		{"gap", []int64{5}, []int64{16}, 8, 0, ErrNotContiguous},
		{"row slice", []int64{2, 3}, []int64{40, 8}, 8, 0, ErrNotContiguous},
		{"reversed", []int64{5}, []int64{-8}, 8, 0, ErrNotContiguous},
		{"broadcast", []int64{5}, []int64{0}, 8, 0, ErrNotContiguous},
		{"mixed order", []int64{2, 3, 4}, []int64{16, 32, 4}, 4, 0, ErrNotContiguous},
		{"too few strides", []int64{2, 3}, []int64{8}, 8, 0, ErrMalformed},
		{"too many strides", []int64{}, []int64{8}, 8, 0, ErrMalformed},
	} {
		got, err := contiguity(c.shape, c.strides, c.item)
		if got != c.want || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
			t.Errorf("%s: %v, %v, want %v, %v", c.name, got, err, c.want, c.err)
		}
	}
}

func TestTypeSize(t *testing.T) {
	for typestr, want := range map[string]int64{
		"|b1": 1, "|u1": 1, "|i1": 1, "<i2": 2, "<u4": 4, "<i8": 8, ">i8": 8, "=f4": 4, "<f2": 2, "<f8": 8, "<f16": 16,
		"<c8": 8, "<c16": 16, "<M8[ns]": 8, "<m8[25us]": 8, "<M8": 8, "|S10": 10, "<U3": 12, "|V24": 24, "|V0": 0,
		"|S0": 0,
	} {
		if got, err := typeSize(typestr); got != want || err != nil {
			t.Errorf("typeSize(%q) = %d, %v, want %d", typestr, got, err, want)
		}
	}
	for _, typestr := range []string{
		"", "f4", "<f", "|O8", "|t1", "<x4", "?f4", "<f3", "<i0", "<b2", "<f4x", "<f+4", "<f-4", "<f 4", "<M8[ns",
		"<M4[ns]",
		"|V99999999999999999999", "|V4294967296", "<f4[ns]", "\xff\xff\xff",
	} {
		if got, err := typeSize(typestr); !errors.Is(err, ErrType) {
			t.Errorf("typeSize(%q) = %d, %v, want a refusal", typestr, got, err)
		}
	}
}

func TestNames(t *testing.T) {
	for k, want := range map[Kind]string{
		Host: "host", HostPinned: "host-pinned", CUDA: "cuda", CUDAManaged: "cuda-managed", ROCm: "rocm", 77: "kind 77",
	} {
		if k.String() != want {
			t.Errorf("%d is %q, want %q", k, k, want)
		}
	}
	if OrderC.String() != "C" || OrderF.String() != "F" {
		t.Error("orders are named wrongly")
	}
}
