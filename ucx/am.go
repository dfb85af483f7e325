package ucx

import (
	"context"
	"fmt"
	"sync"
	"unsafe"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx/internal/ucp"
)

// AMOptions are the options of one active message.
type AMOptions struct {
	Reply      bool // lets the receiver reply through AM.ReplyTo
	Eager      bool // never use rendezvous
	Rendezvous bool // never send eagerly: the receiver chooses where the data goes
}

// reservedAM is the first of Millstream's own message ids; see SendAM.
const (
	reservedAM = 1024
	amControl  = reservedAM
	amConn     = reservedAM + 1
	amMulti    = reservedAM + 2
	reservedTo = reservedAM + 15

	// Ids of messages whose data the sender has in device or managed memory, between Millstream peers: one of these
	// plus the id. They carry the kind of memory, which UCX does not.
	maxKindAM = 1024
	deviceAM  = 2048
	managedAM = deviceAM + maxKindAM
	kindAMEnd = managedAM + maxKindAM
)

// SendAM sends an active message. It is delivered to the peer's handler or RecvAM for id, with a header (up to
// WorkerInfo.MaxHeader bytes, copied) and data. Several views are gathered into one message. Ids 1024 to 1039 and 2048
// to 4095 are reserved for Millstream; UCXX uses 0.
func (ep *Endpoint) SendAM(ctx context.Context, id uint16, header []byte, opts AMOptions, data ...View) error {
	if err := checkAMID(id); err != nil {
		return &OpError{Op: ucp.OpAMSend.String(), Peer: ep.peer, Err: err}
	}
	return ep.sendAM(ctx, kindID(ep, id, data), header, opts, data)
}

func (ep *Endpoint) sendAM(ctx context.Context, id uint16, header []byte, opts AMOptions, data []View) error {
	w := ep.w
	if err, done := hotAM(ctx, ep, id, header, opts, data); done {
		return err
	}
	s, r, err := w.prepare(ucp.OpAMSend, ep)
	if err != nil {
		return err
	}
	if err := w.mem.bindAM(s, r, id, header, opts, data); err != nil {
		return r.unbind(s, err)
	}
	return r.finishBlocking(ctx, s)
}

// StartSendAM is the non-blocking form of SendAM.
func (ep *Endpoint) StartSendAM(id uint16, header []byte, opts AMOptions, data ...View) *Request {
	if err := checkAMID(id); err != nil {
		return failedRequest(ucp.OpAMSend, ep, err)
	}
	return ep.startAM(kindID(ep, id, data), header, opts, data)
}

func (ep *Endpoint) startAM(id uint16, header []byte, opts AMOptions, data []View) *Request {
	s, r, err := ep.w.startOn(ucp.OpAMSend, ep)
	if err != nil {
		return failedRequest(ucp.OpAMSend, ep, err)
	}
	if err := ep.w.mem.bindAM(s, r, id, header, opts, data); err != nil {
		return failedRequest(ucp.OpAMSend, ep, r.unbind(s, err))
	}
	ep.w.drv.launch(s, r)
	return r
}

func checkAMID(id uint16) error {
	if id >= reservedAM && id <= reservedTo || id >= deviceAM && id < kindAMEnd {
		return fmt.Errorf("ucx: active-message id %d is reserved (%d to %d, %d to %d)", id, reservedAM, reservedTo,
			deviceAM, kindAMEnd-1)
	}
	return nil
}

// kindID returns the id under which a message is sent to a peer that supports kinds of memory.
func kindID(ep *Endpoint, id uint16, data []View) uint16 {
	if id >= maxKindAM || len(data) == 0 || ep.lifeline == nil || ep.lifeline.features&featureKinds == 0 {
		return id
	}
	switch data[0].kind {
	case mem.Device:
		return deviceAM + id
	case mem.Managed:
		return managedAM + id
	}
	return id
}

// kindOf reverses kindID.
func kindOf(id uint16) (uint16, mem.Kind) {
	switch {
	case id >= deviceAM && id < managedAM:
		return id - deviceAM, mem.Device
	case id >= managedAM && id < kindAMEnd:
		return id - managedAM, mem.Managed
	}
	return id, mem.Host
}

