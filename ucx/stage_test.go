package ucx

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"unsafe"

	"go.millstream.dev/internal/device/hooks"
	"go.millstream.dev/mem"
)

// fakeHooks replaces the functions that copy device memory: the memory of the test's device is host memory.
func fakeHooks(t *testing.T, fail error) {
	t.Helper()
	before, ok := hooks.Get()
	at := func(addr uintptr, n int) []byte { return unsafe.Slice((*byte)(foreign(addr)), n) }
	hooks.Register(hooks.Hooks{
		CopyIn: func(_ context.Context, _ int, dst uintptr, src []byte) error {
			copy(at(dst, len(src)), src)
			return fail
		},
		CopyOut: func(_ context.Context, _ int, dst []byte, src uintptr) error {
			copy(dst, at(src, len(dst)))
			return fail
		},
	})
	t.Cleanup(func() {
		if ok {
			hooks.Register(before)
		} else {
			hooks.Register(hooks.Hooks{})
		}
	})
}

// fakeDevice returns memory that looks like device memory, and its bytes.
func fakeDevice(t *testing.T, n int) (*mem.Buffer, []byte) {
	t.Helper()
	host, err := mem.NewMmap(mem.MmapConfig{}).Alloc(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(host.Release)
	b := mem.NewRegion(mem.RegionConfig{Addr: host.Addr(), Len: n, Kind: mem.Device}).Buffer()
	t.Cleanup(b.Release)
	return b, host.Bytes()
}

// Messages of device memory up to the limit are copied through host memory, of any length, in both directions, and keep
// their tags and lengths.
func TestStagedTags(t *testing.T) {
	fakeHooks(t, nil)
	ctx := testContext(t)
	a, b := pair(t, Config{StageDevice: MaxStageDevice}, WorkerConfig{})
	out, outBytes := fakeDevice(t, MaxStageDevice)
	in, inBytes := fakeDevice(t, MaxStageDevice)
	for k, n := range []int{1, 2, 7, 8, 1000, 1024, 1025, MaxStageDevice} {
		clear(inBytes)
		for i := range outBytes {
			outBytes[i] = byte(i*7 + k)
		}
		got := make(chan error, 1)
		var info RecvInfo
		go func() {
			var err error
			info, err = b.Recv(ctx, Buffer(in), uint64(k), FullMask) // longer than the message
			got <- err
		}()
		send := a.Send
		if k%2 != 0 {
			send = a.SendSync
		}
		if err := send(ctx, Buffer(out).Slice(0, n), uint64(k)); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Fatal(err)
		}
		if info.Len != n || info.Tag != uint64(k) || !bytes.Equal(inBytes[:n], outBytes[:n]) {
			t.Errorf("%d bytes: got %+v, equal %v", n, info, bytes.Equal(inBytes[:n], outBytes[:n]))
		}
		if n < len(inBytes) && bytes.ContainsFunc(inBytes[n:], func(r rune) bool { return r != 0 }) {
			t.Errorf("%d bytes: memory after the message was written", n)
		}
	}
}

// A canceled receive does not touch the device memory, and the next one gets the message.
func TestStagedReceiveCanceled(t *testing.T) {
	fakeHooks(t, nil)
	ctx := testContext(t)
	a, b := pair(t, Config{StageDevice: 100}, WorkerConfig{})
	in, inBytes := fakeDevice(t, 100)
	for i := range inBytes {
		inBytes[i] = 0xaa
	}
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := b.Recv(canceled, Buffer(in), 1, FullMask); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
	out, outBytes := fakeDevice(t, 100)
	copy(outBytes, "message")
	if err := a.Send(canceled, Buffer(out), 1); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled send: got %v, want %v", err, context.Canceled)
	}
	if err := a.Send(ctx, Buffer(out), 1); err != nil {
		t.Fatal(err)
	}
	if inBytes[0] != 0xaa || inBytes[99] != 0xaa {
		t.Error("the canceled receive has written to the device memory")
	}
	if _, err := b.Recv(ctx, Buffer(in), 1, FullMask); err != nil || !bytes.Equal(inBytes, outBytes) {
		t.Errorf("next receive: got %q, %v, want the message", inBytes[:7], err)
	}
}

// A message that is too long, read-only memory, a failed device and a lost peer are errors that name the operation.
func TestStagedErrors(t *testing.T) {
	ctx := testContext(t)
	fakeHooks(t, nil)
	a, b := pair(t, Config{StageDevice: 1000}, WorkerConfig{})
	out, _ := fakeDevice(t, 1000)
	in, inBytes := fakeDevice(t, 10)
	if err := a.Send(ctx, Buffer(out), 1); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Recv(ctx, Buffer(in), 1, FullMask); !errors.Is(err, ErrTruncated) {
		t.Errorf("1000 bytes into 10: got %v, want %v", err, ErrTruncated)
	}
	if bytes.ContainsFunc(inBytes, func(r rune) bool { return r != 0 }) {
		t.Error("a truncated message was copied to the device")
	}
	fixed := mem.NewRegion(mem.RegionConfig{Addr: in.Addr(), Len: 10, Kind: mem.Device, ReadOnly: true}).Buffer()
	defer fixed.Release()
	var oe *OpError
	if _, err := b.Recv(ctx, Buffer(fixed), 1, FullMask); !errors.As(err, &oe) {
		t.Errorf("read-only: got %v, want an OpError", err)
	}
	broken := errors.New("broken")
	fakeHooks(t, broken)
	if err := a.Send(ctx, Buffer(out), 1); !errors.Is(err, broken) || !errors.As(err, &oe) {
		t.Errorf("failed copy: got %v, want %v", err, broken)
	}
	if err := a.Send(ctx, Bytes([]byte("x")), 2); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Recv(ctx, Buffer(in), 2, FullMask); !errors.Is(err, broken) {
		t.Errorf("failed copy of a message: got %v, want %v", err, broken)
	}
	fakeHooks(t, nil)
	if err := a.Close(); err != nil {
		t.Error(err)
	}
	if _, err := b.Recv(ctx, Buffer(in), 3, FullMask); err == nil {
		t.Error("receive from a closed peer: got nil, want an error")
	}
}

// Other memory, longer messages and programs without package cuda are not affected.
func TestStagedLimits(t *testing.T) {
	for _, n := range []int{-1, MaxStageDevice + 1} {
		if _, err := NewContext(Config{StageDevice: n}); err == nil || !strings.Contains(err.Error(), "StageDevice") {
			t.Errorf("%d: got %v, want an error about StageDevice", n, err)
		}
	}
	w := newWorker(t, Config{StageDevice: 100}, WorkerConfig{})
	device, _ := fakeDevice(t, 200)
	for _, c := range []struct {
		v    View
		want bool
	}{
		{Buffer(device), false}, {Buffer(device).Slice(0, 100), true}, {Buffer(device).Slice(0, 0), false},
		{Buffer(device).Slice(0, 300), false}, {Bytes(make([]byte, 10)), false},
	} {
		if got := w.ctx.stages(&c.v); got != c.want {
			t.Errorf("%d bytes of %v: got %v, want %v", c.v.Len(), c.v.Kind(), got, c.want)
		}
	}
	hooks.Register(hooks.Hooks{})
	if _, err := w.Recv(testContext(t), Buffer(device).Slice(0, 10), 1, FullMask); err == nil ||
		!strings.Contains(err.Error(), "go.millstream.dev/cuda") {
		t.Errorf("without package cuda: got %v, want an error that names it", err)
	}
}
