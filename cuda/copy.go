package cuda

import (
	"context"
	"fmt"
	"runtime"
	"sync"

	"go.millstream.dev/internal/device/cudrv"
	"go.millstream.dev/mem"
)

// Copy enqueues a copy of src to dst, which must have equal length: host to device, device to host, device to device
// (also of another GPU), or host to host. It waits on the device for the ready events of both, sets the returned event
// as dst's ready event, and holds both buffers until it is done; the caller may release them immediately. If host
// memory is not pinned the call blocks for the duration of the copy.
//
// src must not be written before the event is done.
func (s *Stream) Copy(dst, src *mem.Buffer) (*Event, error) {
	if err := checkCopy(dst, src); err != nil {
		return nil, err
	}
	waitDst, waitSrc := dst.Ready(), src.Ready()
	w1, err := pendingHandle(waitDst)
	if err != nil {
		return nil, err
	}
	w2, err := pendingHandle(waitSrc)
	if err != nil {
		return nil, err
	}
	e, err := s.enqueue("copy", func(e *Event) cudrv.Result {
		return cudrv.Copy(s.device, uint64(dst.Addr()), uint64(src.Addr()), dst.Len(), s.handle, w1, w2, e.handle)
	}, dst, src)
	runtime.KeepAlive(waitDst)
	runtime.KeepAlive(waitSrc)
	if err != nil {
		return nil, err
	}
	dst.SetReady(e)
	return e, nil
}

// Fill enqueues setting every byte of dst to value, like Copy. dst must be CUDA memory: device, managed or pinned by
// this package.
func (s *Stream) Fill(dst *mem.Buffer, value byte) (*Event, error) {
	if err := checkWrite("fill", dst); err != nil {
		return nil, err
	}
	wait := dst.Ready()
	w, err := pendingHandle(wait)
	if err != nil {
		return nil, err
	}
	e, err := s.enqueue("fill", func(e *Event) cudrv.Result {
		return cudrv.Fill(s.device, uint64(dst.Addr()), value, dst.Len(), s.handle, w, e.handle)
	}, dst)
	runtime.KeepAlive(wait)
	if err != nil {
		return nil, err
	}
	dst.SetReady(e)
	return e, nil
}

// enqueue runs submit with a new event that holds bufs until it is done.
func (s *Stream) enqueue(op string, submit func(*Event) cudrv.Result, bufs ...*mem.Buffer) (*Event, error) {
	if err := s.acquire(); err != nil {
		return nil, err
	}
	defer s.release()
	e, err := NewEvent(s.device, EventConfig{})
	if err != nil {
		return nil, err
	}
	e.stream.Store(s)
	e.hold(bufs...)
	r := submit(e)
	if r != cudrv.Success && cudrv.EventRecord(s.device, e.handle, s.handle) != cudrv.Success {
		e.letGo() // the context is broken, no work runs in it
		return nil, check(op, s.device, r)
	}
	s.keepWork(e) // also after an error: part of the work may be running
	if err := check(op, s.device, r); err != nil {
		return nil, err
	}
	return e, nil
}

func checkWrite(op string, dst *mem.Buffer) error {
	if dst.ReadOnly() {
		return fmt.Errorf("cuda: %s into read-only memory: %v", op, dst)
	}
	return nil
}

func checkCopy(dst, src *mem.Buffer) error {
	if dst.Len() != src.Len() {
		return fmt.Errorf("cuda: copy of %d bytes into %d bytes: lengths must be equal; slice one of the buffers",
			src.Len(), dst.Len())
	}
	return checkWrite("copy", dst)
}

