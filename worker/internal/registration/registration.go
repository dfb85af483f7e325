// Package registration connects a worker to a scheduler of Millstream or Dask: it registers the worker, retries while
// there is no scheduler, keeps the stream of each session and sends heartbeats.
package registration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/secure"
	"go.millstream.dev/wire"
)

var (
	// ErrRefused is returned by Connect when the scheduler rejects the registration.
	ErrRefused = errors.New("worker: registration rejected by the scheduler")
	// ErrLost is returned by Connect when there is no scheduler for longer than the death-timeout.
	ErrLost = errors.New("worker: connection to the scheduler lost")
)

// Config configures a Client.
type Config struct {
	// Scheduler is the address of the scheduler.
	Scheduler string
	Network   comm.Network
	Dial      comm.DialConfig
	// DeathTimeout bounds the time without a scheduler; 0 means no limit.
	DeathTimeout time.Duration
	Logger       *slog.Logger
	// Worker has the functions of the worker.
	Worker Worker
}

// Worker has the functions of a worker that a Client uses. All fields must be set.
type Worker struct {
	// Context ends when the worker closes.
	Context context.Context
	// Registration returns the arguments of register-worker.
	Registration func() msgpack.Map
	// Registered receives the worker plugins of the scheduler.
	Registered func([]Plugin)
	// Session returns the current session of the worker, nil without one.
	Session func() *Session
	// Heartbeat returns the arguments of a heartbeat, and a function that is called if it could not be sent. extensions
	// reports whether the scheduler accepts extensions: Dask's rejects unknown ones.
	Heartbeat func(extensions bool) (args msgpack.Map, failed func())
}

// Plugin is a pickled worker plugin of the scheduler.
type Plugin struct {
	Name   string
	Pickle []byte
}

// Client connects a worker to its scheduler. Any goroutine may use it.
type Client struct {
	cfg  Config
	w    Worker
	log  *slog.Logger
	pool *rpc.Pool

	interval atomic.Int64 // between heartbeats, ns
	// packages are the packages of a Dask scheduler with their releases; nil before the first registration.
	packages atomic.Pointer[msgpack.Map]

	mu    sync.Mutex // guards delay
	delay float64    // of a round trip to the scheduler, in seconds
}

// New returns a Client.
func New(cfg Config) *Client {
	dial := rpc.PoolConfig{Dial: cfg.Dial.To(secure.Scheduler)}
	return &Client{cfg: cfg, w: cfg.Worker, log: cfg.Logger, pool: rpc.NewPool(cfg.Network, dial)}
}

// Call calls an op of the scheduler, on another connection than that of the session.
func (c *Client) Call(ctx context.Context, op string, args msgpack.Map, reply any) error {
	return c.pool.Call(ctx, c.cfg.Scheduler, op, args, reply)
}

// Close closes the connections of Call.
func (c *Client) Close() { _ = c.pool.Close() }

// Packages returns the packages of a Dask scheduler with their releases; nil if unknown.
func (c *Client) Packages() msgpack.Map {
	if p := c.packages.Load(); p != nil {
		return *p
	}
	return nil
}

// Latency returns the moving average of round trips to the scheduler, in seconds.
func (c *Client) Latency() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.delay
}

// observe adds a round trip to the average.
func (c *Client) observe(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delay = 0.95*c.delay + 0.05*d.Seconds()
}

// Connect registers with the scheduler, and retries until ctx, the worker or the death-timeout ends.
func (c *Client) Connect(ctx context.Context) (*Session, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.w.Context, func() { cancel(context.Cause(c.w.Context)) })()
	if t := c.cfg.DeathTimeout; t > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, t,
			fmt.Errorf("worker: no scheduler at %s within the death-timeout of %v: %w", c.cfg.Scheduler, t, ErrLost))
		defer stop()
	}
	pause := 50 * time.Millisecond
	for {
		s, err := c.register(ctx)
		if err == nil {
			return s, nil
		}
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w (last: %w)", context.Cause(ctx), err)
		}
		if !retriable(err) {
			return nil, err
		}
		c.log.Info("waiting to connect", "scheduler", c.cfg.Scheduler, "error", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		pause = min(2*pause, time.Second)
	}
}

// retriable reports whether another attempt could succeed. A rejection, an invalid address and an invalid certificate
// are permanent.
func retriable(err error) bool {
	var address *comm.AddressError
	var handshake *comm.HandshakeError
	var connect *comm.ConnectError
	switch {
	case errors.Is(err, ErrRefused), errors.As(err, &address), errors.As(err, &handshake):
		return false
	case errors.As(err, &connect), errors.Is(err, comm.ErrClosed):
		return true
	}
	var call *rpc.CallError
	return errors.As(err, &call)
}

// register connects once and turns the connection into the stream of the worker.
func (c *Client) register(ctx context.Context) (*Session, error) {
	conn, err := c.cfg.Network.Dial(ctx, c.cfg.Scheduler, c.cfg.Dial.To(secure.Scheduler))
	if err != nil {
		return nil, err
	}
	if err := c.checkRelease(ctx, conn); err != nil {
		conn.Abort()
		return nil, err
	}
	begun := time.Now()
	if err := rpc.Notify(ctx, conn, "register-worker", c.w.Registration()); err != nil {
		return nil, err
	}
	m, err := conn.Read(ctx)
	if err != nil {
		conn.Abort()
		return nil, &rpc.CallError{Op: "register-worker", Peer: c.cfg.Scheduler, Sent: true, Err: err}
	}
	defer m.Release()
	r, err := readReply(m)
	if err != nil {
		conn.Abort()
		return nil, err
	}
	if r.status != "OK" {
		_ = conn.Close()
		return nil, fmt.Errorf("%w: %s", ErrRefused, r.message)
	}
	if r.warning != "" {
		c.log.Warn("warning from scheduler", "warning", r.warning)
	}
	c.w.Registered(r.plugins)
	c.observe(time.Since(begun))
	c.interval.Store(int64(r.interval))
	return newSession(conn), nil
}

// reply is the scheduler's reply to register-worker.
type reply struct {
	status, message, warning string
	interval                 time.Duration
	plugins                  []Plugin
}

func readReply(m *wire.Message) (reply, error) {
	var r reply
	v, err := wire.Decode(m, wire.DecodeOptions{KeepPickled: true})
	if err != nil {
		return r, fmt.Errorf("worker: reply to register-worker: %w", err)
	}
	if err := rpc.ReplyError("register-worker", "the scheduler", v); err != nil {
		return r, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	type answer struct {
		Status, Message, Warning string
		Interval                 time.Duration `rpc:"heartbeat-interval"`
		Plugins                  wire.Dict     `rpc:"worker-plugins"`
	}
	var in answer
	if err := rpc.Assign(v, &in); err != nil {
		return r, fmt.Errorf("%w: reply to register-worker: %w; check that the address is that of a scheduler",
			ErrRefused, err)
	}
	r = reply{status: strings.Clone(in.Status), message: strings.Clone(in.Message), warning: strings.Clone(in.Warning),
		interval: in.Interval}
	for name, v := range in.Plugins.All() {
		text, isText := name.(string)
		if b, ok := v.([]byte); ok && isText {
			r.plugins = append(r.plugins, Plugin{text, append([]byte(nil), b...)})
		}
	}
	return r, nil
}
