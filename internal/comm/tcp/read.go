package tcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/wire/block"
	"go.millstream.dev/internal/wire/framing"
	"go.millstream.dev/wire"
)

const (
	// smallBuffer is the read buffer of a comm that has had small messages only: thousands of idle comms must be cheap.
	// It grows to largeBuffer when reads fill it.
	smallBuffer = 4 << 10
	largeBuffer = 64 << 10
	// blockSize bounds the memory that adjacent small frames of a message share. A larger frame has its own memory.
	blockSize = 64 << 10
	// openStep is the memory of a frame before any byte of it has arrived, growth the factor by which it then grows as
	// bytes arrive.
	openStep = 1 << 20
	growth   = 4
	// A comm that has received much is trusted to announce as much: its large frames are then read into their final
	// memory without a copy. maxCredit bounds that.
	maxCredit = 128 << 20
)

// input is the state of the reading side. The holder of the read turn owns it.
type input struct {
	buf  []byte
	r, w int          // buf[r:w] has arrived and is not read
	got  atomic.Int64 // bytes received so far, in all; any goroutine may read it
	grow bool         // a read filled the buffer
}

// Received implements hooks.Receiver.
func (c *conn) Received() int64 {
	n := c.in.got.Load()
	for _, l := range c.stripes.get() {
		n += l.in.got.Load()
	}
	return n
}

// Read returns the next message.
func (c *conn) Read(ctx context.Context) (*wire.Message, error) {
	if err := c.rturn.take(ctx, c.gone); err != nil {
		return nil, c.refused(ctx, err)
	}
	defer c.rturn.give()
	select {
	case <-c.gone:
		c.rguard.disarm()
		return nil, c.Err()
	default:
	}
	if c.freed.Load() {
		return nil, c.Err()
	}
	if err := c.rguard.arm(ctx); err != nil {
		return nil, err
	}
	m, err := c.readMessage(ctx)
	if err == nil {
		return m, nil
	}
	return nil, c.readFailed(ctx, err)
}

// readFailed determines the effect of an error on the comm.
func (c *conn) readFailed(ctx context.Context, err error) error {
	var bad *badMessage
	started := c.in.r < c.in.w
	if errors.As(err, &bad) {
		started, err = true, bad.err
	}
	if errors.Is(err, os.ErrDeadlineExceeded) || ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		select {
		case <-c.gone: // ended by Close
			c.rguard.disarm()
			return c.Err()
		default:
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
			if !started {
				return err // nothing was lost: the comm stays usable
			}
			err = fmt.Errorf("context of a read ended in the middle of a message: %w", err)
		}
	}
	err = c.endWith(err, started)
	c.rguard.disarm()
	return err
}

func (c *conn) refused(ctx context.Context, err error) error {
	if errors.Is(err, errGone) && ctx.Err() == nil {
		return c.Err()
	}
	return err
}

// badMessage is an error after which the position in the stream is lost.
type badMessage struct{ err error }

func (b *badMessage) Error() string { return b.err.Error() }
func (b *badMessage) Unwrap() error { return b.err }

// lost marks an error in the middle of a message.
func lost(err error) error { return &badMessage{err} }

// broken marks an error caused by a protocol violation of the peer.
func broken(err error) error { return &badMessage{fmt.Errorf("%w: %w", comm.ErrProtocol, err)} }

// readMessage reads one message. Until its head has been consumed from the buffer, an error has no effect.
func (c *conn) readMessage(ctx context.Context) (*wire.Message, error) {
	in := &c.in
	if err := c.need(framing.HeadSize); err != nil {
		return nil, err
	}
	// The message may be rejected before more data has arrived.
	first, err := framing.FirstRead(in.buf[in.r:in.w], c.limits)
	if err != nil {
		return nil, broken(err)
	}
	if err := c.need(framing.HeadSize + 8); err != nil {
		return nil, err
	}
	n, err := framing.NumFrames(in.buf[in.r+framing.HeadSize:in.w], c.limits)
	if err != nil {
		return nil, broken(err)
	}
	table, err := c.prelude(8 * (1 + n))
	if err != nil {
		return nil, lost(err)
	}
	var flags map[int]byte
	if c.flags {
		if flags, err = takeFlags(table, n); err != nil {
			return nil, broken(err)
		}
	}
	p, err := framing.Parse(table, first, c.limits)
	if err != nil {
		return nil, broken(err)
	}
	if p.Joined == n {
		sum := int64(p.Size)
		for _, k := range p.Lengths {
			sum += k
		}
		if sum != first {
			return nil, broken(fmt.Errorf("wire: first read of %d bytes, frames of %d", first, sum))
		}
	}
	m, err := c.frames(ctx, p.Lengths, flags)
	if err != nil {
		return nil, lost(err)
	}
	return m, nil
}

