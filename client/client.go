package client

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/secure"
)

// Config describes a client. Its zero value is useful.
type Config struct {
	// Closed, when set, is called once the client has closed and its comms have ended: to free what Network and
	// Dial use. It is not called when Connect fails.
	Closed func()
	// Network makes the comms (default comm.Default).
	Network comm.Network
	// Dial says how to connect, to the scheduler and to workers, TLS included.
	Dial comm.DialConfig
	// Name is the beginning of the client's id (default "Client-go").
	Name string
	// Reconnect is how long a lost scheduler is looked for before all futures fail (default
	// 60 s; negative: not at all). A Millstream scheduler that was restarted from its journal
	// takes up where it was. One of Dask's forgets its clients: futures are cancelled at once,
	// and the client can be used again when the scheduler is back.
	Reconnect time.Duration
	// NoDirect makes results and scattered data go through the scheduler, for clients that
	// cannot reach the workers (Dask's direct_to_workers=False). Without it the scheduler is
	// asked only for what workers did not hand over.
	NoDirect bool
	// Heartbeat is the time between signs of life (default 5 s,
	// distributed.client.heartbeat).
	Heartbeat time.Duration
	// AnyBuild lets workers of another build of this program run its tasks, if they have the same functions: for
	// rolling upgrades (default false; millstream.any-build with Connect of package cluster).
	AnyBuild bool
	// ArgumentWarning is the size in bytes from which on the arguments of one call are logged as too large to travel
	// with the graph (default 64 MiB, negative: never). See Scatter.
	ArgumentWarning int64
	// Logger gets what Dask's client logs (default slog.Default).
	Logger *slog.Logger
}

// Client is a connection to a scheduler. Any number of goroutines may use it.
type Client struct {
	cfg     Config
	address string
	id      string
	pool    *rpc.Pool // to the scheduler
	workers *rpc.Pool // to workers, which listen or are dead: a refusal is not tried for long
	lanes   *lanes    // to workers of this machine, for large data
	log     *slog.Logger

	mu        sync.Mutex // owns all below but the channels
	keys      map[task.Key]*keyState
	out       []outItem
	queued    int64                  // bytes of graphs in out
	space     chan struct{}          // closed when out has been emptied; nil while nobody waits
	graphs    map[*graphOut]struct{} // that have tasks which have not ended
	seq       int                    // of the last graph
	releasing []task.Key             // keys whose last future is gone
	addresses []string               // of workers, by index
	addressAt map[string]int32
	events    map[string][]*subscription
	checked   map[string]bool // names of workers that were looked for
	checks    sync.WaitGroup  // looks that are under way
	cancels   int64           // calls of Cancel so far
	unordered []*graphOut     // graphs that a scheduler of Dask's has to order
	large     map[string]bool // functions whose large arguments were logged
	short     []Shortage      // what the scheduler said last
	shortNews chan struct{}   // closed at the next word about it; nil while no caller waits
	closed    error           // why nothing more is said; nil while the client lives
	identity  schedulerID

	wake   chan struct{} // holds a token: something is queued
	ctx    context.Context
	cancel context.CancelCauseFunc
	done   chan struct{} // the goroutines have ended

	closedOnce sync.Once // of Config.Closed
}

// schedulerID tells a scheduler from the one that was there before it.
type schedulerID struct {
	id    string
	epoch int64
}

// dask tells whether it is a scheduler of Dask's: ours say who they are.
func (s schedulerID) dask() bool { return s.id == "" }

var pickleLimits = pickle.Limits{}

