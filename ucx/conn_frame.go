package ucx

import (
	"encoding/binary"
	"fmt"
	"unsafe"

	"go.millstream.dev/ucx/internal/ucp"
)

// A connection's frames are active messages of id amConn. The header is version,
// kind, six bytes of zero, the receiver's number (its end of the lifeline) and a
// value, little endian. UCX may deliver messages out of order, so nothing depends on
// it: data frames carry their place in the stream, limits are totals since the start.
const (
	connVersion    = 1
	connHeaderSize = 24

	// connFrameCost is what a data frame counts for against the window besides its
	// bytes: what a frame costs that waits for an earlier one. It bounds memory also
	// for a peer that sends single bytes.
	connFrameCost = 128
)

type connKind byte

const (
	connOpen   connKind = 1 + iota // the sender has a Conn now; value: first credit limit
	connData                       // value: offset of the first byte
	connCredit                     // value: new credit limit
	connEnd                        // no more data; value: bytes in the whole stream
	connEndAck                     // everything up to the end has arrived
	connStop                       // the sender reads no more
)

func (k connKind) String() string {
	names := [...]string{"0", "open", "data", "credit", "end", "end-ack", "stop"}
	if int(k) < len(names) {
		return names[k]
	}
	return fmt.Sprintf("%d", byte(k))
}

func putConnHeader(b *[connHeaderSize]byte, kind connKind, number, value uint64) {
	*b = [connHeaderSize]byte{connVersion, byte(kind)}
	binary.LittleEndian.PutUint64(b[8:], number)
	binary.LittleEndian.PutUint64(b[16:], value)
}

// parseConnHeader reads a header that anyone may have written.
func parseConnHeader(b []byte) (kind connKind, number, value uint64, ok bool) {
	if len(b) != connHeaderSize || b[0] != connVersion {
		return 0, 0, 0, false
	}
	return connKind(b[1]), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:]), true
}

// openConns makes the worker receive frames.
func (w *Worker) openConns() error {
	if w.ctx.cfg.Features&ActiveMsg == 0 {
		return &OpError{Op: "connect", Err: fmt.Errorf("ucx: a net.Conn needs active messages; add ActiveMsg to Config.Features: %w", ErrUnsupported)}
	}
	_, err := w.openInboxFor(amConn, &inbox{raw: w.connEvent})
	return err
}

// connOf returns the connection that belongs to a lifeline, made at the first
// mention: frames may arrive before the user has asked for it.
func (w *Worker) connOf(number uint64) *Conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.lines[number]
	if l == nil || l.ep == nil {
		return nil
	}
	if l.stream == nil {
		c := &Conn{w: w, ep: l.ep, line: l, local: l.conn.LocalAddr(), remote: l.conn.RemoteAddr()}
		c.onSent, c.onDataSent = c.sent, c.dataSent
		l.stream = c
	}
	return l.stream
}

// connEvent takes a frame off UCX's hands. The token is held.
func (w *Worker) connEvent(e *ucp.Event) {
	kind, number, value, ok := parseConnHeader(unsafe.Slice(e.Hdr, e.HdrLen))
	if ok { // else it is not even known whose it is
		if c := w.connOf(number); c != nil {
			var data []byte
			if e.AMKind != ucp.AMRndv && e.Len > 0 {
				data = unsafe.Slice((*byte)(e.Ptr), e.Len)
			}
			c.frame(kind, value, data, uint64(len(data)) == e.Len)
		}
	}
	ucp.FreeEvent(w.drv.c, e)
}

// frame handles one frame. The token is held: replies are queued for the holder.
func (c *Conn) frame(kind connKind, value uint64, data []byte, whole bool) {
	raceReceived()
	ack, grant := false, uint64(0)
	c.mu.Lock()
	switch {
	case c.failure != nil:
	case !whole || kind != connData && len(data) > 0 || kind == connData && len(data) == 0:
		c.violation("%s frame with unexpected data", kind)
	case kind == connOpen:
		c.opened = true
		c.out.raise(value)
		c.opening.wake()
	case kind == connData:
		if err := c.in.accept(value, data); err != nil {
			c.violation("%w", err)
			break
		}
		grant, ack = c.in.grant(), c.in.confirm()
	case kind == connCredit:
		c.out.raise(value)
	case kind == connEnd:
		if err := c.in.setEnd(value); err != nil {
			c.violation("%w", err)
			break
		}
		ack = c.in.confirm()
	case kind == connEndAck:
		if !c.out.ended || value != c.out.offset {
			c.violation("it confirmed %d bytes of %d", value, c.out.offset)
			break
		}
		c.out.confirmed = true
		c.ending.wake()
	case kind == connStop:
		c.out.stopped = true
		c.out.wait.wake()
	default:
		c.violation("frame of unknown kind %s; upgrade the older side", kind)
	}
	end := c.in.next
	c.mu.Unlock()
	if grant != 0 {
		_ = c.send(connCredit, grant, nil)
	}
	if ack {
		_ = c.send(connEndAck, end, nil)
	}
}

// send starts a frame and returns. Data is copied. It may be called with the token
// held (the frame is then left to the holder), never with mu. If the frame cannot be
// sent the connection ends: the stream would have a hole.
func (c *Conn) send(kind connKind, value uint64, data []byte) error {
	err := c.submit(kind, value, data)
	if err != nil {
		c.sendFailed(err)
	}
	return err
}

func (c *Conn) submit(kind connKind, value uint64, data []byte) error {
	w := c.w
	v := Bytes(data)
	if len(data) > ucp.InlineSize { // up to there the slot keeps a copy
		b, err := w.mem.stagingBuffer(len(data))
		if err != nil {
			return err
		}
		copy(b.Bytes(), data)
		v = Buffer(b)
		defer b.Release() // the operation holds its own reference
	}
	s, r, err := w.startOn(ucp.OpAMSend, c.ep)
	if err != nil {
		return err
	}
	r.onDone = c.onSent
	if kind == connData {
		r.onDone = c.onDataSent
	}
	// As bindAM does, without its slices: a frame costs one allocation, the request.
	// Reply lets a worker that has to refuse the frame find whom to tell.
	s.Tag = amConn
	s.Flags |= ucp.FlagEager | ucp.FlagReply
	putConnHeader((*[connHeaderSize]byte)(s.HdrBuf[:]), kind, c.line.remote, value)
	s.Hdr, s.HdrLen = uintptr(unsafe.Pointer(&s.HdrBuf)), connHeaderSize
	if err := w.mem.bind(s, r, v, false, false); err != nil {
		return r.unbind(s, err)
	}
	raceSent()
	w.drv.launch(s, r)
	return nil
}

// sent is called when UCX is done with a frame, mostly with the token held.
func (c *Conn) sent(r *Request) {
	if r.err != nil {
		c.sendFailed(r.err)
	}
}

// dataSent is sent for a data frame. A Write that waits for others to go out goes on
// when half of them have.
func (c *Conn) dataSent(r *Request) {
	c.mu.Lock()
	c.out.flight--
	if c.out.flight <= connFlight/2 {
		c.out.wait.wake()
	}
	c.mu.Unlock()
	c.sent(r)
}

func (c *Conn) sendFailed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure == nil {
		if reason := c.ep.reason(); reason != nil {
			err = reason
		}
		c.fail(err)
		go c.ep.abort(err) // needs the token, which the caller may hold
	}
}