// prelude consumes the head and the prelude of size bytes from the stream. The result is valid until the next read.
func (c *conn) prelude(size int) ([]byte, error) {
	in := &c.in
	if all := framing.HeadSize + size; all <= largeBuffer {
		if err := c.need(all); err != nil {
			return nil, err
		}
		table := in.buf[in.r+framing.HeadSize : in.r+all]
		in.r += all
		return table, nil
	}
	in.r += framing.HeadSize
	return c.large(int64(size))
}

// need waits until n bytes, at most largeBuffer, are in the buffer.
func (c *conn) need(n int) error {
	in := &c.in
	for in.w-in.r < n {
		if err := c.fill(n); err != nil {
			return err
		}
	}
	return nil
}

// fill reads once into the buffer, which gets capacity for n bytes in total.
func (c *conn) fill(n int) error {
	in := &c.in
	if in.r == in.w {
		in.r, in.w = 0, 0
	}
	size := max(len(in.buf), smallBuffer)
	if in.grow || n > size {
		size = largeBuffer
	}
	if size > len(in.buf) {
		buf := make([]byte, size)
		in.w = copy(buf, in.buf[in.r:in.w])
		in.buf, in.r, in.grow = buf, 0, false
	} else if in.r > 0 && len(in.buf)-in.r < n {
		in.w = copy(in.buf, in.buf[in.r:in.w])
		in.r = 0
	}
	k, err := c.nc.Read(in.buf[in.w:])
	in.w += k
	in.got.Add(int64(k))
	if in.w == len(in.buf) && len(in.buf) < largeBuffer {
		in.grow = true
	}
	if k > 0 {
		return nil // an error is returned again
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// message is a message with inline space for the frames of most messages.
type message struct {
	wire.Message
	room [2]wire.Frame
}

// frames reads the frames of a message. flags are the flags of flagged frames.
func (c *conn) frames(ctx context.Context, lengths []int64, flags map[int]byte) (*wire.Message, error) {
	m := new(message)
	m.Frames = m.room[:0]
	for i := 0; i < len(lengths); {
		if f := flags[i]; f != 0 {
			frame, err := c.flagged(ctx, lengths[i], f)
			if err != nil {
				m.Release()
				return nil, err
			}
			m.Frames = append(m.Frames, frame)
			i++
			continue
		}
		if lengths[i] > blockSize {
			b, err := c.large(lengths[i])
			if err != nil {
				m.Release()
				return nil, err
			}
			m.Frames = append(m.Frames, wire.HeapFrame(b))
			i++
			continue
		}
		// Adjacent small frames share a block.
		end, sum := i, int64(0)
		for end < len(lengths) && flags[end] == 0 && sum+lengths[end] <= blockSize {
			sum += lengths[end]
			end++
		}
		block := block.Get(int(sum))
		if err := c.full(block); err != nil {
			m.Release()
			return nil, err
		}
		for ; i < end; i++ {
			n := lengths[i]
			m.Frames = append(m.Frames, wire.HeapFrame(block[:n:n]))
			block = block[n:]
		}
	}
	return &m.Message, nil
}

// full fills b from the stream. Short remainders are read through the buffer, as the next message may arrive with them;
// long ones are read in place.
func (c *conn) full(b []byte) error {
	in := &c.in
	for {
		n := copy(b, in.buf[in.r:in.w])
		in.r += n
		b = b[n:]
		if len(b) == 0 {
			return nil
		}
		if len(b) < len(in.buf)/2 {
			if err := c.fill(1); err != nil {
				return err
			}
			continue
		}
		n, err := c.nc.Read(b)
		in.got.Add(int64(n))
		b = b[n:]
		if n == 0 {
			if err == nil {
				err = io.ErrNoProgress
			}
			return err
		}
	}
}

// large reads a frame whose memory grows with the bytes that arrive.
func (c *conn) large(size int64) ([]byte, error) {
	open := max(openStep, min(c.in.got.Load(), maxCredit))
	have := min(size, open)
	b := uncleared(int(have))
	if err := c.full(b); err != nil {
		return nil, err
	}
	for have < size {
		next := min(size, have*growth)
		grown := uncleared(int(next))
		copy(grown, b)
		if err := c.full(grown[have:]); err != nil {
			return nil, err
		}
		b, have = grown, next
	}
	return b, nil
}
