package ucx

import (
	"net"
	"os"
	"syscall"
)

// connSender is the sending half of a connection, guarded by Conn.mu.
type connSender struct {
	wait     connWaiter
	deadline connDeadline

	flight    int    // data frames that UCX has not taken yet
	offset    uint64 // of the next byte to send
	spent     uint64 // credit used so far
	limit     uint64 // credit given so far
	ended     bool   // the end was sent, or is about to be
	confirmed bool   // the peer has everything
	stopped   bool   // the peer reads no more
}

// connChunk is the most that one frame carries. Longer frames make UCX put fragments
// together, shorter ones cost more calls.
const connChunk = 64 << 10

// connFlight is the most data frames of a connection that may wait inside UCX, each
// with a slot and its copy of the bytes. Enough for a window of full frames.
const connFlight = 64

// connWorth is the least room a Write goes on with, unless less is left to write.
const connWorth = 4 << 10

// raise takes a credit limit from the peer; an older one that was overtaken changes nothing.
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

// Write sends b. It returns when all of it is copied, waiting for the peer's Read as
// far as the window is used up.
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
			return 0, 0, c.broken("write")
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

// CloseWrite ends writing: the peer reads what was written, then io.EOF. Reading goes on.
func (c *Conn) CloseWrite() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return c.opError("close", net.ErrClosed)
	}
	if c.failure != nil {
		defer c.mu.Unlock()
		return c.opError("close", c.broken("close"))
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
