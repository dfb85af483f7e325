package ucxcomm

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/limits"
	"go.millstream.dev/mem"
	"go.millstream.dev/wire"
)

// closeTime bounds Close.
const closeTime = time.Second

// lateTime is how long after its close UCX may still deliver messages that were in flight to an endpoint.
const lateTime = 200 * time.Millisecond

// link moves whole messages. An error that is not an *idleError means that the comm has ended.
type link interface {
	write(ctx context.Context, m *wire.Message) error
	read(ctx context.Context, b bounds) (*wire.Message, error)
	// shutdown sends pending data and notifies the peer.
	shutdown(ctx context.Context) error
}

// conn is a comm over UCX. It owns its endpoints and a reference to the engine.
type conn struct {
	engine      *engine
	settings    Settings
	tagged      *taggedEndpoint
	local, peer string
	limits      comm.Limits
	device      mem.Resource

	// For frames on GPUs, see staged.go; set before the handshake.
	staged  comm.StagedConfig
	sockets bool            // the backend may use sockets for them
	door    *stripeListener // of the listening side

	// Set by the handshake, before the conn is shared.
	info       comm.Info
	handshaken bool
	link       link
	data       *dataLink // the same as link between Millstream peers, otherwise nil

	reading, writing chan struct{} // turns: capacity 1, full while taken
	account          account       // owner: the current reader

	done   chan struct{}
	mu     sync.Mutex
	err    error       // why it ended; set before done is closed
	after  func()      // called at the end; guarded by mu
	closed atomic.Bool // by this side
	once   sync.Once   // of Close and Abort

	peace context.Context // ends with Abort, which cuts a running Close short
	abort context.CancelFunc
}

func newConn(e *engine, s Settings, m *taggedEndpoint, local, peer string, lim comm.Limits, device mem.Resource) *conn {
	c := &conn{
		engine: e, settings: s, tagged: m, local: local, peer: peer, limits: limits.Fill(lim), device: device,
		link:    &pythonLink{ep: m, multi: s.MultiBuffer, host: s.host(), device: device},
		reading: make(chan struct{}, 1), writing: make(chan struct{}, 1), done: make(chan struct{}),
	}
	c.account.host, c.account.perHost, c.account.late = peer, lim.Announced, c.late
	if host, err := comm.AddressHost(peer); err == nil {
		c.account.host = host
	}
	c.peace, c.abort = context.WithCancel(context.Background())
	go c.watch()
	return c
}

// watch ends the comm with its connection.
func (c *conn) watch() {
	<-c.tagged.Done()
	c.end(orClosed(c.tagged.Err()))
}

// watchData ends the comm with its data connection, which has a better reason for the peer's end.
func (c *conn) watchData(l *dataLink) {
	<-l.ep.Done()
	c.end(orClosed(l.ep.Err()))
	l.stripes.end()
	l.large.end()
}

