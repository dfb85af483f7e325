package inproc

import (
	"context"
	"errors"
	"sync"

	"go.millstream.dev/comm"
	"go.millstream.dev/wire"
)

var (
	errGone       = errors.New("closed on this side")
	errPeerClosed = errors.New("closed by the peer")
)

// conn is one end of a comm.
type conn struct {
	local, peer string
	info        comm.Info
	in, out     *queue
	other       *conn

	mu    sync.Mutex // owns err, after and the closing of done and gone
	err   error
	after func()        // called at the end
	done  chan struct{} // the comm has ended
	gone  chan struct{} // this side has ended it
	left  bool          // gone is closed
}

// newPair makes both ends of a comm.
func newPair(dialler, listener string) (a, b *conn) {
	ab, ba := newQueue(), newQueue()
	a = &conn{local: dialler, peer: listener, in: ba, out: ab, done: make(chan struct{}), gone: make(chan struct{})}
	b = &conn{local: listener, peer: dialler, in: ab, out: ba, done: make(chan struct{}), gone: make(chan struct{})}
	a.other, b.other = b, a
	return a, b
}

func (c *conn) LocalAddr() string     { return c.local }
func (c *conn) PeerAddr() string      { return c.peer }
func (c *conn) Info() comm.Info       { return c.info }
func (c *conn) Done() <-chan struct{} { return c.done }

func (c *conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// end records why the comm has ended.
func (c *conn) end(cause error) {
	c.mu.Lock()
	var after func()
	if c.err == nil {
		c.err = &comm.ClosedError{Local: c.local, Peer: c.peer, Cause: cause}
		close(c.done)
		after, c.after = c.after, nil
	}
	if cause == errGone && !c.left {
		c.left = true
		close(c.gone)
	}
	c.mu.Unlock()
	if after != nil {
		after()
	}
}

// AfterDone implements hooks.Notifier.
func (c *conn) AfterDone(f func()) {
	c.mu.Lock()
	ended := c.err != nil
	if !ended {
		c.after = f
	}
	c.mu.Unlock()
	if ended {
		f()
	}
}

// Write passes the message's frames to the peer, with their own references.
func (c *conn) Write(ctx context.Context, m *wire.Message) error {
	if len(m.Frames) == 0 {
		return errors.New("comm: write: message without a body")
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ok, err := c.out.push(ctx, m)
	if err == nil && !ok {
		err = c.Err()
	}
	return err
}

// Read returns the next message that the peer has written.
func (c *conn) Read(ctx context.Context) (*wire.Message, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	m, err := c.in.pop(ctx, c.gone)
	if err == nil && m == nil {
		err = c.Err()
	}
	return m, err
}

// Close ends the comm. The peer can still read written messages.
func (c *conn) Close() error {
	c.leave(false)
	return nil
}

// Abort ends the comm; messages that the peer has not read are lost, unless Close came first.
func (c *conn) Abort() { c.leave(true) }

func (c *conn) leave(drop bool) {
	c.mu.Lock()
	before := c.left
	c.mu.Unlock()
	// The ends are marked before the queues are closed: a woken waiter finds the reason.
	c.end(errGone)
	c.other.end(errPeerClosed)
	c.in.close(true)
	c.out.close(drop && !before)
}
