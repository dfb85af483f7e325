package ucx

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"math"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"go.millstream.dev/internal/device/hooks"
	"go.millstream.dev/mem"
	"go.millstream.dev/ucx/internal/obs"
)

// Memory is registered memory that peers access with Put, Get and atomics once they have its key. It holds a reference
// to the memory until Release.
//
// UCX checks nothing on the owner's side: a peer with the key is trusted. Over transports without hardware support this
// process performs the accesses, and an access to unmapped memory crashes the process. So release only when the peers
// are known to be finished.
type Memory struct {
	c        *Context
	buf      *mem.Buffer // holds a reference
	key      MemoryKey
	released atomic.Bool
}

// Register makes memory accessible to peers. Go memory is rejected because the garbage collector cannot track such a
// use: use [Context.Alloc], [mem.NewMmap], a [mem.Pool] on it, or device memory.
//
// The whole region around v is registered with UCX, once, and stays registered until it is freed or the context is
// closed; this package keeps peers within v. Memory from Alloc is the fastest between processes of one host.
func (c *Context) Register(v View) (*Memory, error) {
	buf, err := c.registrable(v)
	if err != nil {
		return nil, &OpError{Op: "register memory", Err: err}
	}
	m, err := c.registerBuffer(buf)
	if err != nil {
		buf.Release()
		return nil, err
	}
	return m, nil
}

// registrable returns a reference to the memory of a view that may be registered.
func (c *Context) registrable(v View) (*mem.Buffer, error) {
	switch {
	case v.bad != nil:
		return nil, v.bad
	case c.cfg.Features&(RMA|Atomic32|Atomic64) == 0:
		return nil, fmt.Errorf("ucx: the context has none of the features RMA, Atomic32, Atomic64; add them to " +
			"Config.Features")
	case v.n == 0:
		return nil, fmt.Errorf("ucx: cannot register an empty view: %w", ErrInvalidParam)
	case v.goHeap():
		return nil, fmt.Errorf("ucx: Go memory cannot be registered for remote access, the garbage collector may free "+
			"it: use Context.Alloc, mem.NewMmap or a mem.Pool on it (%d bytes): %w", v.n, ErrInvalidParam)
	case v.buf != nil:
		return v.buf.Slice(int(v.addr), v.n), nil
	}
	// Memory of another owner, such as a foreign array.
	return mem.NewRegion(mem.RegionConfig{Addr: v.addr, Len: v.n, Kind: v.kind, Device: int(v.device),
		ReadOnly: v.readOnly}).Buffer(), nil
}

// registerBuffer takes ownership of the caller's reference if it succeeds.
func (c *Context) registerBuffer(buf *mem.Buffer) (*Memory, error) {
	reg, err := c.register(buf.Region())
	if err != nil {
		return nil, err
	}
	if err := c.enter(); err != nil {
		return nil, &OpError{Op: "pack remote key", Err: err}
	}
	packed, st := c.h.RkeyPack(reg.memh, buf.Device())
	c.calls.Done()
	if st != 0 {
		return nil, &OpError{Op: "pack remote key", Err: Status(st)}
	}
	key := MemoryKey{addr: uint64(buf.Addr()), size: uint64(buf.Len()), kind: buf.Kind(), readOnly: buf.ReadOnly(),
		lib: c.lib.api(), packed: packed}
	if err := key.check(); err != nil {
		return nil, &OpError{Op: "pack remote key", Err: err}
	}
	return &Memory{c: c, buf: buf, key: key}, nil
}

// Key returns the key with which a peer accesses the memory.
func (m *Memory) Key() MemoryKey { return m.key }

// Buffer returns the memory itself. It is valid until Release; Retain it to keep it.
func (m *Memory) Buffer() *mem.Buffer { return m.buf }

// Release drops the reference to the memory. Other references keep it, and its registration, alive. Releasing again
// does nothing.
func (m *Memory) Release() {
	if !m.released.Swap(true) {
		m.buf.Release()
	}
}

// Alloc returns memory allocated and registered by UCX: shared memory where possible, which peers on the same host then
// write and read without a copy by the kernel. The caller releases it before the context is closed. Device and managed
// memory is allocated on device 0; see Resource for others.
func (c *Context) Alloc(n int, kind mem.Kind) (*mem.Buffer, error) {
	return c.Resource(kind, 0).Alloc(background, n)
}

