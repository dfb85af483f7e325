// Package stagetest provides a device for tests of staged transfers without a GPU: memory that the CPU must not access
// through package mem, and queues whose copies are delayed as long as possible.
package stagetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"go.millstream.dev/internal/device/staging"
	"go.millstream.dev/mem"
)

// Device is a simulated GPU. Its copies run only when one of their events is queried, and then no more than needed: a
// chunk that is reused too early is detected as wrong data.
type Device struct {
	ordinal int
	live    atomic.Int64 // bytes allocated, of its memory and pinned

	mu     sync.Mutex // guards what follows, and copies run with it held
	copies int        // enqueued so far
	failAt int        // which of them fails, 0 for none
	failBy error
	queues []*Queue
}

// NewDevice returns a device with an ordinal that no real GPU has.
func NewDevice(ordinal int) *Device { return &Device{ordinal: ordinal} }

// Ordinal returns the ordinal of the device.
func (d *Device) Ordinal() int { return d.ordinal }

// FailCopy makes the copy number n from now on fail to be enqueued.
func (d *Device) FailCopy(n int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.failAt, d.failBy = d.copies+n, err
}

// Live returns the number of allocated bytes of device and pinned memory.
func (d *Device) Live() int64 { return d.live.Load() }

// Drain runs all copies.
func (d *Device) Drain() {
	d.mu.Lock()
	queues := slices.Clone(d.queues)
	d.mu.Unlock()
	for _, q := range queues {
		for q.step() {
		}
	}
}

// Engine returns an engine on two queues of the device.
func (d *Device) Engine(chunk, depth int) (*staging.Engine, error) {
	return staging.New(staging.Config{Down: d.Queue(), Up: d.Queue(), Pinned: d.Pinned(), Chunk: chunk, Depth: depth})
}

// Memory returns a resource of the device's memory.
func (d *Device) Memory() mem.Resource { return resource{d, mem.Device} }

// Pinned returns a resource of host memory for copies.
func (d *Device) Pinned() mem.Resource { return resource{d, mem.Pinned} }

type resource struct {
	d    *Device
	kind mem.Kind
}

func (r resource) Kind() mem.Kind { return r.kind }

func (r resource) Device() int {
	if r.kind == mem.Device {
		return r.d.ordinal
	}
	return -1
}

func (r resource) Alloc(ctx context.Context, n int) (*mem.Buffer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if n == 0 {
		return mem.NewRegion(mem.RegionConfig{Kind: r.kind, Device: r.d.ordinal}).Buffer(), nil
	}
	// Not Go memory: it is neither moved nor freed while a copy is delayed.
	b, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		return nil, fmt.Errorf("stagetest: %w", err)
	}
	r.d.live.Add(int64(n))
	return mem.NewRegion(mem.RegionConfig{
		Addr: uintptr(unsafe.Pointer(&b[0])), Len: n, Kind: r.kind, Device: r.d.ordinal,
		Free: func() {
			r.d.live.Add(-int64(n))
			_ = unix.Munmap(b)
		},
	}).Buffer(), nil
}

// Fill writes into a buffer of the device directly.
func Fill(b *mem.Buffer, data []byte) { copy(view(b), data) }

// Bytes returns a copy of the content of a buffer of the device. Wait for the buffer before.
func Bytes(b *mem.Buffer) []byte { return slices.Clone(view(b)) }

func view(b *mem.Buffer) []byte {
	if b.Len() == 0 {
		return nil
	}
	at := b.Addr()
	return unsafe.Slice(*(**byte)(unsafe.Pointer(&at)), b.Len())
}

// Queue is a queue of copies, which run in its order.
type Queue struct {
	d    *Device
	mu   sync.Mutex // guards work; taken before the device's
	work []*work
}

type work struct {
	dst, src *mem.Buffer // nil: a mark
	behind   []mem.Event // events to wait for
	done     bool        // guarded by the queue's lock
}

// Queue returns a new queue.
func (d *Device) Queue() *Queue {
	q := &Queue{d: d}
	d.mu.Lock()
	d.queues = append(d.queues, q)
	d.mu.Unlock()
	return q
}

// Copy enqueues a copy that holds its buffers.
func (q *Queue) Copy(dst, src *mem.Buffer) (mem.Event, error) {
	if dst.Len() != src.Len() {
		return nil, fmt.Errorf("stagetest: copy of %d bytes to %d", src.Len(), dst.Len())
	}
	q.d.mu.Lock()
	q.d.copies++
	fails := q.d.copies == q.d.failAt
	err := q.d.failBy
	q.d.mu.Unlock()
	if fails {
		return nil, err
	}
	w := &work{dst: dst.Retain(), src: src.Retain()}
	for _, e := range []mem.Event{dst.Ready(), src.Ready()} {
		if e != nil {
			w.behind = append(w.behind, e)
		}
	}
	e := q.enqueue(w)
	dst.SetReady(e)
	return e, nil
}

// Mark returns an event that is done after all copies so far.
func (q *Queue) Mark() (mem.Event, error) { return q.enqueue(&work{}), nil }

func (q *Queue) enqueue(w *work) mem.Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.work = append(q.work, w)
	return &event{q, w}
}

// step runs the oldest piece of work, or the work that it waits for.
func (q *Queue) step() bool {
	q.mu.Lock()
	if len(q.work) == 0 {
		q.mu.Unlock()
		return false
	}
	w := q.work[0]
	q.mu.Unlock()
	for _, e := range w.behind {
		_ = e.Wait(context.Background()) // runs its queue; events of this queue are done
	}
	q.mu.Lock()
	if w.done {
		q.mu.Unlock()
		return true // another goroutine runs it
	}
	q.work = q.work[1:]
	if w.dst != nil {
		copy(view(w.dst), view(w.src))
	}
	w.done = true
	q.mu.Unlock()
	if w.dst != nil {
		w.dst.Release()
		w.src.Release()
	}
	return true
}

// event is the event of one piece of work. Each query lets the queue make one step.
type event struct {
	q *Queue
	w *work
}

func (e *event) Handle() uintptr { return uintptr(unsafe.Pointer(e)) }

func (e *event) Query() (bool, error) {
	e.q.mu.Lock()
	done := e.w.done
	e.q.mu.Unlock()
	if done {
		return true, nil
	}
	e.q.step()
	return false, nil
}

func (e *event) Wait(ctx context.Context) error {
	for {
		if done, _ := e.Query(); done {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