// end marks the comm as ended, with the first reason that is reported.
func (c *conn) end(reason error) {
	c.mu.Lock()
	var after func()
	if c.err == nil {
		c.err = c.ended(reason)
		close(c.done)
		after, c.after = c.after, nil
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

func (c *conn) ended(reason error) error {
	return &comm.ClosedError{Local: c.local, Peer: c.peer, Cause: reason}
}

var errClosedHere = errors.New("closed by this side")

func (c *conn) Done() <-chan struct{} { return c.done }

func (c *conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *conn) LocalAddr() string { return c.local }
func (c *conn) PeerAddr() string  { return c.peer }
func (c *conn) Info() comm.Info   { return c.info }

// take waits for a turn.
func (c *conn) take(ctx context.Context, turn chan struct{}) error {
	if ctx.Err() != nil && !c.closed.Load() {
		return fmt.Errorf("ucxcomm: %s: %w", c.peer, context.Cause(ctx))
	}
	select {
	case turn <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("ucxcomm: %s: %w", c.peer, context.Cause(ctx))
	}
	if c.closed.Load() {
		<-turn
		return c.closing()
	}
	return nil
}

// closing returns the error of calls that are interrupted by Close or Abort of this side.
func (c *conn) closing() error {
	if err := c.Err(); err != nil {
		return err
	}
	return c.ended(errClosedHere) // Close is still notifying the peer
}

// failed returns the error for a caller of an error of the link.
func (c *conn) failed(err error) error {
	var idle *idleError
	if errors.As(err, &idle) {
		if c.closed.Load() {
			return c.closing()
		}
		return fmt.Errorf("ucxcomm: %s: %w", c.peer, idle.cause)
	}
	if c.closed.Load() {
		return c.closing()
	}
	c.end(err)
	return c.ended(err)
}

func (c *conn) Write(ctx context.Context, m *wire.Message) error {
	if err := c.take(ctx, c.writing); err != nil {
		return err
	}
	err := c.Err() // a closed peer reads nothing more, but its data can still be read
	if err != nil {
		<-c.writing
		return err
	}
	err = c.link.write(ctx, m)
	<-c.writing
	if err != nil {
		return c.failed(err)
	}
	return nil
}

func (c *conn) Read(ctx context.Context) (*wire.Message, error) { return c.readWithin(ctx, 0) }

// ReadSoon is Read for a reply that is expected soon: it spins before it sleeps. Callers find it by a type assertion,
// since comms of other schemes do not have it.
func (c *conn) ReadSoon(ctx context.Context) (*wire.Message, error) {
	return c.readWithin(ctx, soonTime)
}

// soonTime is how long ReadSoon does not sleep: a peer that has to wake up replies within it.
const soonTime = 500 * time.Microsecond

func (c *conn) readWithin(ctx context.Context, soon time.Duration) (*wire.Message, error) {
	if err := c.take(ctx, c.reading); err != nil {
		return nil, err
	}
	b := c.bounds()
	b.soon = soon
	m, err := c.link.read(ctx, b)
	c.account.release()
	<-c.reading
	if err != nil {
		return nil, c.failed(err)
	}
	return m, nil
}

func (c *conn) bounds() bounds {
	l := limits.AfterHandshake(c.limits)
	if !c.handshaken {
		l = limits.BeforeHandshake(c.limits)
	}
	return bounds{bytes: l.Message, frames: l.Frames, handshake: !c.handshaken, account: &c.account}
}

// Received implements hooks.Receiver. Large frames count when they are announced: account bounds the time until they
// arrive.
func (c *conn) Received() int64 { return c.account.counted.Load() }

// late ends a comm whose peer has announced frames and does not send them.
func (c *conn) late() {
	c.end(errLate)
	go c.Abort()
}

var errLate = errors.New("the peer has announced frames and did not send them in time")

func (c *conn) Close() error {
	var err error
	c.once.Do(func() {
		c.closed.Store(true)
		ctx, cancel := context.WithTimeout(c.peace, closeTime)
		defer cancel()
		alive := c.Err() == nil
		select {
		case c.writing <- struct{}{}: // after the write in progress
			if err = c.link.shutdown(ctx); !alive || errors.Is(err, comm.ErrClosed) || c.Err() != nil {
				err = nil // the peer has closed: it does not want the data
			}
			c.end(errClosedHere)
			<-c.writing
		case <-ctx.Done():
			err = errors.New("a write is still in progress")
			c.end(errClosedHere)
		}
		aborted := c.peace.Err() != nil // aborted: data may be lost
		c.free(ctx)
		if aborted {
			err = nil
		}
		if err != nil {
			err = fmt.Errorf("ucxcomm: close of the comm with %s: data may be lost: %w", c.peer, err)
		}
	})
	return err
}

func (c *conn) Abort() {
	c.abort()
	c.once.Do(func() {
		c.closed.Store(true)
		c.end(errClosedHere)
		c.free(c.peace)
	})
}

// free closes the resources of the comm, cleanly if ctx allows.
func (c *conn) free(ctx context.Context) {
	defer c.abort() // releases the context
	if c.data != nil {
		_ = c.data.ep.Shutdown(ctx)
		c.data.stripes.end()
		c.data.large.wait()
		c.data.t.finish(ctx)
		_ = c.tagged.Shutdown(ctx)
	} else {
		abortEndpoint(c.tagged.raw()) // the link has flushed it
	}
	c.tagged.drain()
	time.AfterFunc(lateTime, func() {
		c.tagged.drain()
		c.engine.release()
	})
}
