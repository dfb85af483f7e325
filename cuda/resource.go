package cuda

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"go.millstream.dev/internal/device/cudrv"
	"go.millstream.dev/mem"
)

// resource allocates one kind of memory with the driver's synchronous calls.
type resource struct {
	kind   mem.Kind
	device int // device whose context is used
	alloc  func(device, n int) (uint64, cudrv.Result)
	free   func(device int, addr uint64) cudrv.Result
}

// NewDeviceResource returns a Resource of GPU memory (cuMemAlloc). Each allocation is a driver call, and each region is
// exported and registered separately: use a mem.Pool on top for more than a few large buffers. The device's context is
// created by the first Alloc.
func NewDeviceResource(device int) mem.Resource {
	return &resource{mem.Device, device, cudrv.MemAlloc, cudrv.MemFree}
}

// NewManagedResource returns a Resource of unified memory (cuMemAllocManaged), whose pages the driver moves between CPU
// and GPU. Unless Device.ConcurrentManagedAccess is set, the CPU must not access it while the GPU works.
func NewManagedResource(device int) mem.Resource {
	return &resource{mem.Managed, device, cudrv.MemAllocManaged, cudrv.MemFree}
}

// NewPinnedResource returns a Resource of page-locked host memory (cuMemHostAlloc), which every device can copy from
// and to at full speed. It is allocated in the device's context.
func NewPinnedResource(device int) mem.Resource {
	return &resource{mem.Pinned, device, cudrv.MemAllocHost, cudrv.MemFreeHost}
}

func (m *resource) Kind() mem.Kind { return m.kind }

func (m *resource) Device() int {
	if m.kind == mem.Pinned {
		return -1
	}
	return m.device
}

func (m *resource) Alloc(ctx context.Context, n int) (*mem.Buffer, error) {
	if err := checkAlloc(ctx, m.kind, n); err != nil {
		return nil, err
	}
	if n == 0 { // the driver rejects size 0
		return mem.NewRegion(mem.RegionConfig{Kind: m.kind, Device: m.device}).Buffer(), nil
	}
	addr, r := m.alloc(m.device, n)
	if r != cudrv.Success {
		return nil, allocError(m.kind, m.device, n, r)
	}
	return mem.NewRegion(mem.RegionConfig{
		Addr: uintptr(addr), Len: n, Kind: m.kind, Device: m.device,
		FreeAfter: func(pending []mem.Event) {
			freeAfter(pending, func() {
				logFailure(fmt.Sprintf("free %d bytes of %v memory", n, m.kind), m.device, m.free(m.device, addr))
			})
		},
	}).Buffer(), nil
}

func checkAlloc(ctx context.Context, kind mem.Kind, n int) error {
	if n < 0 {
		return fmt.Errorf("cuda: alloc of %v memory: negative size %d", kind, n)
	}
	return ctx.Err()
}

func allocError(kind mem.Kind, device, n int, r cudrv.Result) error {
	err := check(fmt.Sprintf("alloc of %d bytes of %v memory", n, kind), device, r)
	if r == cudrv.OutOfMemory && kind != mem.Pinned {
		if free, total, r := cudrv.MemInfo(device); r == cudrv.Success {
			return fmt.Errorf("%w: %d of %d bytes are free", err, free, total)
		}
	}
	return err
}

// freeAfter frees when the events are done: immediately if they are, otherwise from a separate goroutine, because
// releasing must not block.
func freeAfter(pending []mem.Event, free func()) {
	for i, e := range pending {
		if done, err := e.Query(); !done && err == nil {
			go func() {
				for _, e := range pending[i:] {
					// A broken context ends the wait too: no work runs in it.
					_ = poll(context.Background(), e.Query)
				}
				free()
			}()
			return
		}
	}
	free()
}

// logFailure logs a failure to release, for which there is no error to return.
func logFailure(op string, device int, r cudrv.Result) {
	if r == cudrv.Success || r == cudrv.Deinitialized { // the process is exiting: everything is freed
		return
	}
	slog.Warn("cuda: release failed", "op", op, "device", device, "err", Error(r))
}

// asyncResource allocates in the order of a stream.
type asyncResource struct{ s *Stream }

// NewAsyncResource returns a Resource of device memory from the device's default memory pool in the order of a stream
// (cuMemAllocAsync). A buffer's ready event completes when the stream has reached the allocation; releasing frees in
// stream order, after the ready events of all views, and never waits. The stream may be closed before the buffers are
// released.
//
// Such memory cannot be exported with ExportMem, and transports may need a copy to send it: for communication prefer a
// mem.Pool on NewDeviceResource.
func NewAsyncResource(s *Stream) mem.Resource { return &asyncResource{s} }

func (a *asyncResource) Kind() mem.Kind { return mem.Device }
func (a *asyncResource) Device() int    { return a.s.device }

func (a *asyncResource) Alloc(ctx context.Context, n int) (*mem.Buffer, error) {
	s := a.s
	if err := checkAlloc(ctx, mem.Device, n); err != nil {
		return nil, err
	}
	if n == 0 {
		return mem.NewRegion(mem.RegionConfig{Kind: mem.Device, Device: s.device}).Buffer(), nil
	}
	if err := s.acquire(); err != nil { // until the memory is freed
		return nil, err
	}
	e, err := NewEvent(s.device, EventConfig{})
	if err != nil {
		s.release()
		return nil, err
	}
	addr, r := cudrv.MemAllocAsync(s.device, n, s.handle, e.handle)
	if r != cudrv.Success {
		s.release()
		return nil, allocError(mem.Device, s.device, n, r)
	}
	b := mem.NewRegion(mem.RegionConfig{
		Addr: uintptr(addr), Len: n, Kind: mem.Device, Device: s.device,
		FreeAfter: func(pending []mem.Event) { s.free(addr, n, pending) },
	}).Buffer()
	b.SetReady(e)
	return b, nil
}

// free orders the free after pending events, on the device.
func (s *Stream) free(addr uint64, n int, pending []mem.Event) {
	defer s.release()
	for _, e := range pending {
		h, err := pendingHandle(e)
		if err != nil && !errors.Is(err, ErrClosed) {
			slog.Warn("cuda: free after an event failed", "device", s.device, "err", err)
		}
		if h != 0 {
			logFailure("order free after an event", s.device, cudrv.StreamWait(s.device, s.handle, h))
		}
	}
	logFailure(fmt.Sprintf("free %d bytes in stream order", n), s.device, cudrv.MemFreeAsync(s.device, addr, s.handle))
}