// AM is a received active message. Its data must be received once, or released with Release.
type AM struct {
	ID uint16
	// Kind is the kind of memory that the sender has the data in. It is known only for ids below 1024 and for
	// Millstream peers connected by Dial, Attach or a Listener; otherwise it is Host.
	Kind   mem.Kind
	rndv   bool
	Header []byte // copied; owned by the receiver
	Len    int    // length of the data in bytes
	// ReplyTo is set if the sender asked for replies, and for messages above 1 KiB from Millstream. It is valid while
	// the sender is connected.
	ReplyTo *Endpoint

	w     *Worker
	mu    sync.Mutex // guards data and event
	data  *byte      // eager and short messages: Len bytes that are already in Go memory
	event *ucp.Event // lent by UCX, or a rendezvous descriptor
}

// smallAM and tinyAM are messages with room for a short header and data: one allocation instead of three.
type (
	smallAM struct {
		AM
		room [64]byte
	}
	tinyAM struct {
		AM
		room [16]byte
	}
)

// newAM returns the message of an event, with copies of its header and of data that UCX does not lend.
func newAM(e *ucp.Event) *AM {
	n := 0
	if e.AMKind == ucp.AMCopy {
		n = int(e.Len)
	}
	h := int(e.HdrLen)
	var m *AM
	var room []byte
	switch {
	case h+n <= len(tinyAM{}.room):
		tiny := &tinyAM{}
		m, room = &tiny.AM, tiny.room[:]
	case h+n <= len(smallAM{}.room):
		small := &smallAM{}
		m, room = &small.AM, small.room[:]
	default:
		m, room = &AM{}, make([]byte, h+n)
	}
	m.ID, m.Kind = kindOf(uint16(e.ID))
	m.Len, m.rndv = int(e.Len), e.AMKind == ucp.AMRndv
	if h > 0 {
		m.Header = room[:copy(room, unsafe.Slice(e.Hdr, h)):h]
		room = room[h:]
	}
	if e.AMKind == ucp.AMCopy {
		copy(room, unsafe.Slice((*byte)(e.Ptr), n))
		m.data = unsafe.SliceData(room)
	}
	return m
}

// Rendezvous reports whether the data is still at the sender, so that it can be received in place. Otherwise it has
// arrived in host memory, and receiving copies it.
func (m *AM) Rendezvous() bool { return m.rndv }

// take transfers the content of the message to one caller.
func (m *AM) take() ([]byte, *ucp.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.data == nil && m.event == nil {
		return nil, nil, &OpError{Op: ucp.OpAMRecv.String(), Err: fmt.Errorf("ucx: message was received or released "+
			"before: %w", errNoMessage)}
	}
	d, e := m.bytes(), m.event
	m.data, m.event = nil, nil
	return d, e, nil
}

// bytes returns data that is already in Go memory.
func (m *AM) bytes() []byte {
	if m.data == nil {
		return nil
	}
	return unsafe.Slice(m.data, m.Len)
}

// Recv receives the data into v, which must be long enough.
//
// When ctx ends while data is still being transferred, the sender's endpoint is closed by force, as with other
// operations. If the endpoint is unknown because the sender's UCX did not report it, host memory is received through a
// staging copy instead.
func (m *AM) Recv(ctx context.Context, v View) error {
	if err := m.checkReceive(v); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return &OpError{Op: ucp.OpAMRecv.String(), Err: contextError(ctx)}
	}
	data, e, err := m.take()
	if err != nil {
		return err
	}
	if e == nil && v.ptr != nil {
		copy(v.bytes(), data)
		return nil
	}
	if m.rndv && m.Len > 0 { // UCX 1.13 loses the descriptor of an empty one
		return m.recvRndv(ctx, v, e)
	}
	defer m.free(e)
	if e != nil && !m.rndv {
		data = unsafe.Slice((*byte)(e.Ptr), m.Len)
	}
	return m.copyTo(ctx, v, data)
}

// checkReceive returns why v cannot take the data. It leaves the message untouched.
func (m *AM) checkReceive(v View) error {
	var err error
	switch {
	case v.bad != nil:
		err = v.bad
	case v.readOnly:
		err = fmt.Errorf("ucx: cannot receive into read-only memory (%d bytes)", v.n)
	case v.n < m.Len:
		err = &TruncatedError{Message: m.Len, Buffer: v.n}
	default:
		return nil
	}
	return &OpError{Op: ucp.OpAMRecv.String(), Peer: m.peer(), Err: err}
}

func (m *AM) peer() string {
	if m.ReplyTo == nil {
		return ""
	}
	return m.ReplyTo.peer
}

