package ucx

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"
	"time"
	"unsafe"

	"go.millstream.dev/ucx/internal/progress"
	"go.millstream.dev/ucx/internal/ucp"
)

// A connection's frames are active messages of id amConn. The header is version, kind, six bytes of zero, the
// receiver's number (its end of the lifeline) and a value, little endian. UCX may deliver messages out of order, so the
// protocol does not depend on order: data frames carry their offset in the stream, limits are totals since the start.
const (
	connVersion    = 1
	connHeaderSize = 24

	// connFrameCost is what a data frame counts against the window in addition to its bytes: the overhead of a frame
	// that is queued until an earlier one arrives. It bounds memory also for a peer that sends single bytes.
	connFrameCost = 128
)

type connKind byte

const (
	connOpen   connKind = 1 + iota // the sender has opened a Conn; value: first credit limit
	connData                       // value: offset of the first byte
	connCredit                     // value: new credit limit
	connEnd                        // no more data; value: bytes in the whole stream
	connEndAck                     // everything up to the end has arrived
	connStop                       // the sender has stopped reading
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

// parseConnHeader parses a header from an untrusted peer.
func parseConnHeader(b []byte) (kind connKind, number, value uint64, ok bool) {
	if len(b) != connHeaderSize || b[0] != connVersion {
		return 0, 0, 0, false
	}
	return connKind(b[1]), binary.LittleEndian.Uint64(b[8:]), binary.LittleEndian.Uint64(b[16:]), true
}

// openConns enables reception of frames on the worker.
func (w *Worker) openConns() error {
	if w.ctx.cfg.Features&ActiveMessages == 0 {
		return &OpError{Op: "connect", Err: fmt.Errorf("ucx: a net.Conn needs active messages; add ActiveMessages to "+
			"Config.Features: %w", errUnsupported)}
	}
	_, err := w.ams.openFor(amConn, &inbox{raw: w.connEvent})
	return err
}

// connEvent processes a frame event of UCX. The token is held.
func (w *Worker) connEvent(e *ucp.Event) {
	kind, number, value, ok := parseConnHeader(unsafe.Slice(e.Hdr, e.HdrLen))
	if ok { // otherwise the connection is unknown
		if c := w.peers.conn(number); c != nil {
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
	progress.Received()
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
			c.violation("%d bytes confirmed of %d sent", value, c.out.offset)
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

// send starts sending a frame and returns. Data is copied. It may be called with the token held (the frame is then
// submitted by the holder), never with mu. If the frame cannot be sent the connection ends: the stream would have a
// gap.
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
	if len(data) > ucp.InlineSize { // shorter data is copied into the slot
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
	// Like bindAM, without its slices: a frame costs one allocation, the request. Reply lets a worker that rejects the
	// frame identify the sender.
	s.Tag = amConn
	s.Flags |= ucp.FlagEager | ucp.FlagReply
	putConnHeader((*[connHeaderSize]byte)(s.HdrBuf[:]), kind, c.lifeline.remote, value)
	s.Hdr, s.HdrLen = uintptr(unsafe.Pointer(&s.HdrBuf)), connHeaderSize
	if err := w.mem.bind(s, r, v, false, false); err != nil {
		return r.unbind(s, err)
	}
	progress.Sent()
	w.drv.launch(s, r)
	return nil
}

// finishSend is called when UCX has completed a frame, usually with the token held.
func (c *Conn) finishSend(r *Request) {
	if r.err != nil {
		c.sendFailed(r.err)
	}
}

// finishDataSend is finishSend for a data frame. It resumes a Write that waits for frames in flight when half of them
// have completed.
func (c *Conn) finishDataSend(r *Request) {
	c.mu.Lock()
	c.out.flight--
	if c.out.flight <= connFlight/2 {
		c.out.wait.wake()
	}
	c.mu.Unlock()
	c.finishSend(r)
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

// connSender is the sending half of a connection, guarded by Conn.mu.
type connSender struct {
	wait     connWaiter
	deadline connDeadline

	flight    int    // data frames in flight in UCX
	offset    uint64 // of the next byte to send
	spent     uint64 // credit used so far
	limit     uint64 // credit given so far
	ended     bool   // the end was sent, or is about to be
	confirmed bool   // the peer has everything
	stopped   bool   // the peer has stopped reading
}

// connChunk is the maximum payload of one frame. UCX reassembles longer frames from fragments; shorter ones cost more
// calls.
const connChunk = 64 << 10

// connFlight is the maximum number of data frames of a connection in flight in UCX, each with a slot and its copy of
// the bytes. It is enough for a window of full frames.
const connFlight = 64

// connWorth is the smallest part of a longer Write that is sent.
const connWorth = 4 << 10

// raise sets the credit limit from the peer, ignoring limits that arrive out of order.
func (out *connSender) raise(limit uint64) {
	if limit > out.limit {
		out.limit = limit
		out.wait.wake()
	}
}

// room returns how much of n bytes may be sent now.
func (out *connSender) room(n int) int {
	left := int64(out.limit-out.spent) - connFrameCost
	n = min(n, connChunk)
	if out.flight >= connFlight || left < int64(min(n, connWorth)) {
		return 0
	}
	return int(min(left, int64(n)))
}

// Write sends b. It returns when all of it is copied, and waits for the peer's Read when the window is full.
func (c *Conn) Write(b []byte) (int, error) {
	c.writing.Lock()
	defer c.writing.Unlock()
	for n := 0; ; {
		k, offset, err := c.reserve(len(b) - n)
		if err != nil {
			return n, c.opError("write", err)
		}
		if k > 0 {
			if err := c.send(connData, offset, b[n:n+k]); err != nil {
				return n, c.opError("write", err)
			}
		}
		if n += k; n == len(b) {
			return n, nil
		}
	}
}

// reserve waits for room and returns the part of the stream that may be sent now.
func (c *Conn) reserve(n int) (int, uint64, error) {
	out := &c.out
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		switch {
		case c.closed:
			return 0, 0, net.ErrClosed
		case out.deadline.expired:
			return 0, 0, os.ErrDeadlineExceeded
		case out.ended, out.stopped:
			return 0, 0, os.NewSyscallError("write", syscall.EPIPE)
		case c.failure != nil:
			return 0, 0, c.socketError("write")
		case n == 0:
			return 0, 0, nil
		}
		if k := out.room(n); k > 0 {
			offset := out.offset
			out.offset += uint64(k)
			out.spent += uint64(k) + connFrameCost
			out.flight++
			return k, offset, nil
		}
		c.park(&out.wait)
	}
}

// CloseWrite ends writing: the peer reads all written data, then io.EOF. Reading is not affected.
func (c *Conn) CloseWrite() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return c.opError("close", net.ErrClosed)
	}
	if c.failure != nil {
		defer c.mu.Unlock()
		return c.opError("close", c.socketError("close"))
	}
	done := c.out.ended
	c.out.ended = true
	total := c.out.offset
	c.out.wait.wake()
	c.mu.Unlock()
	if done {
		return nil
	}
	return c.opError("close", c.send(connEnd, total, nil))
}

// SetLinger sets the behavior of Close, as [net.TCPConn.SetLinger] does: with 0 Close resets the connection immediately
// and drops data that the peer has not received; with sec > 0 it waits that long for the peer's confirmation; with sec
// < 0, the default, for ConnConfig.Linger.
func (c *Conn) SetLinger(sec int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case sec < 0:
		c.linger = c.cfg.Linger
	default:
		c.linger = time.Duration(sec) * time.Second
	}
	return nil
}

// Close ends blocked calls with [net.ErrClosed], sends the end of the stream, waits until the peer has received (not
// necessarily read) all written data, and closes the endpoint. If that takes longer than the linger time, the
// connection is reset and the error says that data may be lost; so does the error of a connection that broke before the
// confirmation, unless Read or Write has returned it. Closing again returns the first result.
func (c *Conn) Close() error {
	c.closeOnce.Do(func() { c.closeErr = c.opError("close", c.close()) })
	return c.closeErr
}

func (c *Conn) close() error {
	c.mu.Lock()
	c.closed = true
	c.in.shut = true
	c.in.deadline.stop()
	c.out.deadline.stop()
	c.in.wait.wake()
	c.out.wait.wake()
	linger := c.linger
	c.mu.Unlock()
	c.dropReceived()
	ctx, cancel := context.WithTimeout(background, linger)
	defer cancel()
	if linger == 0 {
		c.ep.abort(errCanceled)
		_ = c.ep.Shutdown(ctx)
		return nil
	}
	err := c.finish(ctx, linger)
	if err != nil {
		c.ep.abort(errCanceled)
	}
	if cerr := c.ep.Shutdown(ctx); err == nil && !c.confirmed() {
		err = cerr
	}
	return err
}

func (c *Conn) confirmed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.confirmed || c.failure != nil
}

