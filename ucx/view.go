package ucx

import (
	"context"
	"fmt"
	"sync"
	"unsafe"

	"go.millstream.dev/internal/device/hooks"
	"go.millstream.dev/mem"
	"go.millstream.dev/ucx/internal/arrayif"
	"go.millstream.dev/ucx/internal/ucp"
)

// View names memory for one operation: its address, length and kind. It is a small value that owns nothing; create one
// where it is used:
//
//	ep.Send(ctx, ucx.Bytes(b), tag)
//	ep.Send(ctx, ucx.Of(floats), tag)
//	ep.Recv(ctx, ucx.Buffer(deviceBuf), tag, ucx.FullMask)
//
// Go memory is borrowed until a blocking call returns, or until the Request of a
// Start call is done. A [mem.Buffer] is retained by the operation itself.
type View struct {
	ptr      unsafe.Pointer // Go memory; nil if buf is set
	buf      *mem.Buffer
	addr     uintptr // memory that neither Go nor a Buffer owns (descriptors)
	n        int
	kind     mem.Kind
	device   int32
	readOnly bool
	bad      error
}

// Bytes returns a view of a byte slice.
func Bytes(b []byte) View {
	if len(b) == 0 {
		return View{device: -1}
	}
	return View{ptr: unsafe.Pointer(unsafe.SliceData(b)), n: len(b), device: -1}
}

// Of returns a view of a slice of numbers without copying, in the machine's byte order. Types with pointers do not
// satisfy mem.Numeric and are rejected by the compiler.
func Of[T mem.Numeric](s []T) View {
	if len(s) == 0 {
		return View{device: -1}
	}
	return View{ptr: unsafe.Pointer(unsafe.SliceData(s)), n: len(s) * int(unsafe.Sizeof(s[0])), device: -1}
}

// Buffer returns a view of reference-counted memory: pools, device memory, mapped memory. The operation holds a
// reference until it is finished.
func Buffer(b *mem.Buffer) View {
	if b == nil {
		return View{device: -1, bad: fmt.Errorf("ucx: nil *mem.Buffer")}
	}
	v := View{buf: b, n: b.Len(), kind: b.Kind(), device: int32(b.Device()), readOnly: b.ReadOnly()}
	if !v.onDevice() {
		v.device = -1
	}
	return v
}

// Len returns the length in bytes.
func (v View) Len() int { return v.n }

// Kind returns the kind of the memory.
func (v View) Kind() mem.Kind { return v.kind }

// Slice returns the part [off, off+n) of the view.
func (v View) Slice(off, n int) View {
	if off < 0 || n < 0 || off+n > v.n || off+n < off {
		return View{device: -1, bad: fmt.Errorf("ucx: slice [%d:%d] of a view of %d bytes", off, off+n, v.n)}
	}
	if v.ptr != nil {
		v.ptr = unsafe.Add(v.ptr, off)
	}
	v.addr += uintptr(off) // an offset while buf is set, see base
	v.n = n
	return v
}

func (v View) onDevice() bool { return v.kind == mem.Device || v.kind == mem.Managed }

// goHeap reports whether Go's allocator owns the memory: it must be copied or pinned.
func (v View) goHeap() bool {
	return v.ptr != nil || v.buf != nil && v.buf.Region().GoHeap()
}

// base returns the address. For Go memory it is only valid while pinned.
func (v View) base() uintptr {
	switch {
	case v.ptr != nil:
		return uintptr(v.ptr)
	case v.buf != nil:
		return v.buf.Addr() + v.addr
	}
	return v.addr
}

// goPointer returns the pointer to pin for Go memory.
func (v View) goPointer() unsafe.Pointer {
	if v.ptr != nil {
		return v.ptr
	}
	return unsafe.Pointer(unsafe.SliceData(v.buf.Bytes()[v.addr:]))
}

// bytes returns host memory as a slice, for copies through a slot or staging.
func (v View) bytes() []byte {
	switch {
	case v.n == 0:
		return nil
	case v.ptr != nil:
		return unsafe.Slice((*byte)(v.ptr), v.n)
	case v.buf != nil:
		return v.buf.Bytes()[v.addr : v.addr+uintptr(v.n)]
	}
	return unsafe.Slice((*byte)(foreign(v.addr)), v.n)
}

// foreign converts the address of memory outside Go's heap into a pointer.
func foreign(addr uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&addr)) }

// memType returns UCX's memory type: host 0, CUDA 1, CUDA managed 2.
func (v View) memType() int32 {
	switch v.kind {
	case mem.Device:
		return 1
	case mem.Managed:
		return 2
	}
	return 0
}

