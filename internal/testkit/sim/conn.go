package sim

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/wire"
)

// conn is a connection with two ends. The mu of the network guards both.
type conn struct {
	net  *Network
	ends [2]*end // the dialing end and the accepting end
}

// end is one side of a connection: a comm.Comm.
type end struct {
	conn   *conn
	net    *Network
	host   *Host
	peer   *end
	name   string // name of the direction to the peer: "a:40000>b:8786"
	addr   string
	info   comm.Info
	limits comm.Limits
	order  order // order of messages sent from here

	inbox   []*flight // arrived, not read
	coming  []*flight // in flight to this end
	unread  int64     // bytes sent from here that the peer has not read
	writing bool      // a large message waits to be read
	onEnd   func()    // set by the listener until it has accepted the connection
	err     error     // set when either side has ended; messages in inbox can still be read
	done    chan struct{}
	changed chan struct{} // closed and replaced when a waiting Read or Write should check again
}

// flight is one message in flight.
type flight struct {
	m     *wire.Message
	size  int64
	first time.Duration // when the first byte arrives
	dead  bool          // lost
	read  bool
}

func (f *flight) lose() {
	if !f.dead {
		f.dead = true
		f.m.Release()
	}
}

var _ comm.Comm = (*end)(nil)

func (n *Network) newConn(from, to *Host, fromAddr, toAddr string) *conn {
	c := &conn{net: n}
	for i := range c.ends {
		c.ends[i] = &end{conn: c, net: n, done: make(chan struct{}), changed: make(chan struct{})}
	}
	d, a := c.ends[0], c.ends[1]
	d.host, d.addr, d.peer, d.name = from, "sim://"+fromAddr, a, fromAddr+">"+toAddr
	a.host, a.addr, a.peer, a.name = to, "sim://"+toAddr, d, toAddr+">"+fromAddr
	n.conns[c] = struct{}{}
	return c
}

// LocalAddr returns the address of this end.
func (e *end) LocalAddr() string { return e.addr }

// PeerAddr returns the address of the other end.
func (e *end) PeerAddr() string { return e.peer.addr }

// Info returns the result of the handshake.
func (e *end) Info() comm.Info { return e.info }

// Done returns a channel that is closed when the comm has ended.
func (e *end) Done() <-chan struct{} { return e.done }

// Err returns why the comm has ended.
func (e *end) Err() error {
	e.net.mu.Lock()
	defer e.net.mu.Unlock()
	return e.err
}

func (e *end) String() string { return "sim comm " + e.name }