// StartRecv is the non-blocking form of Recv. Data that has already arrived is copied immediately.
func (m *AM) StartRecv(v View) *Request {
	if err := m.checkReceive(v); err != nil {
		return failedRequest(ucp.OpAMRecv, nil, err)
	}
	if m.rndv && m.Len > 0 {
		_, e, err := m.take()
		if err != nil {
			return failedRequest(ucp.OpAMRecv, nil, err)
		}
		return m.startRndv(v, e)
	}
	if err := m.Recv(background, v); err != nil {
		return failedRequest(ucp.OpAMRecv, nil, err)
	}
	r := &Request{w: m.w, op: ucp.OpAMRecv, n: m.Len}
	r.state.Store(reqDone)
	return r
}

func (m *AM) recvRndv(ctx context.Context, v View, e *ucp.Event) error {
	w, ep := m.w, trackedEndpoint(m.ReplyTo)
	s, r, err := w.prepare(ucp.OpAMRecv, ep)
	if err != nil {
		m.free(e)
		return err
	}
	v.n = m.Len
	if err := w.mem.bind(s, r, v, true, ep == nil); err != nil {
		m.free(e)
		return r.unbind(s, err)
	}
	m.bindDescriptor(s, e)
	return r.finishSubmitted(ctx, s)
}

func (m *AM) startRndv(v View, e *ucp.Event) *Request {
	w := m.w
	s, r, err := w.startOn(ucp.OpAMRecv, trackedEndpoint(m.ReplyTo))
	if err != nil {
		m.free(e)
		return failedRequest(ucp.OpAMRecv, nil, err)
	}
	v.n = m.Len
	if err := w.mem.bind(s, r, v, true, false); err != nil {
		m.free(e)
		return failedRequest(ucp.OpAMRecv, nil, r.unbind(s, err))
	}
	m.bindDescriptor(s, e)
	w.drv.launch(s, r)
	return r
}

// bindDescriptor passes the rendezvous descriptor to a receive, which always consumes it.
func (m *AM) bindDescriptor(s *ucp.Slot, e *ucp.Event) {
	s.Hdr = uintptr(e.Ptr)
	e.Ptr = nil
	m.free(e)
}

// trackedEndpoint returns ep if Millstream tracks its failure, else nil.
func trackedEndpoint(ep *Endpoint) *Endpoint {
	if ep == nil || ep.kind == borrowed {
		return nil
	}
	return ep
}

func (m *AM) copyTo(ctx context.Context, v View, data []byte) error {
	if v.buf != nil {
		if err := v.buf.WaitReady(ctx); err != nil { // the previous user of the memory may still use it
			return &OpError{Op: ucp.OpAMRecv.String(), Peer: m.peer(), Err: err}
		}
	}
	if !v.onDevice() {
		copy(v.bytes(), data)
		return nil
	}
	return copyToDevice(ctx, v, data)
}

// Bytes receives the data into a new slice of at most limit bytes, so that a peer cannot make this side allocate more.
func (m *AM) Bytes(ctx context.Context, limit int) ([]byte, error) {
	if m.Len > limit {
		return nil, &OpError{Op: ucp.OpAMRecv.String(), Err: &TruncatedError{Message: m.Len, Buffer: limit}}
	}
	m.mu.Lock()
	if d := m.bytes(); d != nil {
		m.data = nil
		m.mu.Unlock()
		return d, nil
	}
	m.mu.Unlock()
	b := make([]byte, m.Len)
	return b, m.Recv(ctx, Bytes(b))
}

// Buffer receives the data into memory from res, which may be device memory. A nil res means the worker's allocator for
// the sender's kind of memory, see [Worker.SetAllocator]. The caller releases the buffer.
func (m *AM) Buffer(ctx context.Context, res mem.Resource) (*mem.Buffer, error) {
	if res == nil {
		res = m.w.allocs.resource(m.Kind)
	}
	b, err := res.Alloc(ctx, m.Len)
	if err != nil {
		return nil, err
	}
	if err := m.Recv(ctx, Buffer(b)); err != nil {
		b.Release()
		return nil, err
	}
	return b, nil
}

// Release discards a message that is not received. Releasing again does nothing.
func (m *AM) Release() {
	if _, e, err := m.take(); err == nil {
		m.free(e)
	}
}

func (m *AM) free(e *ucp.Event) {
	if e != nil {
		_ = m.w.drv.internalCall("release message", ucp.CallAMRelease,
			func(s *ucp.Slot) { s.Buf = uintptr(unsafe.Pointer(e)) }, nil)
	}
}
