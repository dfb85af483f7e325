// Package link connects a client to its scheduler: by requests, and by the stream on which both send messages. It
// reconnects to a lost scheduler and registers again.
package link

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.millstream.dev/client/internal/tracker"
	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/secure"
	"go.millstream.dev/wire"
)

// Config configures a Link. All fields are required.
type Config struct {
	// Network opens the comms; Dial configures them.
	Network comm.Network
	Dial    comm.DialConfig
	// Address is the address of the scheduler, ID the ID of the client.
	Address, ID string
	// Registry returns the hash of the functions that workers must have to run graphs of this client.
	Registry func() string
	// Heartbeat is the interval between heartbeats.
	Heartbeat time.Duration
	// Reconnect is how long the link tries to reach a lost scheduler; negative: not at all.
	Reconnect time.Duration
	// Tracker has the queue of messages to send, and receives the messages of the scheduler.
	Tracker *tracker.Tracker
	// Resumed is called after the client has registered with a scheduler again.
	Resumed func()
	// Log receives changes of the connection.
	Log *slog.Logger
}

// Link is a connection to a scheduler. It is safe for concurrent use.
type Link struct {
	cfg    Config
	pool   *rpc.Pool
	ctx    context.Context // ends with the link
	cancel context.CancelCauseFunc
	done   chan struct{} // the goroutines have ended
	stay   atomic.Bool   // do not reconnect to a lost scheduler
}

// Connect registers with the scheduler and starts the goroutines that read and write. check is called with Dask's
// scheduler before they start; its error ends the link.
func Connect(ctx context.Context, cfg Config, check func(*Link) error) (*Link, error) {
	l := &Link{cfg: cfg, pool: rpc.NewPool(cfg.Network, rpc.PoolConfig{Dial: cfg.Dial.To(secure.Scheduler)}),
		done: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancelCause(context.Background())
	s, err := l.register(ctx)
	if err == nil && s.identity.IsDask() {
		if err = check(l); err != nil {
			s.comm.Abort()
		}
	}
	if err != nil {
		l.cancel(tracker.ErrClosed)
		_ = l.pool.Close()
		return nil, err
	}
	cfg.Tracker.Connected(s.identity)
	go l.run(s)
	return l, nil
}

// Context returns a context that ends with the link.
func (l *Link) Context() context.Context { return l.ctx }

// Done returns a channel that is closed when the goroutines of the link have ended.
func (l *Link) Done() <-chan struct{} { return l.done }

// Within returns a context that ends with ctx or with the link, and a function that frees it.
func (l *Link) Within(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })
	return ctx, func() { stop(); cancel(nil) }
}

// Call sends a request to the scheduler.
func (l *Link) Call(ctx context.Context, op string, args, reply any) error {
	if err := l.cfg.Tracker.Err(); err != nil {
		return err
	}
	ctx, stop := l.Within(ctx)
	defer stop()
	return l.pool.Call(ctx, l.cfg.Address, op, args, reply)
}

// Do sends a request to the scheduler and returns the encoded reply, or the error in it.
func (l *Link) Do(ctx context.Context, op string, request *wire.Message) (*wire.Message, error) {
	if err := l.cfg.Tracker.Err(); err != nil {
		return nil, err
	}
	ctx, stop := l.Within(ctx)
	defer stop()
	m, err := l.pool.Do(ctx, l.cfg.Address, op, request)
	if err != nil {
		return nil, err
	}
	if err := ReplyError(op, l.cfg.Address, m); err != nil {
		m.Release()
		return nil, err
	}
	return m, nil
}

// ReplyError returns the error in a reply, or nil.
func ReplyError(op, peer string, m *wire.Message) error {
	if len(m.Frames) == 0 || m.Frames[0].OnDevice() {
		return fmt.Errorf("client: %s: reply without a body", op)
	}
	r := msgpack.NewReader(m.Body())
	if r.Kind() != msgpack.MapKind {
		if r.Kind() == msgpack.Nil {
			return fmt.Errorf("client: %s at %s: %w", op, peer, rpc.ErrNilReply)
		}
		return nil
	}
	n, err := r.ReadMapLen()
	if err != nil {
		return err
	}
	for range n {
		if r.Kind() != msgpack.Str {
			return nil
		}
		name, err := r.ReadName()
		if err != nil {
			return err
		}
		if string(name) == "exception" || string(name) == "exception_text" {
			v, err := wire.Decode(m, wire.DecodeOptions{})
			if err != nil {
				return err
			}
			return rpc.ReplyError(op, peer, v)
		}
		if err := r.Skip(); err != nil {
			return err
		}
	}
	return nil
}

// Stay makes the link end when the scheduler is lost, instead of reconnecting.
func (l *Link) Stay() { l.stay.Store(true) }

// closeTime is the timeout for sending the last messages when the link closes.
const closeTime = 2 * time.Second

// Shutdown waits until the queue has been sent, or ctx ends, and then stops the goroutines. The tracker must be closed
// before, so that the queue ends. Shutdown may be called more than once.
func (l *Link) Shutdown(ctx context.Context) error {
	var err error
	select {
	case <-l.done: // the scheduler has closed the stream, or is lost
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(closeTime):
	}
	l.cancel(tracker.ErrClosed)
	<-l.done
	return err
}

// Close closes the connections of requests. Call Shutdown first.
func (l *Link) Close() error { return l.pool.Close() }

// run serves the stream until the link ends.
func (l *Link) run(s *stream) {
	defer close(l.done)
	for s != nil {
		unsent, err := l.serve(s)
		if l.ctx.Err() != nil || l.cfg.Tracker.Err() != nil {
			_ = s.comm.Close() // sends what was written before
			break
		}
		s.comm.Abort()
		l.cfg.Log.Warn("scheduler lost", "scheduler", l.cfg.Address, "error", err)
		s = l.reconnect(unsent, err)
	}
	l.cancel(tracker.ErrClosed)
	l.cfg.Tracker.Fail(tracker.ErrClosed)
}

// serve reads and writes until the comm ends. It returns the items that were not sent.
func (l *Link) serve(s *stream) (unsent []tracker.Item, err error) {
	ctx, cancel := context.WithCancelCause(l.ctx)
	defer cancel(nil)
	read := make(chan error, 1)
	go func() {
		err := l.read(ctx, s)
		cancel(err)
		read <- err
	}()
	beatDone := make(chan struct{})
	go func() {
		defer close(beatDone)
		l.beat(ctx)
	}()
	unsent, werr := l.write(ctx, s)
	cancel(werr)
	err = <-read
	<-beatDone
	if err == nil || errors.Is(err, context.Canceled) {
		err = werr
	}
	return unsent, err
}