// ArrayInterface is Python's __cuda_array_interface__, version 2 or 3: an array in GPU
// memory that another library owns, such as CuPy, Numba, PyTorch or cuDF in the same
// process. It can be read from the JSON of its dictionary.
type ArrayInterface = arrayif.CUDAArray

// Tensor is DLPack's DLTensor: an array in host or GPU memory that another library owns.
type Tensor = arrayif.Tensor

// Errors of array descriptions, for errors.Is.
var (
	// ErrNotContiguous is returned for an array with gaps between its elements. Copy it to a contiguous array first;
	// both C and Fortran order are accepted.
	ErrNotContiguous = arrayif.ErrNotContiguous
	// ErrElementType is returned for an array of objects, pointers or elements smaller than a byte.
	ErrElementType = arrayif.ErrType
)

// FromArrayInterface returns a view of the memory of a CUDA array without copying it. device is the GPU's ordinal,
// which the interface does not contain; cuda.Pointer returns it. Arrays with gaps, masks or elements that are not plain
// bytes are rejected. A read-only array can be sent but not received into.
//
// The owner keeps the memory until the operation is finished. The interface may name a stream on which the data becomes
// ready; wait for it first, then set Stream to 0: an array that may not be ready is rejected. For memory that is sent
// more than once, cuda.FromPointer returns a [mem.Buffer], which is registered only once.
func FromArrayInterface(a ArrayInterface, device int) (View, error) {
	v, err := a.View()
	if err != nil {
		return View{}, err
	}
	if device < 0 && v.Len > 0 {
		return View{}, fmt.Errorf("ucx: CUDA array of %d bytes on device %d: specify the ordinal of its GPU; "+
			"cuda.Pointer reports it", v.Len, device)
	}
	v.Device = device
	return fromArray(v)
}

// FromTensor returns a view of the memory of a DLPack tensor without copying it, with the restrictions of
// [FromArrayInterface]. Host memory must not be Go memory: use [Of] and [Bytes] for that.
func FromTensor(t Tensor) (View, error) {
	v, err := t.View()
	if err != nil {
		return View{}, err
	}
	return fromArray(v)
}

func fromArray(a arrayif.View) (View, error) {
	v := View{addr: uintptr(a.Ptr), n: int(a.Len), device: -1, readOnly: a.ReadOnly}
	switch a.Kind {
	case arrayif.Host:
		v.kind = mem.Host
	case arrayif.HostPinned:
		v.kind = mem.Pinned
	case arrayif.CUDA:
		v.kind, v.device = mem.Device, int32(a.Device)
	case arrayif.CUDAManaged:
		v.kind, v.device = mem.Managed, int32(a.Device)
	default:
		return View{}, fmt.Errorf("ucx: memory of kind %s: copy it to the host first: %w", a.Kind, errUnsupported)
	}
	if a.Stream != 0 && a.Len > 0 {
		return View{}, fmt.Errorf("ucx: the array becomes ready on CUDA stream %#x: wait for that stream, then set "+
			"Stream to 0", a.Stream)
	}
	return v, nil
}

// binder points slots at the memory of operations.
type binder struct {
	ctx       *Context
	maxHeader int // longest active-message header

	mu   sync.Mutex // guards pool
	pool *mem.Pool  // staging for Go memory that must not be passed to UCX
}

// registerAbove is the region size from which memory is registered explicitly. For
// smaller regions UCX's own handling is cheaper than keeping a registration.
const registerAbove = 64 << 10

// bind points a slot at the memory of a view. recv reports whether UCX will write to it.
//
// Go memory up to the slot's inline size is copied. Longer memory is pinned where no
// transport of the context caches registrations, and staged otherwise. stage asks
// for staging in any case: for blocking receives that no endpoint's closing can end.
func (m *binder) bind(s *ucp.Slot, r *Request, v View, recv, stage bool) error {
	if v.bad != nil {
		return v.bad
	}
	if recv && v.readOnly {
		return fmt.Errorf("ucx: cannot receive into read-only memory (%d bytes)", v.n)
	}
	s.Len = uint64(v.n)
	r.view = v
	if v.buf != nil {
		v.buf.Retain()
	}
	if v.n == 0 {
		s.Buf, s.MemType = uintptr(unsafe.Pointer(&s.Inline)), 0
		return nil
	}
	if v.buf != nil { // host memory too: a device may be copying to or from it
		ev := v.buf.Ready()
		if h := pendingHandle(ev); h != 0 {
			s.Event, r.event = h, ev
		}
	}
	if v.goHeap() || stage && !v.onDevice() {
		return m.bindHost(s, r, v, recv, stage)
	}
	s.Buf, s.MemType = v.base(), v.memType()
	if v.onDevice() {
		s.Device = v.device
	}
	return m.bindRegistered(s, v)
}

