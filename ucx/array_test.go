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
func hostTensor(t *testing.T, n int) (Tensor, []byte) {
	t.Helper()
	b, err := mem.NewMmap(mem.MmapConfig{}).Alloc(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Release)
	return Tensor{Data: uint64(b.Addr()), DeviceType: 1, Code: 1, Bits: 8, Lanes: 1,
		Shape: []int64{int64(n)}}, b.Bytes()
}

func viewed(t *testing.T, ten Tensor) View {
	t.Helper()
	v, err := FromTensor(ten)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Memory that neither Go nor a Buffer owns takes part in every operation, on both sides.
func TestTensorMoves(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	if err := b.Worker().OpenAM(1); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 1024, 1025, 100_000} {
		src, sb := hostTensor(t, n)
		dst, db := hostTensor(t, n+8)
		dst.ByteOffset, dst.Shape = 4, []int64{1, int64(n)}
		from, to := viewed(t, src), viewed(t, dst)
		if from.goHeap() || from.Len() != n || from.Kind() != mem.Host || from.base() != uintptr(src.Data) ||
			to.base() != uintptr(dst.Data)+4 {
			t.Errorf("%d bytes: %+v, %+v", n, from, to)
		}
		check := func(op string, err error) {
			t.Helper()
			if err != nil {
				t.Fatalf("%s of %d bytes: %v", op, n, err)
			}
			if !bytes.Equal(db[4:4+n], sb) || db[0]|db[3]|db[4+n]|db[7+n] != 0 {
				t.Fatalf("%s of %d bytes: the memory differs", op, n)
			}
			clear(db)
		}
		copy(sb, testBytes(uint64(n), n))
		check("tag", both(func() error { return a.Send(ctx, from, 1) },
			func() error { _, err := b.Recv(ctx, to, 1, FullMask); return err }))
		check("worker", both(func() error { return a.Send(ctx, from, 1) },
			func() error { _, err := b.Worker().Recv(ctx, to, 1, FullMask); return err }))
		check("stream", both(func() error { return a.SendStream(ctx, from) },
			func() error { _, err := b.RecvStream(ctx, to, true); return err }))
		k := n / 2
		check("am", both(func() error {
			return a.SendAM(ctx, 1, nil, AMOptions{}, from.Slice(0, k),
				from.Slice(k, n-k))
		},
			func() error {
				m, err := b.Worker().RecvAM(ctx, 1)
				if err != nil {
					return err
				}
				return m.Recv(ctx, to)
			}))
		check("frames", both(func() error { return a.SendFrames(ctx, from.Slice(0, k), from.Slice(k, n-k)) },
			func() error {
				f, err := b.RecvFrames(ctx, Allocators{})
				if err != nil {
					return err
				}
				defer f.Release()
				copy(db[4+copy(db[4:], f[0].Bytes()):], f[1].Bytes())
				return nil
			}))
	}
}

func TestArrayViews(t *testing.T) {
	var a ArrayInterface
	text := `{"shape": [2, 3], "typestr": "<f4", "data": [4096, true], "version": 3, "strides": [4, 8], "stream": null}`
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatal(err)
	}
	v, err := FromArrayInterface(a, 2)
	if err != nil || v.Len() != 24 || v.Kind() != mem.Device || v.device != 2 || !v.readOnly || v.base() != 4096 ||
		v.memType() != 1 {
		t.Errorf("Fortran order: %+v, %v", v, err)
	}
	v, err = FromTensor(Tensor{Data: 4096, DeviceType: 13, DeviceID: 1, Code: 2, Bits: 64, Lanes: 1, Shape: []int64{4}})
	if err != nil || v.Len() != 32 || v.Kind() != mem.Managed || v.device != 1 || v.memType() != 2 {
		t.Errorf("managed: %+v, %v", v, err)
	}
	v, err = FromTensor(Tensor{Data: 4096, DeviceType: 3, Code: 2, Bits: 64, Lanes: 1, Shape: []int64{4}})
	if err != nil || v.Kind() != mem.Pinned || v.device != -1 || v.memType() != 0 {
		t.Errorf("pinned: %+v, %v", v, err)
	}
	// An empty array needs no device and waits for nobody.
	v, err = FromArrayInterface(ArrayInterface{Shape: []int64{0}, TypeStr: "<f4", Version: 3, Stream: 1}, -1)
	if err != nil || v.Len() != 0 {
		t.Errorf("empty: %+v, %v", v, err)
	}
}

