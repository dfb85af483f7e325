package rpc

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/proc/ratelog"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// Config describes a server. Its zero value is useful.
type Config struct {
	// Type is the server's kind in answers to identity (default "Server").
	Type string
	// ID names the server (default Type and a random part, as Dask's do).
	ID string
	// Identity adds to the answer to identity; it may be nil.
	Identity func() msgpack.Map
	// Authorize, when set, is asked before each handler runs. Its error is the answer;
	// make it fs.ErrPermission so that Python raises a PermissionError. This is the place
	// of a table of roles.
	Authorize func(ctx context.Context, r *Request) error
	// Blocked are ops that are refused to everybody (distributed.scheduler.blocked-handlers
	// and the worker's).
	Blocked []string
	// MaxRunning is how many handlers run at once in the server (default 4096). Others
	// wait, and their comms are not read meanwhile. A handler that has taken its comm over
	// (see Request.Takeover) and the ops of Waiting do not count.
	MaxRunning int
	// Waiting are ops whose handlers may wait for other peers: for an event, a lock, an
	// answer of a worker. They do not count as running, so that any number of them leaves
	// the server able to serve what they wait for.
	Waiting []string
	// MaxWaiting and MaxWaitingPerHost bound the requests of Waiting that are in progress,
	// in all and of one host (default three quarters and half of MaxComms). More are
	// answered with ErrTooManyWaiting.
	MaxWaiting, MaxWaitingPerHost int
	// Detached are ops whose handlers run to their end when the caller hangs up, because
	// they change something in several steps. The context of all others ends with the
	// comm, unless the caller wants no answer.
	Detached []string
	// MaxComms is how many comms are served at once (default 65536, less where the limit of
	// open files is lower). MaxCommsPerHost bounds those of one host (default three
	// quarters of MaxComms). One comm too many closes the one that has been idle for the
	// longest time; without an idle one the new comm is closed.
	MaxComms, MaxCommsPerHost int
	// FirstRequest bounds how long nothing may arrive on a comm before its first request is
	// there (default 1 min). A comm that has had one may stay idle, as those of pools are.
	FirstRequest time.Duration
	// WriteTimeout bounds the sending of one reply, to peers that do not read (default
	// none: Dask waits for ever, and large results over slow links take their time).
	WriteTimeout time.Duration
	// Decode says how arguments are opened: a scheduler keeps values closed (Keep).
	Decode wire.DecodeOptions
	// Observe, when set, is called after each request, by the goroutine that served it: it
	// must return quickly. A request that took its comm over is over when its stream is.
	Observe func(Observation)
	// Logger gets what Dask's server logs (default slog.Default).
	Logger *slog.Logger
}

// Observation is one request that was served.
type Observation struct {
	// Op and Peer say what was called by whom.
	Op, Peer string
	// Took is the time from its arrival to the end of its handler.
	Took time.Duration
	// Err is the handler's, ErrUnknownOp without one.
	Err error
}

// Handler answers a request: with a value that wire.Encode takes or a struct with rpc tags
// (see Handle), a *wire.Message that is sent as it is and then released, or NoReply. Its
// error is sent as an exception (see Exception).
type Handler func(ctx context.Context, r *Request) (any, error)

// NoReply is the result of a handler that has answered itself, or takes no answer: Dask's
// Status.dont_reply.
var NoReply = noReply{}

type noReply struct{}

// Request is one call.
type Request struct {
	Body
	// Reply tells that the peer waits for an answer, Close that it wants the comm closed
	// after it.
	Reply, Close bool
	// Serializers are the families that the peer asks for, in the order of its liking; nil
	// is all. It is for handlers that choose the family of what they send: the server
	// itself does not.
	Serializers []string
	// Comm is where it came from. A handler may read and write on it as its op demands;
	// the server does not, while the handler runs.
	Comm comm.Comm
	// Server is who got it.
	Server *Server

	takeover func()
}

// Takeover tells that the handler keeps the comm for as long as it runs, which may be the
// life of a stream: it no longer counts as a running request, and shutdown does not wait
// for it but ends its context.
func (r *Request) Takeover() { r.takeover() }

// Server answers requests on comms, as Dask's Server does: one request at a time on each
// comm, in order.
type Server struct {
	cfg     Config
	id      string
	started time.Time
	slots   chan struct{}
	stats   serverStats
	waiting waiting
	traits  map[string]trait // of ops, fixed by the Config
	noisy   struct{ protocol, refused, comms ratelog.Limiter }

	mu       sync.RWMutex // owns the tables, which may change while others are served
	handlers map[string]Handler
	streams  map[string]StreamHandler

	life struct {
		sync.Mutex
		comms     map[*session]struct{}
		hosts     map[string]int // comms by host
		listeners map[comm.Listener]struct{}
		stopping  bool
	}
	running sync.WaitGroup // sessions and accept loops
	ctx     context.Context
	abort   context.CancelFunc // ends every handler
}

type serverStats struct {
	requests, errors, unknown, refused atomic.Int64
	runningNow                         atomic.Int64
}

