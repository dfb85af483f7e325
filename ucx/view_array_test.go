package ucx

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"go.millstream.dev/mem"
)

// hostTensor describes n bytes of memory outside Go's heap, as a C library would.
func hostTensor(t *testing.T, n int) (*DLTensor, []byte) {
	t.Helper()
	b, err := mem.NewMmap(mem.MmapConfig{}).Alloc(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Release)
	return &DLTensor{Data: uint64(b.Addr()), DeviceType: 1, Code: 1, Bits: 8, Lanes: 1, Shape: []int64{int64(n)}}, b.Bytes()
}

// Memory that neither Go nor a Buffer owns takes part in every operation, on both sides.
func TestTensorMoves(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	if err := b.Worker().ReceiveAM(1); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 1024, 1025, 100_000} {
		from, src := hostTensor(t, n)
		to, dst := hostTensor(t, n+8)
		to.ByteOffset, to.Shape = 4, []int64{1, int64(n)}
		check := func(op string, err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%s of %d bytes: %v", op, n, err)
			}
			if !bytes.Equal(dst[4:4+n], src) || dst[0]|dst[3]|dst[4+n]|dst[7+n] != 0 {
				t.Fatalf("%s of %d bytes: the memory differs", op, n)
			}
			clear(dst)
		}
		copy(src, testBytes(uint64(n), n))
		check("tag", both(func() error { return a.Send(ctx, Tensor(from), 1) },
			func() error { _, err := b.Recv(ctx, Tensor(to), 1, FullMask); return err }))
		check("worker", both(func() error { return a.Send(ctx, Tensor(from), 1) },
			func() error { _, err := b.Worker().Recv(ctx, Tensor(to), 1, FullMask); return err }))
		check("stream", both(func() error { return a.SendStream(ctx, Tensor(from)) },
			func() error { _, err := b.RecvStream(ctx, Tensor(to), true); return err }))
		k := n / 2
		check("am", both(func() error {
			return a.SendAM(ctx, 1, nil, AMOptions{}, Tensor(from).Slice(0, k), Tensor(from).Slice(k, n-k))
		},
			func() error {
				m, err := b.Worker().RecvAM(ctx, 1)
				if err != nil {
					return err
				}
				return m.Recv(ctx, Tensor(to))
			}))
	}
}

func TestArrayViews(t *testing.T) {
	cai := func(text string) *CUDAArray {
		t.Helper()
		var a CUDAArray
		if err := json.Unmarshal([]byte(text), &a); err != nil {
			t.Fatal(err)
		}
		return &a
	}
	v := Array(cai(`{"shape": [2, 3], "typestr": "<f4", "data": [4096, true], "version": 3, "strides": [4, 8], "stream": 1}`), 2)
	if v.bad != nil || v.Len() != 24 || v.Kind() != mem.Device || v.device != 2 || !v.ReadOnly() || v.base() != 4096 || v.memType() != 1 {
		t.Errorf("Fortran order: %+v", v)
	}
	v = Tensor(&DLTensor{Data: 4096, DeviceType: 13, DeviceID: 1, Code: 2, Bits: 64, Lanes: 1, Shape: []int64{4}})
	if v.bad != nil || v.Len() != 32 || v.Kind() != mem.Managed || v.device != 1 || v.memType() != 2 {
		t.Errorf("managed: %+v", v)
	}
	v = Tensor(&DLTensor{Data: 4096, DeviceType: 3, Code: 2, Bits: 64, Lanes: 1, Shape: []int64{4}})
	if v.bad != nil || v.Kind() != mem.Pinned || v.device != -1 || v.memType() != 0 {
		t.Errorf("pinned: %+v", v)
	}
	if v := Array(cai(`{"shape": [0], "typestr": "<f4", "data": [0, false], "version": 3}`), -1); v.bad != nil || v.Len() != 0 {
		t.Errorf("empty: %+v", v)
	}
}

// What is not one run of plain bytes is refused, by the operation that it is given to.
func TestArrayRefused(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	good := CUDAArray{Shape: []int64{4, 4}, TypeStr: "<f4", Ptr: 1 << 20, Version: 3}
	cai := func(f func(*CUDAArray)) View {
		a := good
		f(&a)
		return Array(&a, 0)
	}
	for _, c := range []struct {
		name string
		view View
		is   error
		has  string
	}{
		{"rows of a matrix", cai(func(a *CUDAArray) { a.Strides = []int64{32, 4} }), ErrNotContiguous, "contiguous array first"},
		{"reversed", cai(func(a *CUDAArray) { a.Shape, a.Strides = []int64{4}, []int64{-4} }), ErrNotContiguous, "strides [-4]"},
		{"objects", cai(func(a *CUDAArray) { a.TypeStr = "|O" }), ErrElementType, "|O"},
		{"masked", cai(func(a *CUDAArray) { a.Masked = true }), nil, "mask"},
		{"old", cai(func(a *CUDAArray) { a.Version = 1 }), nil, "version 1"},
		{"no device", Array(&good, -1), nil, "cuda.Pointer"},
		{"nothing", Array(nil, 0), nil, "nil *CUDAArray"},
		{"no tensor", Tensor(nil), nil, "nil *DLTensor"},
		{"AMD", Tensor(&DLTensor{Data: 4096, DeviceType: 10, Code: 2, Bits: 32, Lanes: 1, Shape: []int64{4}}), ErrUnsupported, "rocm"},
		{"handles", Tensor(&DLTensor{Data: 4096, DeviceType: 1, Code: 3, Bits: 64, Lanes: 1, Shape: []int64{4}}), ErrElementType, "handles"},
		{"bits", Tensor(&DLTensor{Data: 4096, DeviceType: 1, Code: 0, Bits: 4, Lanes: 1, Shape: []int64{4}}), ErrElementType, "4 bits"},
	} {
		for op, err := range map[string]error{
			"Send":      a.Send(ctx, c.view, 1),
			"StartSend": a.StartSend(c.view, 1).Err(),
			"SendAM":    a.SendAM(ctx, 1, nil, AMOptions{}, c.view, c.view),
			"Stream":    a.SendStream(ctx, c.view),
		} {
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.has) {
				t.Errorf("%s: %s: %v", c.name, op, err)
			}
		}
	}
	from, src := hostTensor(t, 8)
	copy(src, "constant")
	from.ReadOnly = true
	if _, err := b.Recv(ctx, Tensor(from), 1, FullMask); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("receive into a read-only tensor: %v", err)
	}
	got := make([]byte, 8)
	if err := both(func() error { return a.Send(ctx, Tensor(from), 1) },
		func() error { _, err := b.Recv(ctx, Bytes(got), 1, FullMask); return err }); err != nil || string(got) != "constant" {
		t.Errorf("send of a read-only tensor: %q, %v", got, err)
	}
}