// pendingHandle returns what the shim waits for before it accesses memory: the handle of an event, or 0 if it has
// completed. An event whose handle was not requested can release its native event when it completes.
func pendingHandle(ev mem.Event) uintptr {
	if ev == nil {
		return 0
	}
	if done, err := ev.Query(); done && err == nil {
		return 0
	}
	return ev.Handle()
}

func (m *binder) bindHost(s *ucp.Slot, r *Request, v View, recv, stage bool) error {
	s.MemType = 0
	switch {
	case v.n <= ucp.InlineSize:
		s.Buf = uintptr(unsafe.Pointer(&s.Inline))
		if recv {
			r.copyOut = true
		} else {
			r.copied = true
			copy(s.Inline[:], v.bytes())
		}
	case m.ctx.pinOK && !stage:
		r.pinner.Pin(v.goPointer())
		r.pinned = true
		s.Buf = uintptr(v.goPointer())
	default:
		b, err := m.stagingBuffer(v.n)
		if err != nil {
			return err
		}
		r.staging = b
		s.Buf = b.Addr()
		if recv {
			r.copyOut = true
		} else {
			copy(b.Bytes(), v.bytes())
		}
	}
	return nil
}

func (m *binder) bindRegistered(s *ucp.Slot, v View) error {
	if v.buf == nil || !m.registers(v.buf.Region()) {
		return nil
	}
	reg, err := m.ctx.register(v.buf.Region())
	if err != nil {
		return err
	}
	s.Memh = reg.memh
	return nil
}

// registers reports whether a region is passed to UCX with its own registration. Protocols before 1.16 ignore user
// handles and register memory themselves.
func (m *binder) registers(r *mem.Region) bool {
	return r.Len() >= registerAbove && m.ctx.lib.AtLeast(1, 16)
}

// stagingBuffer returns C memory that UCX may keep registered.
func (m *binder) stagingBuffer(n int) (*mem.Buffer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pool == nil {
		p, err := mem.NewPool(mem.NewMmap(mem.MmapConfig{}), mem.PoolConfig{})
		if err != nil {
			return nil, err
		}
		m.pool = p
	}
	return m.pool.Alloc(background, n)
}

// hotView reports whether memory needs no preparation. A receive above the inline size that no endpoint's closing can
// end is staged instead, and so takes the slow path.
func (m *binder) hotView(ep *Endpoint, v View, recv bool) bool {
	switch {
	case v.n == 0 || v.bad != nil || recv && v.readOnly:
		return false
	case v.ptr != nil:
		return m.ctx.pinOK && ep != nil || !recv && v.n <= ucp.InlineSize
	}
	return m.hotBuffer(ep, v)
}

// hotBuffer reports whether counted host memory can be passed to UCX as it is.
func (m *binder) hotBuffer(ep *Endpoint, v View) bool {
	if v.buf == nil || ep == nil || v.onDevice() || v.buf.Ready() != nil {
		return false
	}
	region := v.buf.Region()
	if region.GoHeap() {
		return false
	}
	if !m.registers(region) {
		return true
	}
	_, ok := region.Attached(m.ctx)
	return ok
}

// bindHot points a slot at memory for which hotView is true, or at none, and reports whether the data is in the slot.
func (m *binder) bindHot(s *ucp.Slot, v View, recv bool) (copied bool) {
	s.Len, s.MemType = uint64(v.n), 0
	if v.n == 0 || v.ptr != nil && !recv && v.n <= ucp.InlineSize {
		s.Buf = uintptr(unsafe.Pointer(&s.Inline))
		copy(s.Inline[:], unsafe.Slice((*byte)(v.ptr), v.n))
		return true
	}
	s.Buf = v.base()
	if v.buf != nil {
		if reg, ok := v.buf.Region().Attached(m.ctx); ok {
			s.Memh = reg.(*registration).memh
		}
	}
	return false
}

func (m *binder) bindAM(s *ucp.Slot, r *Request, id uint16, header []byte, opts AMOptions, data []View) error {
	s.Tag = uint64(id)
	s.Flags |= opts.flags(totalLen(data))
	if len(header) > m.maxHeader {
		return fmt.Errorf("ucx: header of %d bytes exceeds this worker's limit of %d; send it as data: %w",
			len(header), m.maxHeader, ErrExceedsLimit)
	}
	vector := 0
	if len(data) > 1 { // the parts, and as many device events with a last empty one
		vector = len(data)*int(unsafe.Sizeof(iov{})) + (len(data)+1)*int(unsafe.Sizeof(uintptr(0)))
	}
	if err := m.bindHeader(s, r, header, vector); err != nil {
		return err
	}
	switch len(data) {
	case 0:
		return m.bind(s, r, View{device: -1}, false, false)
	case 1:
		return m.bind(s, r, data[0], false, false)
	}
	return m.bindVector(s, r, data, unsafe.Add(r.malloc, (len(header)+15)&^15))
}