// Stats are counts since the server was made, but for the first four.
type Stats struct {
	// Comms are served now, Running handlers run now, Waiting ones of ops that may wait are
	// in progress, Streams are taken over.
	Comms, Running, Waiting, Streams int64
	// Requests were begun; Errors of them failed; Unknown named no handler; Refused were
	// not allowed.
	Requests, Errors, Unknown, Refused int64
}

// NewServer makes a server that has the handlers that every Dask server has: identity,
// echo, dump_state and connection_stream.
func NewServer(cfg Config) *Server {
	cfg.Type = cmp.Or(cfg.Type, "Server")
	if cfg.MaxRunning <= 0 {
		cfg.MaxRunning = 4096
	}
	cfg.boundComms()
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	s := &Server{cfg: cfg, id: cfg.ID, started: time.Now(), slots: make(chan struct{}, cfg.MaxRunning),
		handlers: map[string]Handler{}, streams: map[string]StreamHandler{}}
	if s.id == "" {
		var b [16]byte
		_, _ = rand.Read(b[:]) // never fails
		s.id = cfg.Type + "-" + hex.EncodeToString(b[:])
	}
	s.traits = cfg.traits()
	s.life.comms = map[*session]struct{}{}
	s.life.hosts = map[string]int{}
	s.life.listeners = map[comm.Listener]struct{}{}
	s.ctx, s.abort = context.WithCancel(context.Background())
	s.addCommon()
	return s
}

// ID names the server.
func (s *Server) ID() string { return s.id }

// Handle sets the handler of an op. It replaces an earlier one; nil removes it.
func (s *Server) Handle(op string, h Handler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h == nil {
		delete(s.handlers, op)
	} else {
		s.handlers[op] = h
	}
}

// Ops lists the ops that have a handler, sorted.
func (s *Server) Ops() []string {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Sorted(maps.Keys(s.handlers))
}

func (s *Server) handler(op string) Handler {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.handlers[op]
}

// Stats returns the counts.
func (s *Server) Stats() Stats {
	out := Stats{
		Requests: s.stats.requests.Load(), Errors: s.stats.errors.Load(),
		Unknown: s.stats.unknown.Load(), Refused: s.stats.refused.Load(),
		Running: s.stats.runningNow.Load(), Waiting: s.waiting.count(),
	}
	s.life.Lock()
	defer s.life.Unlock()
	out.Comms = int64(len(s.life.comms))
	for c := range s.life.comms {
		if c.state.Load() == taken {
			out.Streams++
		}
	}
	return out
}

// Serve accepts comms until the listener or ctx ends or the server is shut down, when it
// returns ErrClosed. It closes the listener.
func (s *Server) Serve(ctx context.Context, l comm.Listener) error {
	defer l.Close()
	if !s.enter(func() { s.life.listeners[l] = struct{}{} }) {
		return ErrClosed
	}
	defer s.running.Done()
	defer func() {
		s.life.Lock()
		defer s.life.Unlock()
		delete(s.life.listeners, l)
	}()
	for {
		c, err := l.Accept(ctx)
		if err != nil {
			if s.stopping() {
				return ErrClosed
			}
			return fmt.Errorf("rpc: serve %s: %w", l.ListenAddr(), err)
		}
		go func() {
			if err := s.ServeComm(ctx, c); err != nil {
				s.commFailed(c.PeerAddr(), err)
			}
		}()
	}
}

// enter counts one more loop of the server unless it is stopping.
func (s *Server) enter(add func()) bool {
	s.life.Lock()
	defer s.life.Unlock()
	if s.life.stopping {
		return false
	}
	s.running.Add(1)
	add()
	return true
}

func (s *Server) stopping() bool {
	s.life.Lock()
	defer s.life.Unlock()
	return s.life.stopping
}

// Shutdown stops accepting, closes idle comms, and lets running handlers finish and
// answer. Comms that were taken over are ended at once. When ctx ends before all is done,
// the contexts of the handlers are cancelled and the comms aborted, and Shutdown returns
// ctx's error; it waits a second at most for handlers that do not heed theirs.
func (s *Server) Shutdown(ctx context.Context) error {
	s.life.Lock()
	s.life.stopping = true
	listeners := slices.Collect(maps.Keys(s.life.listeners))
	sessions := slices.Collect(maps.Keys(s.life.comms))
	s.life.Unlock()
	for _, l := range listeners {
		_ = l.Close()
	}
	for _, c := range sessions {
		c.stop()
	}
	done := make(chan struct{})
	go func() {
		s.running.Wait()
		close(done)
	}()
	select {
	case <-done:
		s.abort()
		return nil
	case <-ctx.Done():
	}
	s.abort()
	for _, c := range sessions {
		c.comm.Abort()
	}
	left := s.stats.runningNow.Load()
	grace := time.NewTimer(time.Second)
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
	}
	return fmt.Errorf("rpc: shutdown: %w: %d handlers were still running", context.Cause(ctx), left)
}

// Close ends the server at once: contexts of handlers are cancelled, comms aborted.
func (s *Server) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
