package ucx

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// SetLinger sets what Close does, as [net.TCPConn.SetLinger]: with 0 it resets the
// connection at once and drops what the peer has not received; with sec > 0 it waits
// that long for the peer's confirmation; with sec < 0, the initial state, for
// ConnConfig.Linger.
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

// Close ends waiting calls with [net.ErrClosed], sends the end of the stream, waits
// until the peer has everything that was written (not until it has read it), and
// closes the endpoint. If that takes longer than the linger time, the connection is
// reset and the error says that data may be lost; so does the error of a connection
// that broke before the confirmation, unless Read or Write has returned it. Closing
// again returns the first result.
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
		c.ep.abort(ErrCanceled)
		_ = c.ep.CloseContext(ctx)
		return nil
	}
	err := c.farewell(ctx, linger)
	if err != nil {
		c.ep.abort(ErrCanceled)
	}
	if cerr := c.ep.CloseContext(ctx); err == nil && !c.confirmed() {
		err = cerr
	}
	return err
}

func (c *Conn) confirmed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.out.confirmed || c.failure != nil
}

// farewell sends the end and waits for its confirmation.
func (c *Conn) farewell(ctx context.Context, linger time.Duration) error {
	total, err := c.sendEnd()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.out.confirmed && c.failure == nil && c.opened { // without the peer's greeting nothing could be sent
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
		return nil // the peer closed as well, and wants nothing more
	case c.told:
		return nil // Read or Write has reported it
	case c.failure != nil:
		return c.broken("close")
	}
	return fmt.Errorf("ucx: the peer did not confirm %d bytes within %v; data may be lost: %w", total, linger, timeoutOf(err))
}

// sendEnd sends what ends both directions and returns the length of the stream.
func (c *Conn) sendEnd() (uint64, error) {
	c.writing.Lock() // a Write that was on its way hands over its last frame before
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