// What is not one run of plain bytes, ready and of a known place, is refused.
func TestArrayRefused(t *testing.T) {
	good := ArrayInterface{Shape: []int64{4, 4}, TypeStr: "<f4", Ptr: 1 << 20, Version: 3}
	cai := func(f func(*ArrayInterface)) error {
		a := good
		f(&a)
		_, err := FromArrayInterface(a, 0)
		return err
	}
	dl := func(f func(*Tensor)) error {
		x := Tensor{Data: 4096, DeviceType: 1, Code: 2, Bits: 32, Lanes: 1, Shape: []int64{4}}
		f(&x)
		_, err := FromTensor(x)
		return err
	}
	_, noDevice := FromArrayInterface(good, -1)
	for _, c := range []struct {
		name string
		err  error
		is   error
		has  string
	}{
		{"rows of a matrix", cai(func(a *ArrayInterface) { a.Strides = []int64{32, 4} }), ErrNotContiguous,
			"contiguous array first"},
		{"reversed", cai(func(a *ArrayInterface) { a.Shape, a.Strides = []int64{4}, []int64{-4} }), ErrNotContiguous,
			"strides [-4]"},
		{"objects", cai(func(a *ArrayInterface) { a.TypeStr = "|O" }), ErrElementType, "|O"},
		{"masked", cai(func(a *ArrayInterface) { a.Masked = true }), nil, "mask"},
		{"old", cai(func(a *ArrayInterface) { a.Version = 1 }), nil, "version 1"},
		{"not ready", cai(func(a *ArrayInterface) { a.Stream = 7 }), nil, "stream 0x7"},
		{"no device", noDevice, nil, "cuda.Pointer"},
		{"AMD", dl(func(x *Tensor) { x.DeviceType = 10 }), errUnsupported, "rocm"},
		{"handles", dl(func(x *Tensor) { x.Code = 3 }), ErrElementType, "handles"},
		{"bits", dl(func(x *Tensor) { x.Bits = 4 }), ErrElementType, "4 bits"},
		{"every second", dl(func(x *Tensor) { x.Strides = []int64{2} }), ErrNotContiguous, "strides"},
	} {
		if c.err == nil || c.is != nil && !errors.Is(c.err, c.is) || !strings.Contains(c.err.Error(), c.has) {
			t.Errorf("%s: %v", c.name, c.err)
		}
	}
}

// Read-only memory can be sent, not received into; a refused view can be used for nothing.
func TestTensorReadOnly(t *testing.T) {
	ctx := testContext(t)
	a, b := pair(t, Config{}, WorkerConfig{})
	ten, src := hostTensor(t, 8)
	copy(src, "constant")
	ten.ReadOnly = true
	v := viewed(t, ten)
	if _, err := b.Recv(ctx, v, 1, FullMask); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("receive into a read-only tensor: %v", err)
	}
	got := make([]byte, 8)
	if err := both(func() error { return a.Send(ctx, v, 1) },
		func() error { _, err := b.Recv(ctx, Bytes(got), 1, FullMask); return err }); err != nil ||
		string(got) != "constant" {
		t.Errorf("send of a read-only tensor: %q, %v", got, err)
	}
}

// A message is gathered from one kind of memory; parts of several kinds are refused
// before UCX sees them.
func TestMessagePartsRefused(t *testing.T) {
	ctx := testContext(t)
	a, _ := pair(t, Config{}, WorkerConfig{})
	device, err := FromArrayInterface(ArrayInterface{Shape: []int64{4}, TypeStr: "|u1", Ptr: 1 << 20, Version: 3}, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, parts := range map[string][]View{
		"host, device":    {Bytes([]byte("host")), device},
		"device, host":    {device, Bytes([]byte("host"))},
		"a part too many": {Bytes([]byte("host")), Bytes([]byte("host")).Slice(2, 3)},
	} {
		for form, err := range map[string]error{
			"SendAM":      a.SendAM(ctx, 1, nil, AMOptions{}, parts...),
			"StartSendAM": a.StartSendAM(1, nil, AMOptions{}, parts...).Wait(ctx),
		} {
			var oe *OpError
			if !errors.As(err, &oe) || !strings.Contains(err.Error(), "kinds of memory") &&
				!strings.Contains(err.Error(), "slice") {
				t.Errorf("%s: %s: %v", name, form, err)
			}
		}
	}
	if n := a.Worker().Stats().InFlight; n != 0 {
		t.Errorf("%d refused messages are in flight", n)
	}
}