// finish sends the end of the stream and waits for its confirmation.
func (c *Conn) finish(ctx context.Context, linger time.Duration) error {
	total, err := c.sendEnd()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.out.confirmed && c.failure == nil && c.opened { // nothing can be sent before the peer's open frame
		c.ending.arm(c.w)
		c.mu.Unlock()
		err = c.w.drv.await(ctx, &c.ending.req, 1)
		c.mu.Lock()
		c.ending.on = false
	}
	switch {
	case c.out.confirmed, total == 0 && c.failure != nil, !c.opened:
		return nil
	case c.out.stopped || errors.Is(c.failure, ErrPeerClosed):
		return nil // the peer closed too and expects no more data
	case c.reported:
		return nil // Read or Write has reported it
	case c.failure != nil:
		return c.socketError("close")
	}
	return fmt.Errorf("ucx: the peer did not confirm %d bytes within %v; data may be lost: %w", total, linger,
		timeoutOf(err))
}

// sendEnd ends both directions and returns the length of the stream.
func (c *Conn) sendEnd() (uint64, error) {
	c.writing.Lock() // waits until a concurrent Write has submitted its last frame
	defer c.writing.Unlock()
	c.mu.Lock()
	total, ended, broken := c.out.offset, c.out.ended, c.failure != nil
	c.out.ended = true
	c.mu.Unlock()
	if broken {
		return total, nil
	}
	if !ended {
		if err := c.send(connEnd, total, nil); err != nil {
			return total, err
		}
	}
	return total, c.send(connStop, 0, nil)
}

func timeoutOf(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return os.ErrDeadlineExceeded
	}
	return err
}