// Resource returns the context's allocator as a [mem.Resource], to use as the upstream of a [mem.Pool]. device is the
// GPU for Device and Managed memory, otherwise it is ignored.
func (c *Context) Resource(kind mem.Kind, device int) mem.Resource {
	if !(View{kind: kind}).onDevice() {
		device = -1
	}
	return &allocator{c: c, kind: kind, device: device}
}

type allocator struct {
	c      *Context
	kind   mem.Kind
	device int
}

func (a *allocator) Kind() mem.Kind { return a.kind }
func (a *allocator) Device() int    { return a.device }

// maxAlloc is larger than every address space, so that an invalid length does not reach UCX.
const maxAlloc = 1 << 46

func (a *allocator) Alloc(ctx context.Context, n int) (*mem.Buffer, error) {
	c := a.c
	fail := func(err error) (*mem.Buffer, error) { return nil, &OpError{Op: "allocate memory", Err: err} }
	if err := ctx.Err(); err != nil {
		return fail(err)
	}
	if n < 0 || n > maxAlloc {
		return fail(fmt.Errorf("ucx: allocate %d bytes: %w", n, ErrInvalidParam))
	}
	if n == 0 {
		return mem.NewRegion(mem.RegionConfig{Kind: a.kind, Device: a.device}).Buffer(), nil
	}
	if a.kind == mem.Pinned {
		return fail(fmt.Errorf("ucx: UCX does not allocate pinned memory: use mem.NewMmap with Lock or package "+
			"cuda, and Register it: %w", errUnsupported))
	}
	if _, hooked := hooks.Get(); a.device >= 0 && (!hooked || !c.supports(a.kind)) {
		return fail(fmt.Errorf("ucx: no %s memory: import package go.millstream.dev/cuda and use a libucp "+
			"with CUDA support (%s has %v): %w", a.kind, c.lib.Path, c.lib.CUDA, errUnsupported))
	}
	if err := c.enter(); err != nil {
		return fail(err)
	}
	defer c.calls.Done()
	start := time.Now()
	kind := View{kind: a.kind}
	memh, addr, st := c.h.MemMap(0, uint64(n), int(kind.memType()), a.device, true)
	if st != 0 {
		return fail(fmt.Errorf("%w (%d bytes of %s memory)", Status(st), n, a.kind))
	}
	c.mu.Lock()
	if c.closed { // Close ran after enter, saw no allocation, and waits for this call
		c.mu.Unlock()
		c.h.MemUnmap(memh, a.device)
		return fail(ErrClosed)
	}
	c.allocs++
	c.mu.Unlock()
	info := obs.Registration{Bytes: n, Kind: a.kind.String(), Took: time.Since(start)}
	r := mem.NewRegion(mem.RegionConfig{Addr: addr, Len: n, Kind: a.kind, Device: a.device, Free: func() {
		c.h.MemUnmap(memh, a.device) // the context waits for this call: see Close
		c.mu.Lock()
		c.allocs--
		c.mu.Unlock()
		if f := c.cfg.Events.Deregistered; f != nil {
			f(obs.Registration{Bytes: info.Bytes, Kind: info.Kind})
		}
	}})
	if _, err := r.Attach(c, func() (any, error) {
		return &registration{region: r, memh: memh, took: info.Took},
			nil
	}); err != nil {
		r.Buffer().Release()
		return fail(err)
	}
	if f := c.cfg.Events.Registered; f != nil {
		f(info)
	}
	return r.Buffer(), nil
}

// registration is one region registered with one context. It is made at the first use of the region and ends with the
// region or the context, whichever ends first.
type registration struct {
	region *mem.Region
	memh   unsafe.Pointer
	took   time.Duration
}

// register returns the registration of a region and creates it if needed.
func (c *Context) register(r *mem.Region) (*registration, error) {
	v, err := r.Attach(c, func() (any, error) { return c.newRegistration(r) })
	if err != nil {
		return nil, err
	}
	return v.(*registration), nil
}