// Connect connects to a scheduler. It tries until ctx ends or Config.Dial.Timeout is over.
func Connect(ctx context.Context, address string, cfg Config) (*Client, error) {
	if cfg.Network == nil {
		cfg.Network = comm.Default
	}
	if cfg.Name == "" {
		cfg.Name = "Client-go"
	}
	if cfg.Reconnect == 0 {
		cfg.Reconnect = time.Minute
	}
	if cfg.Heartbeat <= 0 {
		cfg.Heartbeat = 5 * time.Second
	}
	if cfg.ArgumentWarning == 0 {
		cfg.ArgumentWarning = defaultArgumentWarning
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	c := &Client{
		cfg: cfg, address: commaddr.Normalize(address), id: cfg.Name + "-" + randomHex(8), log: cfg.Logger,
		pool: rpc.NewPool(cfg.Network, rpc.PoolConfig{Dial: cfg.Dial.To(secure.Scheduler)}),
		keys: make(map[task.Key]*keyState), graphs: make(map[*graphOut]struct{}), addressAt: make(map[string]int32),
		events: make(map[string][]*subscription), checked: make(map[string]bool),
		wake: make(chan struct{}, 1), done: make(chan struct{}),
	}
	near := cfg.Dial.To(secure.Worker)
	if near.Timeout <= 0 || near.Timeout > workerDial {
		near.Timeout = workerDial
	}
	c.workers = rpc.NewPool(cfg.Network, rpc.PoolConfig{Dial: near})
	c.lanes = newLanes(c, near)
	c.ctx, c.cancel = context.WithCancelCause(context.Background())
	s, err := c.register(ctx)
	if err == nil && s.identity.dask() {
		if err = c.checkDask(ctx); err != nil {
			s.comm.Abort()
		}
	}
	if err != nil {
		c.cancel(ErrClosed)
		_ = c.pool.Close()
		_ = c.workers.Close()
		_ = c.lanes.book.Close()
		return nil, fmt.Errorf("client: scheduler at %s: %w", c.address, err)
	}
	c.identity = s.identity
	go c.run(s)
	return c, nil
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// ID names the client to the scheduler.
func (c *Client) ID() string { return c.id }

// Address is the scheduler's.
func (c *Client) Address() string { return c.address }

// Done is closed when the client has ended: closed, or without a scheduler for too long. Err
// says why.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err is nil while the client lives.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// Close releases all futures and leaves the scheduler. It waits until what was said before
// has been sent, or ctx ends. It is idempotent.
func (c *Client) Close(ctx context.Context) error {
	c.mu.Lock()
	if c.closed == nil {
		c.closed = ErrClosed
		for _, ks := range c.keys {
			if !ks.status.ended() {
				c.settle(ks, Canceled, &cancelledError{key: ks.key, cause: ErrClosed})
			}
		}
		c.say(opMessage("close-client"))
		c.say(opMessage("close-stream"))
	}
	c.mu.Unlock()
	var err error
	select {
	case <-c.done: // the scheduler has heard it, or is gone
	case <-ctx.Done():
		err = ctx.Err()
	case <-time.After(closeTime):
	}
	c.cancel(ErrClosed)
	<-c.done
	c.checks.Wait()
	err = errors.Join(err, c.lanes.book.Close(), c.pool.Close(), c.workers.Close())
	if c.cfg.Closed != nil {
		c.closedOnce.Do(c.cfg.Closed)
	}
	return err
}

// workerDial bounds how long a worker is dialled before its results are looked for elsewhere.
const workerDial = 2 * time.Second

// closeTime bounds how long a scheduler may take to hear that the client leaves.
const closeTime = 2 * time.Second

// fail ends the client: nothing more will be said or heard.
func (c *Client) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed == nil {
		c.closed = err
	}
	for _, ks := range c.keys {
		if !ks.status.ended() {
			c.settle(ks, Canceled, &cancelledError{key: ks.key, cause: c.closed})
		}
	}
}

// call asks the scheduler.
func (c *Client) call(ctx context.Context, op string, args, reply any) error {
	if err := c.Err(); err != nil {
		return err
	}
	ctx, stop := c.within(ctx)
	defer stop()
	return c.pool.Call(ctx, c.address, op, args, reply)
}

// within is ctx, ended also by the client's end.
func (c *Client) within(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(c.ctx, func() { cancel(context.Cause(c.ctx)) })
	return ctx, func() { stop(); cancel(nil) }
}
