package ucx

import (
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"sync"
)

// connReceiver is the receiving half of a connection, guarded by Conn.mu. Bytes are copied directly into the slice of a
// waiting Read, otherwise into the queue.
type connReceiver struct {
	wait     connWaiter
	deadline connDeadline
	dst      []byte // of the waiting Read
	n        int    // bytes copied to dst

	queue connQueue
	next  uint64 // offset of the next byte to arrive in order

	early      map[uint64][]byte // frames that overtook an earlier one, by offset
	earlyBytes int

	// Credit is counted in bytes and connFrameCost per frame, since the start.
	window  uint64
	granted uint64 // credit granted to the peer
	got     uint64 // credit used by the peer
	used    uint64 // credit whose data has left this side's memory

	end        uint64 // bytes in the whole stream, once the peer has sent the end
	ended      bool
	confirming bool // the confirmation is being sent
	shut       bool // reading has ended: arriving data is dropped
}

// accept processes a data frame.
func (in *connReceiver) accept(offset uint64, data []byte) error {
	n := uint64(len(data))
	in.got += n + connFrameCost
	switch {
	case in.got > in.granted:
		return fmt.Errorf("%d bytes beyond the credit limit", in.got-in.granted)
	case offset < in.next || offset > math.MaxUint64-n || in.ended && offset+n > in.end:
		return fmt.Errorf("data at offset %d, %d bytes, outside the window at %d", offset, n, in.next)
	case offset > in.next:
		if _, twice := in.early[offset]; twice {
			return fmt.Errorf("duplicate data at offset %d", offset)
		}
		if in.early == nil {
			in.early = map[uint64][]byte{}
		}
		in.early[offset] = append([]byte(nil), data...)
		in.earlyBytes += len(data)
		return nil
	}
	in.deliver(data)
	for len(in.early) > 0 {
		b, ok := in.early[in.next]
		if !ok {
			break
		}
		delete(in.early, in.next)
		in.earlyBytes -= len(b)
		in.deliver(b)
	}
	return nil
}

// deliver appends the next bytes of the stream.
func (in *connReceiver) deliver(data []byte) {
	in.next += uint64(len(data))
	in.used += connFrameCost
	if in.shut {
		in.used += uint64(len(data))
		return
	}
	if in.wait.on && in.dst != nil && in.queue.n == 0 {
		k := copy(in.dst, data)
		data = data[k:]
		in.n, in.dst = k, nil
		in.used += uint64(k)
	}
	if len(data) > 0 {
		in.queue.write(data)
	}
	in.wait.wake()
}

// grant returns a new credit limit for the peer when enough of the window is free, or 0.
func (in *connReceiver) grant() uint64 {
	limit := in.used + in.window
	if in.ended || in.shut || limit-in.granted < in.window/4 {
		return 0
	}
	in.granted = limit
	return limit
}

func (in *connReceiver) setEnd(total uint64) error {
	if in.ended && in.end != total || total < in.next {
		return fmt.Errorf("stream ended at offset %d, before the received offset %d", total, in.next)
	}
	in.ended, in.end = true, total
	in.wake()
	return nil
}

// wake notifies a waiting Read of the stream's end.
func (in *connReceiver) wake() {
	if in.eof() {
		in.wait.wake()
	}
}

func (in *connReceiver) eof() bool { return in.ended && in.next == in.end }

// confirm reports, once, whether everything up to the end has arrived.
func (in *connReceiver) confirm() bool {
	if in.confirming || !in.eof() {
		return false
	}
	in.confirming = true
	in.wake()
	return true
}

// Read returns available data, or waits for some. It returns [io.EOF] after the peer's last byte.
func (c *Conn) Read(b []byte) (int, error) {
	c.reading.Lock()
	defer c.reading.Unlock()
	n, err := c.read(b)
	return n, c.opError("read", err)
}

func (c *Conn) read(b []byte) (int, error) {
	in := &c.in
	c.mu.Lock()
	for {
		switch {
		case c.closed:
			c.mu.Unlock()
			return 0, net.ErrClosed
		case in.deadline.expired:
			c.mu.Unlock()
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			c.mu.Unlock()
			return 0, nil
		case in.queue.n > 0:
			return c.take(b), nil
		case in.eof() || in.shut:
			c.mu.Unlock()
			return 0, io.EOF
		case c.failure != nil:
			defer c.mu.Unlock()
			return 0, c.socketError("read")
		}
		in.dst, in.n = b, 0
		c.park(&in.wait)
		in.dst = nil
		if n := in.n; n > 0 {
			c.grantAndUnlock()
			return n, nil
		}
	}
}

// take copies from the queue. mu is held on entry and not on return. The copy is made without it: only the holder of
// reading removes blocks, and newly arriving data is appended after the bytes being copied.
func (c *Conn) take(b []byte) int {
	in := &c.in
	n := 0
	for n < len(b) && in.queue.n > 0 {
		part := in.queue.front()
		c.mu.Unlock()
		k := copy(b[n:], part)
		n += k
		c.mu.Lock()
		in.queue.drop(k)
		in.used += uint64(k)
	}
	c.grantAndUnlock()
	return n
}

// grantAndUnlock reports free window space to the peer. mu is held on entry.
func (c *Conn) grantAndUnlock() {
	limit := c.in.grant()
	if c.failure != nil {
		limit = 0
	}
	c.mu.Unlock()
	if limit != 0 {
		_ = c.send(connCredit, limit, nil)
	}
}

// CloseRead ends reading: Read returns io.EOF, received data is dropped, and the peer's Write fails with EPIPE, as with
// a Unix socket.
func (c *Conn) CloseRead() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return c.opError("close", net.ErrClosed)
	}
	tell := !c.in.shut && c.failure == nil
	c.in.shut = true
	c.in.wait.wake()
	c.mu.Unlock()
	c.dropReceived()
	if tell {
		_ = c.send(connStop, 0, nil)
	}
	return nil
}

// dropReceived empties the queue. shut is set, so that no more data is queued.
func (c *Conn) dropReceived() {
	c.reading.Lock()
	defer c.reading.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.in.queue.n > 0 {
		c.in.queue.drop(len(c.in.queue.front()))
	}
}

// connQueue holds received bytes in blocks from a shared pool, so that an idle connection holds none.
type connQueue struct {
	head, tail *connBlock
	n          int
}

type connBlock struct {
	next *connBlock
	r, w int
	buf  [connBlockSize]byte
}

const connBlockSize = 32 << 10

var connBlocks = sync.Pool{New: func() any { return new(connBlock) }}

func (q *connQueue) write(p []byte) {
	q.n += len(p)
	for len(p) > 0 {
		if q.tail == nil || q.tail.w == connBlockSize {
			b := connBlocks.Get().(*connBlock)
			b.next, b.r, b.w = nil, 0, 0
			if q.tail == nil {
				q.head = b
			} else {
				q.tail.next = b
			}
			q.tail = b
		}
		k := copy(q.tail.buf[q.tail.w:], p)
		q.tail.w += k
		p = p[k:]
	}
}

// front returns the bytes of the first block. They stay valid until drop.
func (q *connQueue) front() []byte { return q.head.buf[q.head.r:q.head.w] }

// drop removes n bytes of the first block.
func (q *connQueue) drop(n int) {
	b := q.head
	q.n -= n
	if b.r += n; b.r < b.w {
		return
	}
	if q.head = b.next; q.head == nil {
		q.tail = nil
	}
	connBlocks.Put(b)
}