func (c *Context) newRegistration(r *mem.Region) (any, error) {
	if err := c.enter(); err != nil {
		return nil, &OpError{Op: "register memory", Err: err}
	}
	defer c.calls.Done()
	start := time.Now()
	kind := View{kind: r.Kind()}
	memh, _, st := c.h.MemMap(r.Addr(), uint64(r.Len()), int(kind.memType()), r.Device(), false)
	if st != 0 {
		return nil, &OpError{Op: "register memory", Err: fmt.Errorf("%w (%d bytes of %s memory)", Status(st),
			r.Len(), r.Kind())}
	}
	reg := &registration{region: r, memh: memh, took: time.Since(start)}
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		c.h.MemUnmap(memh, r.Device())
		return nil, &OpError{Op: "register memory", Err: ErrClosed}
	}
	c.regs[reg] = struct{}{}
	c.mu.Unlock()
	if f := c.cfg.Events.Registered; f != nil {
		f(obs.Registration{Bytes: r.Len(), Kind: r.Kind().String(), Took: reg.took})
	}
	r.OnFree(func() { c.unregister(reg) })
	return reg, nil
}

// enter starts a call into UCX's memory functions, which Close waits for. The caller ends it with calls.Done.
func (c *Context) enter() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return ErrClosed
	}
	c.calls.Add(1)
	return nil
}

func (c *Context) unregister(reg *registration) {
	c.mu.Lock()
	_, mine := c.regs[reg]
	delete(c.regs, reg)
	if mine {
		c.calls.Add(1)
	}
	c.mu.Unlock()
	if !mine {
		return // ended by Close of the context
	}
	defer c.calls.Done()
	c.h.MemUnmap(reg.memh, reg.region.Device())
	if f := c.cfg.Events.Deregistered; f != nil {
		f(obs.Registration{Bytes: reg.region.Len(), Kind: reg.region.Kind().String()})
	}
}

// RemoteFile presents a peer's memory as a file of fixed length: an [io.ReaderAt], [io.WriterAt], [io.Reader],
// [io.Writer] and [io.Seeker]. Reads are Gets; writes are Puts that have arrived in the peer's memory when the call
// returns. ReadAt and WriteAt are safe for concurrent use; the peer's program is not involved.
//
// A RemoteFile owns neither endpoint nor key, so there is no Close.
type RemoteFile struct {
	ctx context.Context
	ep  *Endpoint
	rk  *RemoteKey

	mu  sync.Mutex // guards pos
	pos int64
}

// NewRemoteFile returns a file on the peer's memory. The methods of package io have no context: those of the file end
// when ctx ends. A transfer cut off this way closes the endpoint by force, as [Endpoint.Get] does.
func NewRemoteFile(ctx context.Context, ep *Endpoint, rk *RemoteKey) *RemoteFile {
	return &RemoteFile{ctx: ctx, ep: ep, rk: rk}
}

// Size returns the length of the remote memory in bytes.
func (f *RemoteFile) Size() int64 { return f.rk.Len() }

// ReadAt implements [io.ReaderAt]: fewer bytes than len(p) come with io.EOF.
func (f *RemoteFile) ReadAt(p []byte, off int64) (int, error) { return f.readAt(f.ctx, p, off) }

// readAt is ReadAt with a context.
func (f *RemoteFile) readAt(ctx context.Context, p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, f.badOffset("read", off)
	}
	n := f.fit(len(p), off)
	done, err := f.move(ctx, p[:n], off, f.ep.Get, f.ep.StartGet)
	if err == nil && n < len(p) {
		err = io.EOF
	}
	return done, err
}

// WriteAt implements [io.WriterAt]. The memory does not grow: bytes beyond its end are not written and reported as
// [io.ErrShortWrite].
func (f *RemoteFile) WriteAt(p []byte, off int64) (int, error) {
	return f.writeAt(f.ctx, p, off)
}

// writeAt is WriteAt with a context.
func (f *RemoteFile) writeAt(ctx context.Context, p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, f.badOffset("write", off)
	}
	n := f.fit(len(p), off)
	done, err := f.move(ctx, p[:n], off, f.ep.Put, f.ep.StartPut)
	if err == nil && n > 0 {
		if err = f.ep.Flush(ctx); err != nil {
			done = 0 // it is unknown how much has arrived
		}
	}
	if err == nil && n < len(p) {
		err = fmt.Errorf("ucx: write of %d bytes at offset %d exceeds the remote memory of %d bytes: %w", len(p),
			off, f.Size(), io.ErrShortWrite)
	}
	return done, err
}

// fit returns how many of n bytes at off lie within the memory.
func (f *RemoteFile) fit(n int, off int64) int {
	if left := f.Size() - off; left < int64(n) {
		return int(max(left, 0))
	}
	return n
}

