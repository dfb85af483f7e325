package cuda_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
)

var ctxBackground = context.Background()

const guard = 512

// guarded allocates n bytes between two guards that are filled with 0xa5.
func guarded(t testing.TB, r mem.Resource, n int) (whole, inner *mem.Buffer) {
	t.Helper()
	whole = alloc(t, r, n+2*guard)
	must(t, cuda.CopyFromHost(within(t), whole, bytes.Repeat([]byte{0xa5}, n+2*guard)))
	return whole, whole.Slice(guard, n)
}

// checkGuarded reads everything back and compares the inner bytes and both guards.
func checkGuarded(t testing.TB, whole *mem.Buffer, want []byte) {
	t.Helper()
	got := read(t, whole)
	edge := bytes.Repeat([]byte{0xa5}, guard)
	checkSame(t, "guard before", got[:guard], edge)
	checkSame(t, "content", got[guard:len(got)-guard], want)
	checkSame(t, "guard behind", got[len(got)-guard:], edge)
}

func TestGPUCopyPattern(t *testing.T) {
	requireGPU(t)
	for _, c := range []struct {
		name string
		r    mem.Resource
	}{
		{"device", cuda.NewDeviceResource(0)},
		{"managed", cuda.NewManagedResource(0)},
		{"pinned", cuda.NewPinnedResource(0)},
	} {
		for _, n := range []int{1, 3, 255, 4096, 1<<20 + 7} {
			t.Run(fmt.Sprintf("%s/%d", c.name, n), func(t *testing.T) {
				regions, _ := mem.Live()
				whole, inner := guarded(t, c.r, n)
				if whole.Kind() != c.r.Kind() || whole.Device() != c.r.Device() {
					t.Errorf("%v", whole)
				}
				want := pattern(n)
				must(t, cuda.CopyFromHost(within(t), inner, want))
				checkGuarded(t, whole, want)

				// Device to device, through another allocation, into a shifted place.
				other, otherInner := guarded(t, cuda.NewDeviceResource(0), n)
				must(t, cuda.Copy(within(t), otherInner, inner))
				checkGuarded(t, other, want)
				must(t, cuda.Fill(within(t), otherInner, 0x3c))
				checkGuarded(t, other, bytes.Repeat([]byte{0x3c}, n))
				checkGuarded(t, whole, want)
				if inner.Ready() != nil || otherInner.Ready() != nil {
					t.Error("a finished waiting copy leaves a ready event")
				}
				for _, b := range []*mem.Buffer{whole, inner, other, otherInner} {
					b.Release()
				}
				if r, _ := mem.Live(); r != regions {
					t.Errorf("%d regions left", r-regions)
				}
			})
		}
	}
}

func TestGPUEmptyBuffers(t *testing.T) {
	requireGPU(t)
	for _, r := range []mem.Resource{cuda.NewDeviceResource(0), cuda.NewManagedResource(0), cuda.NewPinnedResource(0),
		cuda.NewAsyncResource(newStream(t, 0))} {
		b := alloc(t, r, 0)
		if b.Len() != 0 || b.Kind() != r.Kind() {
			t.Errorf("%v", b)
		}
		must(t, cuda.CopyFromHost(within(t), b, nil))
		must(t, cuda.Fill(within(t), b, 1))
		b.Release()
	}
}

func TestGPUManagedFromBothSides(t *testing.T) {
	requireGPU(t)
	b := alloc(t, cuda.NewManagedResource(0), 1<<16)
	defer b.Release()
	want := pattern(b.Len())
	copy(b.Bytes(), want) // by the CPU
	d := alloc(t, cuda.NewDeviceResource(0), b.Len())
	defer d.Release()
	must(t, cuda.Copy(within(t), d, b))
	checkSame(t, "written by the CPU", read(t, d), want)
	must(t, cuda.Fill(within(t), b, 7)) // by the GPU
	checkSame(t, "written by the GPU", b.Bytes(), bytes.Repeat([]byte{7}, b.Len()))
}

func TestGPUPointerAttributes(t *testing.T) {
	requireGPU(t)
	const n = 1 << 20
	for _, c := range []struct {
		r   mem.Resource
		ipc bool
	}{
		{cuda.NewDeviceResource(0), true}, {cuda.NewManagedResource(0), false}, {cuda.NewPinnedResource(0), false},
	} {
		b := alloc(t, c.r, n)
		for _, off := range []uintptr{0, 1, n - 1} {
			a := one(cuda.Pointer(b.Addr() + off))(t)
			if !a.Known || a.Kind != b.Kind() || a.Device != 0 || c.ipc && !a.IPC {
				t.Errorf("%v+%d: %+v", b, off, a)
			}
			if (c.ipc || a.Size > 0) && (a.Base != b.Addr() || a.Size < n) {
				t.Errorf("%v+%d: range %#x, %d", b, off, a.Base, a.Size)
			}
		}
		b.Release()
	}
	heap := make([]byte, 100)
	h := mem.FromBytes(heap)
	if a := one(cuda.Pointer(h.Addr()))(t); a.Known || a.Kind != mem.Host || a.Device != -1 {
		t.Errorf("Go heap: %+v", a)
	}
	_, err := cuda.FromPointer(h.Addr(), 100, nil)
	wantError(t, err, cuda.ErrInvalidValue, "unknown to CUDA")
}

