package clique

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/collective"
	"go.millstream.dev/internal/collective/transport"
	"go.millstream.dev/ucx"
)

// session is the part of a worker in one clique, from prepare to dissolve.
type session struct {
	hub    *hub
	id     string
	worker *ucx.Worker // used by this clique only; nil without UCX. The engine owns it once it is formed.
	// ordinal is the GPU of this rank in this process, -1 without one. Set by prepare.
	ordinal int

	ctx      context.Context // ends with the session
	end      context.CancelCauseFunc
	arrivals chan arrival // connections of higher ranks
	stats    stats

	mu      sync.Mutex // guards the fields below
	forming bool       // form was called
	engine  engine     // nil until form succeeds
	roster  formRequest
	rank    int
	idle    time.Duration
	expiry  *time.Timer
	joined  int
	used    rounds
	closed  bool
}

// arrival is a connection from another rank.
type arrival struct {
	from int
	c    comm.Comm
}

// engine is the communicator of one rank. It handles host memory over UCX or comms; its groups handle device memory
// with the backend that the clique has chosen.
type engine interface {
	// Dup returns a group of the same ranks with its own order of calls. It needs no communication; all ranks use the
	// same number.
	Dup(n uint64) (*collective.Group, error)
	// Devices returns the state for device memory.
	Devices() *devices
	// Backend returns the name of the backend, Err the reason why the engine ended.
	Backend() string
	Err() error
	// Abort ends the engine on all ranks, with an error that names this one.
	Abort(err error)
	Close() error
}

func newSession(h *hub, id string) *session {
	s := &session{hub: h, id: id, arrivals: make(chan arrival, 1)}
	s.ctx, s.end = context.WithCancelCause(context.Background())
	return s
}

// deliver passes a connection to form and returns when it is no longer needed, because the server closes it then.
func (s *session) deliver(ctx context.Context, in hello, c comm.Comm) {
	select {
	case s.arrivals <- arrival{in.From, c}:
	case <-s.ctx.Done():
		return
	case <-ctx.Done():
		return
	}
	// Not until the end of the comm: the engine may not have read the last messages of a rank that has left, and
	// closing the comm would make it a rank that was lost.
	select {
	case <-s.ctx.Done(): // the engine has shut its connections down
	case <-ctx.Done():
	}
}

// expireAfter drops the session after d without activity. The caller holds no lock, or that of the hub.
func (s *session) expireAfter(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expiry != nil {
		s.expiry.Stop()
	}
	if !s.closed {
		s.expiry = time.AfterFunc(d, s.expire)
	}
}

func (s *session) expire() {
	s.mu.Lock()
	busy := s.joined > 0
	s.mu.Unlock()
	if !busy {
		s.hub.drop(s, errExpired)
	}
}

// form connects this rank to all others and starts the engine.
func (s *session) form(ctx context.Context, in formRequest) (string, error) {
	rank, err := s.begin(in)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })()
	peers, err := s.connect(ctx, rank, in)
	if err != nil {
		return "", err
	}
	g, err := s.start(ctx, rank, peers, in)
	if err != nil {
		return "", fmt.Errorf("clique %s: rank %d (%s): %w", s.id, rank, s.hub.host.Worker, err)
	}
	s.mu.Lock()
	closed := s.closed
	if !closed {
		s.engine, s.rank, s.roster, s.idle = g, rank, in, in.Idle
	}
	s.mu.Unlock()
	if closed {
		_ = g.Close()
		return "", context.Cause(s.ctx)
	}
	s.touch()
	return g.Backend(), nil
}

// check checks the roster and returns the rank of a worker.
func (s *session) check(in formRequest, worker string) (rank int, err error) {
	if len(in.Ranks) > maxRanks {
		return 0, fmt.Errorf("clique %s: %d ranks exceed the maximum of %d", s.id, len(in.Ranks), maxRanks)
	}
	rank = -1
	for i, r := range in.Ranks {
		if r.Rank != i {
			return 0, fmt.Errorf("clique %s: invalid roster: entry %d has rank %d", s.id, i, r.Rank)
		}
		if r.Worker == worker {
			rank = i
		}
	}
	if rank < 0 {
		return 0, fmt.Errorf("clique %s: worker %s is not in the roster", s.id, worker)
	}
	return rank, nil
}

// begin accepts the roster, once.
func (s *session) begin(in formRequest) (int, error) {
	rank, err := s.check(in, s.hub.host.Worker)
	if err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.forming {
		return 0, fmt.Errorf("clique %s: worker %s already has a roster", s.id, s.hub.host.Worker)
	}
	s.forming = true
	return rank, nil
}

