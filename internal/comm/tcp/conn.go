package tcp

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/wire/framing"
	"go.millstream.dev/mem"
)

// Causes of a comm's end.
var (
	errGone       = errors.New("closed on this side")
	errAborted    = errors.New("aborted on this side")
	errPeerClosed = errors.New("closed by the peer")
	errCut        = errors.New("closed by the peer in the middle of a message")
)

// closeTime bounds Close.
const closeTime = time.Second

// conn is a comm over a TCP connection, plain or with TLS.
type conn struct {
	nc          net.Conn // raw, or TLS on it
	raw         *net.TCPConn
	encrypted   bool
	local, peer string
	info        comm.Info      // set by the handshake, before the comm is shared
	limits      framing.Limits // of messages from the peer; changed by the handshake
	hangup      uint64         // number in the table of watched connections

	rturn  turn // its holder owns rguard and in
	rguard guard
	in     input

	wturn  turn // its holder owns wguard and out
	wguard guard
	out    output

	device  mem.Resource      // for frames on GPUs; nil: they arrive in host memory
	staged  comm.StagedConfig // how they are sent
	flags   bool              // lengths carry flags; set by the handshake like info
	stripes stripes

	gone     chan struct{} // closed when this side has ended the comm
	goneOnce sync.Once
	freed    atomic.Bool // the socket is closed

	mu    sync.Mutex // owns err, after and the closing of done
	err   error
	after func() // called at the end
	done  chan struct{}
}

// newConn wraps a connected socket. It takes over nc, also if it fails.
func newConn(nc net.Conn, limits framing.Limits) (*conn, error) {
	c := &conn{
		nc: nc, limits: limits, rturn: newTurn(), wturn: newTurn(),
		gone: make(chan struct{}), done: make(chan struct{}),
	}
	scheme := "tcp"
	switch n := nc.(type) {
	case *net.TCPConn:
		c.raw = n
	case *tls.Conn:
		scheme = "tls"
		c.raw = n.NetConn().(*transport).TCPConn
		c.encrypted = true
	}
	c.rguard.set, c.wguard.set = nc.SetReadDeadline, nc.SetWriteDeadline
	c.local, c.peer = addressOf(scheme, c.raw.LocalAddr()), addressOf(scheme, c.raw.RemoteAddr())
	if err := hangups.add(c); err != nil {
		c.raw.Close()
		return nil, err
	}
	return c, nil
}

func addressOf(scheme string, a net.Addr) string {
	ap := a.(*net.TCPAddr).AddrPort()
	return commaddr.Unparse(scheme, netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port()).String())
}

// sameHost implements Dask's rule: both ends have the same address.
func (c *conn) sameHost() bool {
	l, r := c.raw.LocalAddr().(*net.TCPAddr), c.raw.RemoteAddr().(*net.TCPAddr)
	return l.IP.Equal(r.IP)
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

// end records why the comm has ended, and returns the first reason.
func (c *conn) end(cause error) error {
	c.mu.Lock()
	var after func()
	if c.err == nil {
		c.err = &comm.ClosedError{Local: c.local, Peer: c.peer, Cause: cause}
		close(c.done)
		after, c.after = c.after, nil
	}
	err := c.err
	c.mu.Unlock()
	if after != nil {
		after()
	}
	return err
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

// kill ends the comm and frees the socket.
func (c *conn) kill(cause error) error {
	err := c.end(cause)
	c.free(func() { _ = c.raw.SetLinger(0) })
	return err
}

// free closes the socket, once.
func (c *conn) free(before func()) {
	if !c.freed.CompareAndSwap(false, true) {
		return
	}
	before()
	hangups.remove(c)
	_ = c.raw.Close()
	c.stripes.end()
	c.forget()
}

// leave notifies waiters of this side that it ends the comm.
func (c *conn) leave(cause error) {
	c.end(cause)
	c.goneOnce.Do(func() { close(c.gone) })
}

// Abort ends the comm immediately: the peer sees a reset, data in flight is lost.
func (c *conn) Abort() {
	c.leave(errAborted)
	c.free(func() { _ = c.raw.SetLinger(0) })
}

// Close lets a Write in progress finish, for at most a second.
func (c *conn) Close() error {
	if c.freed.Load() {
		c.leave(errGone)
		return nil
	}
	deadline := time.NewTimer(closeTime / 2)
	defer deadline.Stop()
	select {
	case c.wturn <- struct{}{}:
		c.leave(errGone)
		c.wguard.disarm()
		c.closeWrite()
		c.wturn.give()
	case <-deadline.C: // the peer does not read
		c.leave(errGone)
	}
	for _, l := range c.stripes.get() {
		_ = l.Close()
	}
	// A Read in progress ends when the socket is closed.
	c.free(func() {})
	return nil
}

// closeWrite ends the sending direction. Unread data of the peer is read and dropped: closing a socket with unread
// bytes sends a reset, which could overtake the last message to the peer.
func (c *conn) closeWrite() {
	if t, ok := c.nc.(*tls.Conn); ok {
		t.NetConn().(*transport).closing.Store(true)
		_ = t.CloseWrite()
	}
	_ = c.raw.CloseWrite()
	_ = c.raw.SetReadDeadline(past)
	select {
	case c.rturn <- struct{}{}:
		drain(c.raw)
		c.rturn.give()
	default: // its Read consumes the data
	}
}

// forget releases the contexts that the guards are armed with.
func (c *conn) forget() {
	for _, d := range []struct {
		turn
		*guard
	}{{c.rturn, &c.rguard}, {c.wturn, &c.wguard}} {
		select {
		case d.turn <- struct{}{}:
			d.disarm()
			d.give()
		default: // its holder does so when it sees the end
		}
	}
}

// transport is the socket under TLS. TLS allows five seconds for its close alert; Close has one.
type transport struct {
	*net.TCPConn
	closing atomic.Bool
}

func (t *transport) SetWriteDeadline(d time.Time) error {
	if limit := time.Now().Add(closeTime / 2); t.closing.Load() && d.After(limit) {
		d = limit
	}
	return t.TCPConn.SetWriteDeadline(d)
}

// endWith ends the comm with an error of the socket.
func (c *conn) endWith(err error, inMessage bool) error {
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		err = errPeerClosed
		if inMessage {
			err = errCut
		}
	case errors.Is(err, net.ErrClosed):
		err = errGone
	}
	return c.kill(err)
}