func TestGPUFromPointer(t *testing.T) {
	requireGPU(t)
	owner := alloc(t, cuda.NewDeviceResource(0), 8192)
	freed := false
	b := one(cuda.FromPointer(owner.Addr()+100, 1000, func() { freed = true; owner.Release() }))(t)
	if b.Kind() != mem.Device || b.Device() != 0 || b.Len() != 1000 {
		t.Errorf("%v", b)
	}
	want := pattern(1000)
	must(t, cuda.CopyFromHost(within(t), b, want))
	checkSame(t, "through the owner", read(t, owner)[100:1100], want)
	a := one(cuda.Pointer(owner.Addr()))(t)
	_, err := cuda.FromPointer(owner.Addr()+1, a.Size, nil)
	wantError(t, err, cuda.ErrInvalidValue, "the allocation is")
	b.Release()
	if !freed {
		t.Error("free did not run")
	}
}

func TestGPUPoolOnDevice(t *testing.T) {
	requireGPU(t)
	p, err := mem.NewPool(cuda.NewDeviceResource(0), mem.PoolConfig{SlabBytes: 8 << 20, MaxBytes: 16 << 20})
	must(t, err)
	var bufs []*mem.Buffer
	var want [][]byte
	for i := range 32 {
		b := alloc(t, p, 100_000+i)
		w := pattern(b.Len())
		must(t, cuda.CopyFromHost(within(t), b, w))
		bufs, want = append(bufs, b), append(want, w)
		if b.Region() != bufs[0].Region() {
			t.Fatalf("buffer %d has a region of its own", i)
		}
	}
	for i := 0; i < len(bufs); i += 2 { // holes
		bufs[i].Release()
	}
	for i := 0; i < len(bufs); i += 2 {
		bufs[i], want[i] = alloc(t, p, 50_000), pattern(50_000)
		must(t, cuda.CopyFromHost(within(t), bufs[i], want[i]))
	}
	for i, b := range bufs {
		checkSame(t, fmt.Sprintf("buffer %d", i), read(t, b), want[i])
		b.Release()
	}
	wantError(t, second(p.Alloc(within(t), 17<<20)), mem.ErrOutOfMemory)
	must(t, p.Close())
}

// TestPoolKeepsMemoryInFlight: a buffer released right after an asynchronous write goes back
// to the pool only when the write is done.
func TestGPUPoolKeepsMemoryInFlight(t *testing.T) {
	requireGPU(t)
	const n = 64 << 20
	p, err := mem.NewPool(cuda.NewDeviceResource(0), mem.PoolConfig{SlabBytes: n, MaxBytes: n, Wait: true})
	must(t, err)
	s := newStream(t, 0)
	for round := range 20 {
		a := alloc(t, p, n)
		one(s.Fill(a, 1))(t)
		one(s.Fill(a, 2))(t)
		a.Release()         // still being written
		b := alloc(t, p, n) // the same memory
		must(t, cuda.Fill(within(t), b, byte(round)))
		got := make([]byte, 4096)
		tail := b.Slice(n-4096, 4096)
		must(t, cuda.CopyToHost(within(t), got, tail))
		checkSame(t, "after reuse", got, bytes.Repeat([]byte{byte(round)}, 4096))
		tail.Release()
		b.Release()
	}
	must(t, p.Close())
}

// TestManyThreads: goroutines move between OS threads, the current context does not.
func TestGPUManyThreads(t *testing.T) {
	requireGPU(t)
	devices := one(cuda.DeviceCount())(t)
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := range 20 {
				dev := (g + i) % devices
				b, err := cuda.NewDeviceResource(dev).Alloc(ctxBackground, 10_000)
				if err != nil {
					t.Error(err)
					return
				}
				want, got := pattern(10_000), make([]byte, 10_000)
				err = errors.Join(cuda.CopyFromHost(ctxBackground, b, want), cuda.CopyToHost(ctxBackground, got, b))
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("device %d: %v, equal: %v", dev, err, bytes.Equal(got, want))
				}
				b.Release()
			}
		})
	}
	wg.Wait()
}

// TestGPUCopyBetweenDevices copies from the first device to the last. With one device they are the
// same, and the copy is between two allocations.
func TestGPUCopyBetweenDevices(t *testing.T) {
	requireGPU(t)
	last := one(cuda.DeviceCount())(t) - 1
	t.Logf("from device 0 to device %d", last)
	whole, inner := guarded(t, cuda.NewDeviceResource(last), 1<<20)
	src := alloc(t, cuda.NewDeviceResource(0), 1<<20)
	want := pattern(1 << 20)
	must(t, cuda.CopyFromHost(within(t), src, want))
	must(t, cuda.Copy(within(t), inner, src))
	checkGuarded(t, whole, want)
	for _, b := range []*mem.Buffer{whole, inner, src} {
		b.Release()
	}
}