func (e *end) wake() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// wait releases mu until something has changed.
func (e *end) wait(ctx context.Context) error {
	mine, hosts := e.changed, e.host.changed
	e.net.mu.Unlock()
	defer e.net.mu.Lock()
	select {
	case <-mine:
	case <-hosts:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// unsent is the error of a write that sent nothing; package rpc checks for it.
type unsent struct{ error }

// Unsent returns true.
func (unsent) Unsent() bool { return true }

func (u unsent) Unwrap() error { return u.error }

// wireSize returns the size of a message on a wire: its frames and the frame table of Dask.
func wireSize(m *wire.Message) int64 { return m.Size() + 8*int64(2+len(m.Frames)) }

// Write sends one message.
func (e *end) Write(ctx context.Context, m *wire.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if len(m.Frames) == 0 {
		return fmt.Errorf("sim: %s: write: message without frames", e.name)
	}
	n := e.net
	size := wireSize(m)
	n.mu.Lock()
	defer n.mu.Unlock()
	for {
		if e.err != nil {
			return unsent{e.err}
		}
		if !e.host.stalled && !e.writing && (e.unread == 0 || e.unread+size <= n.cfg.Window) {
			break
		}
		// Nothing was sent: the comm remains usable if ctx ends here.
		if err := e.wait(ctx); err != nil {
			return fmt.Errorf("sim: %s: write: %w", e.name, err)
		}
	}
	f, err := e.launch(m, size)
	if err != nil || f == nil || size <= n.cfg.Window { // without a flight the message is lost
		return err
	}
	e.writing = true
	defer func() {
		e.writing = false
		e.wake()
	}()
	for !f.read {
		if e.err != nil {
			return e.err
		}
		if f.dead {
			return e.closed("message lost")
		}
		if err := e.wait(ctx); err != nil {
			if f.read || e.err != nil {
				continue
			}
			// A message that is larger than the window has not arrived as a whole.
			e.peer.inbox = slices.DeleteFunc(e.peer.inbox, func(x *flight) bool { return x == f })
			e.abort("aborted: " + err.Error() + " in the middle of a message")
			f.lose()
			return fmt.Errorf("%w: %w", e.err, err)
		}
	}
	return nil
}

// launch sends a message over the link. The caller holds mu.
func (e *end) launch(m *wire.Message, size int64) (*flight, error) {
	n, l := e.net, e.net.link(e.host.name, e.peer.host.name)
	if l.takeDrop(size) {
		n.tracef("%s dropped in the middle of %d bytes", e.name, size)
		report := n.chance("told "+e.name, e.order.count)%2 == 0
		e.conn.drop("connection reset in the middle of a message")
		if report {
			return nil, e.err
		}
		return nil, nil // as if the kernel had accepted the bytes
	}
	f := &flight{m: m.Retain(), size: size}
	e.unread += size
	p := e.peer
	p.coming = append(p.coming, f)
	f.first, _ = l.send(size, parcel{name: e.name, order: &e.order,
		expired: func() bool { return f.dead },
		arrive:  func() { p.receive(f) },
	})
	n.tracef("%s sent %d bytes, %d frames", e.name, size, len(m.Frames))
	return f, nil
}

// receive handles a message that has arrived. The caller holds mu.
func (e *end) receive(f *flight) {
	e.coming = slices.DeleteFunc(e.coming, func(x *flight) bool { return x == f })
	if e.err != nil {
		f.lose()
		return
	}
	if limit := e.limits.Message; limit > 0 && f.size > limit {
		f.lose()
		e.abort(fmt.Sprintf("message of %d bytes exceeds the limit of %d (comm.Limits.Message)", f.size, limit))
		return
	}
	if limit := e.limits.Frames; limit > 0 && len(f.m.Frames) > limit {
		k := len(f.m.Frames)
		f.lose()
		e.abort(fmt.Sprintf("message of %d frames exceeds the limit of %d (comm.Limits.Frames)", k, limit))
		return
	}
	e.inbox = append(e.inbox, f)
	e.net.tracef("%s received %d bytes", e.peer.name, f.size)
	e.wake()
}

// Read returns the next message.
func (e *end) Read(ctx context.Context) (*wire.Message, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	e.net.mu.Lock()
	defer e.net.mu.Unlock()
	for {
		if !e.host.stalled && len(e.inbox) > 0 {
			return e.take(), nil
		}
		if e.err != nil && len(e.inbox) == 0 {
			return nil, e.err
		}
		if err := e.wait(ctx); err != nil {
			gone := e.err == nil && len(e.inbox) == 0 && len(e.coming) > 0 && e.coming[0].first <= e.net.now() &&
				e.net.link(e.peer.host.name, e.host.name).cut == 0
			if gone {
				e.abort("aborted: " + err.Error() + " in the middle of a message")
				return nil, fmt.Errorf("%w: %w", e.err, err)
			}
			return nil, fmt.Errorf("sim: %s: read: %w", e.name, err)
		}
	}
}

// take removes the first message from the inbox.
func (e *end) take() *wire.Message {
	f := e.inbox[0]
	e.inbox[0] = nil
	e.inbox = e.inbox[1:]
	f.read = true
	e.peer.unread -= f.size
	e.peer.wake()
	return f.m
}

// Close sends pending messages, notifies the peer and closes the comm.
func (e *end) Close() error {
	e.net.mu.Lock()
	defer e.net.mu.Unlock()
	e.empty()
	if e.err != nil {
		return nil
	}
	e.finish(e.closed("closed here"))
	e.sendEnd("closed by the peer", io.EOF)
	return nil
}

// Abort ends the comm immediately; messages in flight are lost.
func (e *end) Abort() {
	e.net.mu.Lock()
	defer e.net.mu.Unlock()
	e.abort("aborted here")
}

func (e *end) abort(why string) {
	e.empty()
	if e.err != nil {
		return
	}
	e.finish(e.closed(why))
	e.peer.loseComing()
	e.sendEnd("reset by the peer", io.ErrUnexpectedEOF)
}

// sendEnd sends the end of the connection after all messages.
func (e *end) sendEnd(why string, cause error) {
	p := e.peer
	if p.err != nil {
		return
	}
	e.net.link(e.host.name, p.host.name).send(64, parcel{name: e.name, order: &e.order,
		expired: func() bool { return p.err != nil },
		arrive:  func() { p.endByPeer(fmt.Errorf("%w: %w", p.closed(why), cause)) },
	})
}

// endByPeer ends this side from the other side: messages that have arrived can still be read.
func (e *end) endByPeer(err error) {
	if e.err != nil {
		return
	}
	e.loseComing()
	e.finish(err)
}

// empty releases unread messages.
func (e *end) empty() {
	for _, f := range e.inbox {
		f.lose()
	}
	e.inbox = nil
}

func (e *end) loseComing() {
	for _, f := range e.coming {
		f.lose()
	}
	e.coming = nil
	e.peer.wake()
}

// finish ends this side.
func (e *end) finish(err error) {
	if e.err != nil {
		return
	}
	e.err = err
	e.net.tracef("%s ended: %v", e.name, err)
	if e.onEnd != nil {
		e.onEnd()
	}
	close(e.done)
	e.wake()
	if e.peer.err != nil {
		delete(e.net.conns, e.conn)
	}
}

// drop resets both sides.
func (c *conn) drop(why string) {
	for _, e := range c.ends {
		e.endByPeer(fmt.Errorf("%w: %w", e.closed(why), io.ErrUnexpectedEOF))
	}
}

func (e *end) closed(why string) error {
	return fmt.Errorf("sim: %s: %s: %w", e.name, why, comm.ErrClosed)
}