// flags returns the flags of a slot that sends n bytes.
func (o AMOptions) flags(n int) (f uint32) {
	// A receiver that gives up a transfer has to identify the sender.
	if o.Reply || n > ucp.InlineSize {
		f |= ucp.FlagReply
	}
	if o.Eager {
		f |= ucp.FlagEager
	}
	if o.Rendezvous && n > 0 { // rendezvous needs data
		f |= ucp.FlagRndv
	}
	return f
}

func totalLen(data []View) (n int) {
	for _, v := range data {
		n += v.n
	}
	return n
}

// iov is UCX's ucp_dt_iov_t.
type iov struct {
	addr uintptr
	n    uint64
}

// bindHeader copies the header into the slot, or with a vector after it into C memory.
func (m *binder) bindHeader(s *ucp.Slot, r *Request, header []byte, vector int) error {
	if len(header) <= ucp.HeaderSize && vector == 0 {
		copy(s.HdrBuf[:], header)
		s.Hdr = uintptr(unsafe.Pointer(&s.HdrBuf))
	} else {
		r.malloc = ucp.Malloc((len(header)+15)&^15 + vector)
		copy(unsafe.Slice((*byte)(r.malloc), len(header)), header)
		s.Hdr = uintptr(r.malloc)
	}
	s.HdrLen = uint64(len(header))
	return nil
}

// bindVector gathers views. UCX requires all parts to have one memory type.
func (m *binder) bindVector(s *ucp.Slot, r *Request, data []View, at unsafe.Pointer) error {
	parts := unsafe.Slice((*iov)(at), len(data))
	handles := unsafe.Slice((*uintptr)(unsafe.Add(at, len(data)*int(unsafe.Sizeof(iov{})))), len(data)+1)
	var events []mem.Event
	r.views = make([]View, 0, len(data))
	for i, v := range data {
		if v.bad != nil {
			return v.bad
		}
		if v.memType() != data[0].memType() {
			return fmt.Errorf("ucx: parts 0 and %d are in different kinds of memory (%s, %s); send them as separate "+
				"messages", i, data[0].kind, v.kind)
		}
		if v.buf != nil {
			v.buf.Retain()
		}
		r.views = append(r.views, v)
		if v.buf != nil {
			ev := v.buf.Ready()
			if h := pendingHandle(ev); h != 0 {
				handles[len(events)] = h
				events = append(events, ev)
			}
		}
		switch {
		case v.n == 0:
			parts[i] = iov{}
			continue
		case !v.goHeap():
			parts[i] = iov{v.base(), uint64(v.n)}
		case m.ctx.pinOK:
			r.pinner.Pin(v.goPointer())
			r.pinned = true
			parts[i] = iov{uintptr(v.goPointer()), uint64(v.n)}
		default:
			b, err := m.stagingBuffer(v.n)
			if err != nil {
				return err
			}
			copy(b.Bytes(), v.bytes())
			r.views = append(r.views, Buffer(b)) // released with the request
			parts[i] = iov{b.Addr(), uint64(v.n)}
		}
	}
	s.Buf, s.Len, s.MemType = uintptr(at), uint64(len(data)), data[0].memType()
	s.Flags |= ucp.FlagIOV
	if data[0].onDevice() {
		s.Device = data[0].device
	}
	if len(events) > 0 {
		handles[len(events)] = 0
		s.Event, r.event = uintptr(unsafe.Pointer(&handles[0])), events
		s.Flags |= ucp.FlagEvents
	}
	return nil
}

// close frees the staging memory.
func (m *binder) close() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pool != nil {
		_ = m.pool.Close()
	}
}

// copyToDevice copies host bytes into device memory: eager active messages arrive on the host, whatever memory their
// sender used.
func copyToDevice(ctx context.Context, v View, data []byte) error {
	h, ok := hooks.Get()
	if !ok || h.CopyIn == nil {
		return &OpError{Op: "am receive", Err: fmt.Errorf("ucx: device memory needs package cuda: import " +
			"go.millstream.dev/cuda")}
	}
	if err := h.CopyIn(ctx, int(v.device), v.base(), data); err != nil {
		return &OpError{Op: "am receive", Err: err}
	}
	return nil
}
