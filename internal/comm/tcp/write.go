package tcp

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"go.millstream.dev/internal/wire/framing"
	"go.millstream.dev/wire"
)

const (
	// joinBelow is the length of frames that are copied next to each other, so that a message of small frames is sent
	// in one write of one piece.
	joinBelow = 16 << 10
	// keepBuffer is the largest write buffer that is kept for the next message.
	keepBuffer = 256 << 10
)

// output is the state of the writing side. The holder of the write turn owns it.
type output struct {
	buf  []byte      // prelude and small frames
	vec  [][]byte    // pieces: of buf, and large frames
	bufs net.Buffers // consumed by WriteTo; a field to avoid an allocation
}

// Write sends one message.
func (c *conn) Write(ctx context.Context, m *wire.Message) error {
	st, err := c.plan(m)
	if err != nil {
		return err
	}
	if err := c.wturn.take(ctx, c.done); err != nil {
		return c.refused(ctx, err)
	}
	defer c.wturn.give()
	return c.write(ctx, m, st)
}

const (
	// tryBytes is the size of messages up to which TryWrite sends them.
	tryBytes = 8 << 10
	// tryQueued is how many bytes the peer may not have acknowledged yet: a fraction of the smallest send buffer, whose
	// memory short segments use several times over.
	tryQueued = 2 << 10
)

// TryWrite implements hooks.TryWriter.
func (c *conn) TryWrite(ctx context.Context, m *wire.Message) (bool, error) {
	if m.Size() > tryBytes {
		return false, nil
	}
	st, err := c.plan(m)
	if err != nil || st != nil {
		return false, err
	}
	select {
	case c.wturn <- struct{}{}:
	default:
		return false, nil
	}
	defer c.wturn.give()
	if n, err := unacknowledged(c.raw); err != nil || n > tryQueued {
		return false, nil
	}
	return true, c.write(ctx, m, nil)
}

// write sends a message. The caller holds the turn.
func (c *conn) write(ctx context.Context, m *wire.Message, st *stage) (err error) {
	select {
	case <-c.done:
		c.wguard.disarm()
		return c.Err()
	default:
	}
	if err := c.wguard.arm(ctx); err != nil {
		return err
	}
	var n int64
	if st != nil {
		n, err = c.sendStaged(ctx, m, st)
	} else {
		n, err = c.out.send(c.nc, m, c.flags)
	}
	if err == nil {
		return nil
	}
	if ctx.Err() != nil && (errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.Cause(ctx))) {
		err = context.Cause(ctx)
		if n == 0 && !c.encrypted {
			return err // nothing was sent
		}
		err = fmt.Errorf("context of a write ended in the middle of a message: %w", err)
	}
	ended := c.endWith(err, true)
	c.wguard.disarm()
	if st != nil && !errors.Is(ended, err) {
		// A device that failed here has ended the stripes, and the peer's close was detected first.
		return fmt.Errorf("%w: %w", ended, err)
	}
	return ended
}

// send writes a message and returns how many bytes of it were sent.
func (o *output) send(nc net.Conn, m *wire.Message, flags bool) (int64, error) {
	small := framing.HeadSize + 8*(1+len(m.Frames))
	large := 0
	for _, f := range m.Frames {
		if n := f.Len(); n < joinBelow {
			small += n
		} else {
			large++
		}
	}
	if cap(o.buf) < small {
		o.buf = make([]byte, 0, max(small, smallBuffer))
	}
	// The buffer has capacity for everything, so pieces of it do not move.
	buf := framing.Append(o.buf[:0], m, framing.Joined(m))
	if flags {
		flagFrames(buf, m, nil)
	}
	if cap(buf) > keepBuffer {
		o.buf = nil
	}
	if large == 0 {
		for _, f := range m.Frames {
			buf = append(buf, f.Bytes()...)
		}
		n, err := nc.Write(buf)
		return int64(n), err
	}
	start := 0
	vec := o.vec[:0]
	for _, f := range m.Frames {
		b := f.Bytes()
		if len(b) < joinBelow {
			buf = append(buf, b...)
			continue
		}
		if start < len(buf) {
			vec = append(vec, buf[start:])
			start = len(buf)
		}
		vec = append(vec, b)
	}
	if start < len(buf) {
		vec = append(vec, buf[start:])
	}
	o.bufs = vec
	n, err := o.bufs.WriteTo(nc)
	clear(vec) // the caller owns the frames again
	o.bufs = nil
	if cap(vec) <= 1024 {
		o.vec = vec
	} else {
		o.vec = nil
	}
	return n, err
}