func (f *RemoteFile) badOffset(op string, off int64) error {
	return &OpError{Op: op + " remote file", Peer: f.ep.peer, Err: fmt.Errorf("ucx: offset %d is before the "+
		"start: %w", off, fs.ErrInvalid)}
}

// Read implements [io.Reader] at the file's position.
func (f *RemoteFile) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	off, n := f.reserve(len(p))
	if n == 0 {
		return 0, io.EOF
	}
	done, err := f.ReadAt(p[:n], off)
	f.unreserve(off, n, done)
	return done, err
}

// Write implements [io.Writer] at the file's position.
func (f *RemoteFile) Write(p []byte) (int, error) {
	off, n := f.reserve(len(p))
	done, err := f.WriteAt(p, off)
	f.unreserve(off, n, done)
	return done, err
}

// reserve advances the position, so that no lock is held during the transfer.
func (f *RemoteFile) reserve(n int) (off int64, got int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	off = f.pos
	got = f.fit(n, off)
	f.pos += int64(got)
	return off, got
}

// unreserve moves the position back over bytes that were not transferred, unless it was changed.
func (f *RemoteFile) unreserve(off int64, n, done int) {
	if done == n {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pos == off+int64(n) {
		f.pos = off + int64(done)
	}
}

// Seek implements [io.Seeker]. Positions beyond the end are allowed, as in a file: reads there return io.EOF.
func (f *RemoteFile) Seek(offset int64, whence int) (int64, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	base := int64(0)
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		base = f.pos
	case io.SeekEnd:
		base = f.Size()
	default:
		return 0, &OpError{Op: "seek remote file", Peer: f.ep.peer, Err: fmt.Errorf("ucx: whence %d is none of "+
			"io.SeekStart, io.SeekCurrent, io.SeekEnd: %w", whence, fs.ErrInvalid)}
	}
	if offset > math.MaxInt64-base {
		return 0, &OpError{Op: "seek remote file", Peer: f.ep.peer, Err: fmt.Errorf("ucx: %d bytes from %d is no "+
			"position: %w", offset, base, fs.ErrInvalid)}
	}
	pos := base + offset
	if pos < 0 {
		return 0, f.badOffset("seek", pos)
	}
	f.pos = pos
	return pos, nil
}

// A long transfer is split into chunks, several of which are in flight at a time.
const (
	fileChunk  = 1 << 20
	fileWindow = 4
)

type (
	blockingTransfer func(context.Context, View, *RemoteKey, int64) error
	startedTransfer  func(View, *RemoteKey, int64) *Request
)

// move transfers p and returns how much of its beginning was transferred.
func (f *RemoteFile) move(ctx context.Context, p []byte, off int64, whole blockingTransfer,
	start startedTransfer) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if len(p) <= fileChunk {
		if err := whole(ctx, Bytes(p), f.rk, off); err != nil {
			return 0, err
		}
		return len(p), nil
	}
	var window [fileWindow]*Request // chunk i is at i%fileWindow
	started, done := 0, 0           // chunks
	chunks := (len(p) + fileChunk - 1) / fileChunk
	for done < chunks {
		for started < chunks && started < done+fileWindow {
			at := started * fileChunk
			window[started%fileWindow] = start(Bytes(p[at:min(at+fileChunk, len(p))]), f.rk, off+int64(at))
			started++
		}
		if err := window[done%fileWindow].Wait(ctx); err != nil {
			f.reclaim(ctx, window[:])
			return done * fileChunk, err
		}
		done++
	}
	return len(p), nil
}

// reclaim returns when UCX has released the memory of all requests: after a failed one the others complete, or end with
// the context and then with the endpoint.
func (f *RemoteFile) reclaim(ctx context.Context, window []*Request) {
	for _, r := range window {
		if r != nil && r.Wait(ctx) != nil && ctx.Err() != nil && r.state.Load() != reqDone {
			f.ep.abort(&abortError{context.Cause(ctx)})
			break
		}
	}
	timer := time.NewTimer(forceWait)
	defer timer.Stop()
	for _, r := range window {
		if r == nil {
			continue
		}
		select {
		case <-r.Done():
		case <-timer.C:
			logf("%v", errMemoryKept(r.op.String()))
			return
		}
	}
}