// Copy copies src to dst, of equal length, and waits for completion. It waits for the ready events of both first. When
// ctx ends earlier it returns immediately; the copy continues, and holds both buffers until it is done.
func Copy(ctx context.Context, dst, src *mem.Buffer) error {
	if err := checkCopy(dst, src); err != nil {
		return err
	}
	device := max(dst.Device(), src.Device())
	if dst.Device() >= 0 {
		device = dst.Device()
	}
	if device < 0 { // no device is involved
		if err := src.WaitReady(ctx); err != nil {
			return err
		}
		if err := dst.WaitReady(ctx); err != nil {
			return err
		}
		copy(dst.Bytes(), src.Bytes())
		return nil
	}
	return onSpareStream(ctx, device, dst, func(s *Stream) (*Event, error) { return s.Copy(dst, src) })
}

// Fill sets every byte of dst to value and waits for completion, like Copy.
func Fill(ctx context.Context, dst *mem.Buffer, value byte) error {
	if err := checkWrite("fill", dst); err != nil {
		return err
	}
	if dst.Device() < 0 {
		if err := dst.WaitReady(ctx); err != nil {
			return err
		}
		b := dst.Bytes()
		for i := range b {
			b[i] = value
		}
		return nil
	}
	return onSpareStream(ctx, dst.Device(), dst, func(s *Stream) (*Event, error) { return s.Fill(dst, value) })
}

// CopyToHost copies device memory into a Go slice of equal length and waits for completion.
func CopyToHost(ctx context.Context, dst []byte, src *mem.Buffer) error {
	return Copy(ctx, mem.FromBytes(dst), src)
}

// CopyFromHost copies a Go slice into device memory of equal length and waits for completion.
func CopyFromHost(ctx context.Context, dst *mem.Buffer, src []byte) error {
	return Copy(ctx, dst, mem.FromBytes(src))
}

// copyIn is the hook for bindings that copy host bytes to device memory given by its address. Once started it returns
// after the copy, even if ctx ends: the caller owns the memory again when it returns.
func copyIn(ctx context.Context, device int, dst uintptr, src []byte) error {
	if err := ctx.Err(); err != nil || len(src) == 0 {
		return err
	}
	if small(len(src)) {
		return smallIn(device, dst, src)
	}
	b := mem.NewRegion(mem.RegionConfig{Addr: dst, Len: len(src), Kind: mem.Device, Device: device}).Buffer()
	defer b.Release()
	return CopyFromHost(context.WithoutCancel(ctx), b, src)
}

// copyOut is the hook for the other direction.
func copyOut(ctx context.Context, device int, dst []byte, src uintptr) error {
	if err := ctx.Err(); err != nil || len(dst) == 0 {
		return err
	}
	if small(len(dst)) {
		return smallOut(device, dst, src)
	}
	b := mem.NewRegion(mem.RegionConfig{Addr: src, Len: len(dst), Kind: mem.Device, Device: device}).Buffer()
	defer b.Release()
	return CopyToHost(context.WithoutCancel(ctx), dst, b)
}

// spareStreams are for blocking calls, one stream each, so that calls do not queue behind each other.
var spareStreams struct {
	sync.Mutex
	free map[int][]*Stream
}

func onSpareStream(ctx context.Context, device int, dst *mem.Buffer, submit func(*Stream) (*Event, error)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	spareStreams.Lock()
	var s *Stream
	if l := spareStreams.free[device]; len(l) > 0 {
		s, spareStreams.free[device] = l[len(l)-1], l[:len(l)-1]
	}
	spareStreams.Unlock()
	if s == nil {
		var err error
		if s, err = NewStream(device, StreamConfig{}); err != nil {
			return err
		}
	}
	defer func() {
		spareStreams.Lock()
		defer spareStreams.Unlock()
		if spareStreams.free == nil {
			spareStreams.free = map[int][]*Stream{}
		}
		spareStreams.free[device] = append(spareStreams.free[device], s)
	}()
	e, err := submit(s)
	if err != nil {
		return err
	}
	if err := e.Wait(ctx); err != nil {
		return err
	}
	if dst.Ready() == mem.Event(e) {
		dst.SetReady(nil) // saves later readers a query
	}
	return nil
}
