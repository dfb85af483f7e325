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

// Config configures a server. Its zero value is useful.
type Config struct {
	// Type is the server's type in answers to identity (default "Server").
	Type string
	// ID identifies the server (default Type and a random part, as in Dask).
	ID string
	// Identity returns further fields of the answer to identity; it may be nil.
	Identity func() msgpack.Map
	// State returns further fields of the answer to dump_state; it may be nil.
	State func() msgpack.Map
	// Authorize, if not nil, is called before each handler. Its error is the answer; use fs.ErrPermission so that
	// Python raises a PermissionError. See Roles.
	Authorize func(ctx context.Context, r *Request) error
	// Blocked are ops that are rejected for all peers (distributed.scheduler.blocked-handlers and the worker's).
	Blocked []string
	// MaxRunning is the maximum number of handlers that run at once (default 4096). Others wait, and their comms are
	// not read meanwhile. A handler that has taken over its comm (see Request.Takeover) and the ops of Waiting do not
	// count.
	MaxRunning int
	// Waiting are ops whose handlers may wait for other peers: for an event, a lock, an answer of a worker. They do not
	// count as running, so that any number of them leaves the server able to serve the requests that they wait for.
	Waiting []string
	// MaxWaiting and MaxWaitingPerHost bound the requests of Waiting in progress, in total and of one host (default
	// three quarters and half of MaxComms). More are answered with ErrTooManyWaiting.
	MaxWaiting, MaxWaitingPerHost int
	// Detached are ops whose handlers run to completion when the caller disconnects, because they change something in
	// several steps. The context of all others ends with the comm, unless the caller wants no answer.
	Detached []string
	// MaxComms is the maximum number of comms (default 65536, less if the limit of open files is lower).
	// MaxCommsPerHost bounds those of one host (default three quarters of MaxComms). One comm too many closes the one
	// that has been idle for the longest time; without an idle one the new comm is closed.
	MaxComms, MaxCommsPerHost int
	// FirstRequest bounds how long no data may arrive on a comm before its first request is complete (default 1 min). A
	// comm that has had a request may stay idle, as those of pools do.
	FirstRequest time.Duration
	// WriteTimeout bounds the sending of one reply, to peers that do not read (default none: Dask waits forever, and
	// large results over slow links take long).
	WriteTimeout time.Duration
	// Decode specifies how arguments are decoded: a scheduler keeps values encoded (Keep).
	Decode wire.DecodeOptions
	// Observe, if not nil, is called after each request, by the goroutine that served it: it must return quickly. A
	// request that took over its comm ends with its stream.
	Observe func(Observation)
	// Logger receives the log messages of the server (default slog.Default).
	Logger *slog.Logger
}

// Observation describes a served request.
type Observation struct {
	// Op and Peer are the op and the caller.
	Op, Peer string
	// Took is the time from the arrival of the request to the end of its handler.
	Took time.Duration
	// Err is the handler's error, ErrUnknownOp without a handler.
	Err error
}

// Handler serves a request. It returns a value that wire.Encode accepts or a struct with rpc tags (see Handle), a
// *wire.Message that is sent as it is and then released, or NoReply. Its error is sent as an exception (see Exception).
type Handler func(ctx context.Context, r *Request) (any, error)

// NoReply is the result of a handler that has answered itself, or needs no answer: Dask's Status.dont_reply.
var NoReply = noReply{}

type noReply struct{}

// Request is one call.
type Request struct {
	Body
	// Reply reports whether the peer waits for an answer, Close whether it wants the comm closed after it.
	Reply, Close bool
	// Serializers are the serialization families that the peer requests, in order of preference; nil means all. They
	// are for handlers that choose the family of their results: the server itself ignores them.
	Serializers []string
	// Comm is the comm of the request. A handler may read and write on it as its op requires; the server does not use
	// it while the handler runs.
	Comm comm.Comm
	// Server is the server of the request.
	Server *Server

	takeover func()
}

// Takeover declares that the handler keeps the comm for as long as it runs, which may be the life of a stream: it no
// longer counts as a running request, and shutdown does not wait for it but ends its context.
func (r *Request) Takeover() { r.takeover() }

// Server serves requests on comms, like Dask's Server: one request at a time on each comm, in order.
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

// Stats are totals since the creation of the server, except for the first four.
type Stats struct {
	// Comms are open comms, Running running handlers, Waiting requests of ops that may wait, Streams comms that are
	// taken over.
	Comms, Running, Waiting, Streams int64
	// Requests counts started requests; Errors those that failed; Unknown those without a handler; Refused those not
	// allowed.
	Requests, Errors, Unknown, Refused int64
}

// NewServer returns a server with the handlers that every Dask server has: identity, echo, dump_state and
// connection_stream.
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

// ID returns the id of the server.
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

// Ops returns the ops that have a handler, sorted.
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

// Stats returns the statistics.
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

// Serve accepts comms until the listener or ctx ends or the server is shut down, in which case it returns ErrClosed. It
// closes the listener.
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

// Shutdown stops accepting, closes idle comms, and lets running handlers finish and answer. Comms that were taken over
// are ended immediately. When ctx ends before that, the contexts of the handlers are canceled and the comms aborted,
// and Shutdown returns ctx's error; it waits at most a second for handlers that ignore their context.
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

// Close ends the server immediately: contexts of handlers are canceled, comms aborted.
func (s *Server) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Shutdown(ctx); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}