// connect dials the lower ranks and waits for the higher ones. On failure all connections are closed.
func (s *session) connect(ctx context.Context, rank int, in formRequest) (peers []comm.Comm, err error) {
	peers = make([]comm.Comm, len(in.Ranks))
	ctx, cancel := context.WithCancelCause(ctx)
	var dials sync.WaitGroup
	dialed := make(chan arrival, rank)
	defer func() {
		cancel(nil)
		dials.Wait()
		close(dialed)
		if err == nil {
			return
		}
		for a := range dialed {
			a.c.Abort()
		}
		for _, c := range peers {
			if c != nil {
				c.Abort()
			}
		}
	}()
	for to := range rank {
		dials.Go(func() {
			c, err := s.dial(ctx, rank, to, cmp.Or(in.Ranks[to].Address, in.Ranks[to].Worker))
			if err != nil {
				cancel(fmt.Errorf("clique %s: rank %d (%s): connect to rank %d (%s): %w", s.id, rank,
					s.hub.host.Worker, to, in.Ranks[to].Worker, err))
				return
			}
			dialed <- arrival{to, c}
		})
	}
	for missing := len(peers) - 1; missing > 0; missing-- {
		var a arrival
		select {
		case a = <-s.arrivals:
			if a.from <= rank || a.from >= len(peers) || peers[a.from] != nil {
				a.c.Abort() // not an expected rank
				missing++
				continue
			}
		case a = <-dialed:
		case <-ctx.Done():
			return peers, s.missingError(ctx, rank, peers, in)
		}
		peers[a.from] = a.c
	}
	return peers, nil
}

func (s *session) dial(ctx context.Context, from, to int, address string) (comm.Comm, error) {
	b, err := json.Marshal(hello{ID: s.id, From: from, To: to})
	if err != nil {
		return nil, err
	}
	return s.hub.peers.Open(ctx, address, channelKind, b)
}

// missingError names the ranks that did not connect.
func (s *session) missingError(ctx context.Context, rank int, peers []comm.Comm, in formRequest) error {
	cause := context.Cause(ctx)
	if !errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	var names []string
	for i, c := range peers {
		if c == nil && i != rank {
			names = append(names, fmt.Sprintf("rank %d (%s)", i, in.Ranks[i].Worker))
		}
	}
	return fmt.Errorf("clique %s: rank %d (%s) timed out waiting for %s: %w", s.id, rank, s.hub.host.Worker,
		abbreviate(names), cause)
}

// start creates the engine, which owns the connections from then on, even on failure.
func (s *session) start(ctx context.Context, rank int, peers []comm.Comm, in formRequest) (engine, error) {
	t, err := transport.NewComm(rank, peers)
	if err != nil {
		return nil, err
	}
	if Backend(in.Backend) == UCX {
		w := s.takeWorker()
		if w == nil {
			_ = t.Close()
			return nil, errors.New("no UCX worker for this clique")
		}
		addresses := make([]ucx.WorkerAddress, len(in.Ranks))
		for i, r := range in.Ranks {
			addresses[i] = w.Route(r.UCX)
		}
		if t, err = transport.NewUCX(ctx, t, w, addresses); err != nil {
			return nil, err
		}
	}
	names := make([]string, len(in.Ranks))
	for i, r := range in.Ranks {
		names[i] = r.Worker
	}
	g, err := collective.New(ctx, t, collective.Config{Deterministic: in.Deterministic, Names: names})
	if err != nil {
		return nil, err
	}
	d, err := newDevices(ctx, g, Backend(in.Devices), s.ordinal)
	if err != nil {
		g.Abort(err) // other ranks may wait for this one in NCCL
		_ = g.Close()
		return nil, err
	}
	return &deviceEngine{g, d}, nil
}

func (s *session) takeWorker() *ucx.Worker {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.worker
	s.worker = nil
	return w
}

func (s *session) state() stateReply {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := stateReply{Known: true, Failed: -1, Joined: s.joined}
	if s.engine == nil {
		return out
	}
	if err := s.engine.Err(); err != nil {
		out.Error = err.Error()
		var rank *RankError
		if errors.As(err, &rank) {
			out.Failed = rank.Rank
		}
	}
	return out
}

// touch restarts the idle time of the session.
func (s *session) touch() {
	s.mu.Lock()
	idle := s.idle
	s.mu.Unlock()
	if idle <= 0 {
		idle = defaultIdle
	}
	s.expireAfter(idle)
}

// close closes the session. Ranks of running tasks fail with why. It may be called twice.
func (s *session) close(why error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return
	}
	s.closed = true
	if s.expiry != nil {
		s.expiry.Stop()
	}
	g, w, joined := s.engine, s.worker, s.joined
	s.worker = nil
	s.mu.Unlock()
	if g != nil {
		if joined > 0 && why != nil {
			g.Abort(why)
		}
		_ = g.Close()
	}
	s.end(why)
	if w != nil {
		_ = w.Close()
	}
	for {
		select {
		case a := <-s.arrivals: // not used by form
			a.c.Abort()
		default:
			return
		}
	}
}
