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

	"go.millstream.dev/client/internal/advice"
	"go.millstream.dev/client/internal/fetch"
	"go.millstream.dev/client/internal/link"
	"go.millstream.dev/client/internal/topics"
	"go.millstream.dev/client/internal/tracker"
	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
	_ "go.millstream.dev/internal/comm/tcp" // tcp:// and tls://
	"go.millstream.dev/internal/task"
)

// Config configures a client. Its zero value is useful.
type Config struct {
	// Closed, if not nil, is called once after the client has closed and its comms have ended, to free resources of
	// Network and Dial. It is not called when Connect fails.
	Closed func()
	// Network opens the comms (default comm.Default).
	Network comm.Network
	// Dial configures connections to the scheduler and to workers, including TLS.
	Dial comm.DialConfig
	// Name is the prefix of the client's ID (default "Client-go").
	Name string
	// Reconnect is how long the client tries to reach a lost scheduler before all futures fail (default 60 s; negative:
	// not at all). A Millstream scheduler that was restarted from its journal continues with the same tasks. Dask's
	// scheduler forgets its clients: futures are canceled at once, and the client can be used again when the scheduler
	// is back.
	Reconnect time.Duration
	// NoDirect sends results and scattered data through the scheduler, for clients that cannot reach the workers
	// (Dask's direct_to_workers=False). Otherwise only results that no worker returned are requested from the
	// scheduler.
	NoDirect bool
	// Heartbeat is the interval between heartbeats (default 5 s, distributed.client.heartbeat).
	Heartbeat time.Duration
	// AnyBuild allows workers of another build of this program to run its tasks if they have the same functions, for
	// rolling upgrades (default false; millstream.any-build with Connect of package cluster).
	AnyBuild bool
	// ArgumentWarning is the size in bytes of the arguments of one call above which a warning is logged, because they
	// are sent with the graph (default 64 MiB, negative: never). See Scatter.
	ArgumentWarning int64
	// Logger receives the log messages of the client (default slog.Default).
	Logger *slog.Logger
}

// Client is a connection to a scheduler. It is safe for concurrent use.
type Client struct {
	cfg     Config
	address string
	id      string
	log     *slog.Logger

	// Each part owns its state and its lock; none holds its lock while it sends or receives. The lock of topics may be
	// taken while that of tracker is held, never the other way round.
	tracker *tracker.Tracker // keys of futures, and messages to the scheduler
	link    *link.Link       // to the scheduler
	fetcher *fetch.Fetcher   // from the workers
	topics  *topics.Topics   // subscriptions
	advice  *advice.Advice   // warnings about submitted tasks

	closedOnce sync.Once // calls Config.Closed
}

// Connect connects to a scheduler. It retries until ctx ends or Config.Dial.Timeout has passed.
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
		cfg.ArgumentWarning = advice.DefaultLimit
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	c := &Client{cfg: cfg, address: commaddr.Normalize(address), id: cfg.Name + "-" + randomHex(8), log: cfg.Logger}
	c.topics = topics.New(func(m tracker.Message) { _ = c.tracker.Queue(m) }) // fails only when the client has ended
	c.tracker = tracker.New(tracker.Config{ID: c.id, Registry: c.registry, Event: c.topics.Deliver, Log: c.log,
		Failure: func(key task.Key, exception, traceback any) error { return newTaskError(key, exception, traceback) }})
	var err error
	c.link, err = link.Connect(ctx, link.Config{Network: cfg.Network, Dial: cfg.Dial, Address: c.address, ID: c.id,
		Registry: c.registry, Heartbeat: cfg.Heartbeat, Reconnect: cfg.Reconnect, Tracker: c.tracker,
		Resumed: c.topics.Resume, Log: c.log}, func(l *link.Link) error { return checkDask(ctx, l, c.address, c.log) })
	if err != nil {
		return nil, fmt.Errorf("client: scheduler at %s: %w", c.address, err)
	}
	c.fetcher = fetch.New(fetch.Config{Network: cfg.Network, Dial: cfg.Dial, NoDirect: cfg.NoDirect, Link: c.link,
		Tracker: c.tracker, Log: c.log})
	c.advice = advice.New(advice.Config{Limit: cfg.ArgumentWarning, Workers: c.workerNames, Context: c.link.Context(),
		Log: c.log})
	return c, nil
}

// registry returns the hash of the functions that workers must have to run graphs of this client.
func (c *Client) registry() string {
	if c.cfg.AnyBuild {
		functions, _ := task.SplitHash(task.Hash())
		return functions
	}
	return task.Hash()
}

func randomHex(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

// ID returns the ID of the client at the scheduler.
func (c *Client) ID() string { return c.id }

// Address returns the scheduler's address.
func (c *Client) Address() string { return c.address }

// Done returns a channel that is closed when the client has ended, because it was closed or has lost its scheduler. Err
// returns the cause.
func (c *Client) Done() <-chan struct{} { return c.link.Done() }

// Err returns why the client has ended, or nil while it runs.
func (c *Client) Err() error { return c.tracker.Err() }

// closeTimeout is the timeout of Close.
const closeTimeout = 10 * time.Second

// Close is Shutdown with a timeout of ten seconds. It may be called more than once.
func (c *Client) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	return c.Shutdown(ctx)
}

// Shutdown releases all futures and disconnects from the scheduler, which continues; see ShutdownCluster. It waits
// until everything that was submitted before has been sent, or ctx ends.
func (c *Client) Shutdown(ctx context.Context) error {
	c.tracker.Close()
	err := c.link.Shutdown(ctx)
	c.advice.Close()
	err = errors.Join(err, c.fetcher.Close(), c.link.Close())
	if c.cfg.Closed != nil {
		c.closedOnce.Do(c.cfg.Closed)
	}
	return err
}

// call sends a request to the scheduler.
func (c *Client) call(ctx context.Context, op string, args, reply any) error {
	return c.link.Call(ctx, op, args, reply)
}
