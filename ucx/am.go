package ucx

import (
	"context"
	"fmt"
	"sync"
	"unsafe"

	"go.millstream.dev/mem"
	"go.millstream.dev/ucx/internal/ucp"
)

// AMOptions are the choices of one active message.
type AMOptions struct {
	Reply      bool // let the receiver answer through AM.ReplyTo
	Eager      bool // never use rendezvous
	Rendezvous bool // never send eagerly: the receiver chooses where the data goes
}

// reservedAM is where Millstream's own message ids begin; see the doc of SendAM.
const (
	reservedAM = 1024
	amControl  = reservedAM
	amConn     = reservedAM + 1
	amMulti    = reservedAM + 2
	reservedTo = reservedAM + 15

	// Ids of messages whose data the sender has in device or managed memory, between Millstream peers: one of these
	// plus the id. They tell the receiver what UCX does not.
	maxKindAM = 1024
	deviceAM  = 2048
	managedAM = deviceAM + maxKindAM
	kindAMEnd = managedAM + maxKindAM
)

// SendAM sends an active message: it arrives at the peer's handler or RecvAM for id,
// with a header (up to WorkerInfo.MaxHeader bytes, copied) and data. Several views are
// gathered into one message. Ids 1024 to 1039 and 2048 to 4095 are
// Millstream's own; UCXX uses 0.
func (ep *Endpoint) SendAM(ctx context.Context, id uint16, header []byte, opts AMOptions, data ...View) error {
	if err := checkAMID(id); err != nil {
		return &OpError{Op: ucp.OpAMSend.String(), Peer: ep.peer, Err: err}
	}
	return ep.sendAM(ctx, kindID(ep, id, data), header, opts, data)
}

func (ep *Endpoint) sendAM(ctx context.Context, id uint16, header []byte, opts AMOptions, data []View) error {
	w := ep.w
	s, r, err := w.prepare(ucp.OpAMSend, ep)
	if err != nil {
		return err
	}
	if err := w.mem.bindAM(s, r, id, header, opts, data); err != nil {
		return r.unbind(s, err)
	}
	return r.finishBlocking(ctx, s)
}

// StartSendAM is SendAM as a Request.
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

// kindID is the id under which a message travels to a peer that knows kinds of memory.
func kindID(ep *Endpoint, id uint16, data []View) uint16 {
	if id >= maxKindAM || len(data) == 0 || ep.line == nil || ep.line.features&featureKinds == 0 {
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

// kindOf is the reverse of kindID.
func kindOf(id uint16) (uint16, mem.Kind) {
	switch {
	case id >= deviceAM && id < managedAM:
		return id - deviceAM, mem.Device
	case id >= managedAM && id < kindAMEnd:
		return id - managedAM, mem.Managed
	}
	return id, mem.Host
}

// AM is a received active message. Receive its data once, or Release it.
type AM struct {
	ID     uint16
	Header []byte // copied; the receiver's
	Len    int    // length of the data in bytes
	// Kind is the memory that the sender has the data in. Only Millstream peers that met by Dial, Attach or a Listener
	// tell, for ids below 1024; it is Host otherwise.
	Kind mem.Kind
	// set if the sender asked for replies, and for messages above 1 KiB from Millstream; valid while the sender lives
	ReplyTo *Endpoint

	w     *Worker
	mu    sync.Mutex
	data  []byte     // eager and short: in Go memory already
	event *ucp.Event // lent by UCX, or a rendezvous descriptor
	rndv  bool
}

// Rendezvous reports that the data is still at the sender, so that it can be received
// in place; otherwise it has arrived in host memory and receiving copies it.
func (m *AM) Rendezvous() bool { return m.rndv }

// take gives the message's content to one caller.
func (m *AM) take() ([]byte, *ucp.Event, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.data == nil && m.event == nil {
		return nil, nil, &OpError{Op: ucp.OpAMRecv.String(), Err: fmt.Errorf("ucx: message was received or released "+
			"before: %w", errNoMessage)}
	}
	d, e := m.data, m.event
	m.data, m.event = nil, nil
	return d, e, nil
}

// Recv receives the data into v, which must be long enough.
//
// When ctx ends while data still comes from the sender, the sender's endpoint is
// closed by force, as with other operations. Where it is not known (the sender's UCX
// did not say) host memory goes through a staging copy instead.
func (m *AM) Recv(ctx context.Context, v View) error {
	if err := m.refuses(v); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return &OpError{Op: ucp.OpAMRecv.String(), Err: contextError(ctx)}
	}
	data, e, err := m.take()
	if err != nil {
		return err
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

// refuses says why v cannot take the data; the message is untouched then.
func (m *AM) refuses(v View) error {
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

// StartRecv is Recv as a Request. Data that has arrived already is copied at once.
func (m *AM) StartRecv(v View) *Request {
	if err := m.refuses(v); err != nil {
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
	w, ep := m.w, owned(m.ReplyTo)
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
	m.hand(s, e)
	return r.finishSubmitted(ctx, s)
}

func (m *AM) startRndv(v View, e *ucp.Event) *Request {
	w := m.w
	s, r, err := w.startOn(ucp.OpAMRecv, owned(m.ReplyTo))
	if err != nil {
		m.free(e)
		return failedRequest(ucp.OpAMRecv, nil, err)
	}
	v.n = m.Len
	if err := w.mem.bind(s, r, v, true, false); err != nil {
		m.free(e)
		return failedRequest(ucp.OpAMRecv, nil, r.unbind(s, err))
	}
	m.hand(s, e)
	w.drv.launch(s, r)
	return r
}

// hand gives the rendezvous descriptor to a receive, which consumes it in any case.
func (m *AM) hand(s *ucp.Slot, e *ucp.Event) {
	s.Hdr = uintptr(e.Ptr)
	e.Ptr = nil
	m.free(e)
}

// owned returns the endpoint if its failure is known to Millstream.
func owned(ep *Endpoint) *Endpoint {
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

// Bytes receives the data into a new slice. limit bounds what a peer can make this
// side allocate.
func (m *AM) Bytes(ctx context.Context, limit int) ([]byte, error) {
	if m.Len > limit {
		return nil, &OpError{Op: ucp.OpAMRecv.String(), Err: &TruncatedError{Message: m.Len, Buffer: limit}}
	}
	m.mu.Lock()
	if d := m.data; d != nil {
		m.data = nil
		m.mu.Unlock()
		return d, nil
	}
	m.mu.Unlock()
	b := make([]byte, m.Len)
	return b, m.Recv(ctx, Bytes(b))
}

// Buffer receives the data into memory from the given resource, which may be device
// memory: the receiver chooses. nil means the worker's allocator for the kind of memory that
// the sender has the data in, see [Worker.SetAllocator]. The caller releases the buffer.
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

// Release gives back a message that is not wanted. Releasing again does nothing.
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
