package clique

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/peernet"
	"go.millstream.dev/internal/comm/ucxenv"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/ucx"
)

// hub holds the cliques of a worker. All tasks of the worker share it; it is closed with the worker.
type hub struct {
	host  *task.Host
	peers *peernet.Peers // of host
	stop  func()         // stops accepting connections

	mu       sync.Mutex // guards the fields below
	sessions map[string]*session
	past     []any // entries of the report about dissolved cliques, the latest last
	closed   bool

	ucx ucxContext
}

type hubKey struct{}

// maxSessions bounds the number of cliques of a worker.
const maxSessions = 1024

// channelKind identifies connections between ranks.
const channelKind = "clique"

// hubOf returns the hub of the worker that runs the task of ctx.
func hubOf(ctx context.Context) (*hub, error) {
	i := task.FromContext(ctx)
	if i == nil || i.Host == nil {
		return nil, fmt.Errorf("clique: %w; pass the context of the task's function",
			task.ErrOutside)
	}
	v, err := i.Host.Shared(hubKey{}, func() (any, func() error, error) {
		p, err := peernet.Of(i.Host)
		if err != nil {
			return nil, nil, fmt.Errorf("clique: %w", err)
		}
		h := &hub{host: i.Host, peers: p, sessions: map[string]*session{}}
		stop, err := p.Serve(channelKind, h.accept)
		if err != nil {
			return nil, nil, err
		}
		h.stop = stop
		i.Host.SetReport(reportName, h.report)
		return h, h.close, nil
	})
	if err != nil {
		return nil, err
	}
	return v.(*hub), nil
}

// hello is the first message of a rank to another.
type hello struct {
	ID   string `json:"id"`
	From int    `json:"from"`
	To   int    `json:"to"`
}

// readHello decodes and checks a hello.
func readHello(b []byte) (hello, error) {
	var h hello
	if err := json.Unmarshal(b, &h); err != nil {
		return h, fmt.Errorf("clique: invalid hello: %w", err)
	}
	if h.From < 0 || h.From >= maxRanks || h.To < 0 || h.To >= h.From {
		return h, fmt.Errorf("clique: invalid hello from rank %d to rank %d: the higher rank connects", h.From,
			h.To)
	}
	return h, checkID(h.ID)
}

// accept passes a connection to its session. The session exists: workers get the roster after all of them have
// prepared.
func (h *hub) accept(_ context.Context, b []byte) (func(context.Context, comm.Comm), error) {
	in, err := readHello(b)
	if err != nil {
		return nil, err
	}
	s, err := h.session(in.ID)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, c comm.Comm) { s.deliver(ctx, in, c) }, nil
}

func (h *hub) session(id string) (*session, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s := h.sessions[id]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("%w: worker %s has no clique %.80s: dissolved, re-formed under another id, or idle for too "+
		"long", ErrUnknown, h.host.Worker, id)
}

// prepare creates the session of a new clique.
func (h *hub) prepare(_ context.Context, in prepareRequest) (prepared, error) {
	if err := checkID(in.ID); err != nil {
		return prepared{}, err
	}
	out := prepared{Member: describe(h.host.Worker, h.host.Name), Boot: h.host.Boot, Trusted: h.host.Trusted,
		Address: h.peers.Address, Functions: task.Hash()}
	out.Device = probeGPU(h.host, &out.Member, in.Backend)
	s := newSession(h, in.ID)
	s.ordinal = out.Device.Ordinal
	switch {
	case !in.UCX:
		out.NoUCX = "not requested"
	case !h.host.DataConnections:
		out.NoUCX = "the worker has no data connections (--data-connections=none, or libucp not found)"
	default:
		w, contact, err := h.ucx.worker(h.host.Trusted)
		if err != nil {
			out.NoUCX = err.Error()
		} else {
			s.worker, out.UCX = w, contact
		}
	}
	if err := h.add(s, in.Keep); err != nil {
		s.close(nil)
		return prepared{}, err
	}
	return out, nil
}

func (h *hub) add(s *session, keep time.Duration) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return task.ErrHostClosed
	case h.sessions[s.id] != nil:
		return fmt.Errorf("clique %s: worker %s already has a clique with this id", s.id, h.host.Worker)
	case len(h.sessions) >= maxSessions:
		return fmt.Errorf("clique %s: worker %s has %d cliques, the maximum; dissolve unused ones", s.id,
			h.host.Worker, maxSessions)
	}
	h.sessions[s.id] = s
	s.expireAfter(max(keep, time.Second))
	return nil
}

// form connects the session to the other ranks.
func (h *hub) form(ctx context.Context, in formRequest) (string, error) {
	s, err := h.session(in.ID)
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(ctx, max(in.Timeout, time.Second))
	defer cancel()
	backend, err := s.form(ctx, in)
	if err != nil {
		h.drop(s, err)
		return "", err
	}
	return backend, nil
}

// drop removes and closes a session.
func (h *hub) drop(s *session, why error) {
	h.mu.Lock()
	known := h.sessions[s.id] == s
	if known {
		delete(h.sessions, s.id)
	}
	h.mu.Unlock()
	if known {
		h.keep(s)
	}
	s.close(why)
}

func (h *hub) dissolve(id string) stateReply {
	s, err := h.session(id)
	if err != nil {
		return stateReply{Failed: -1}
	}
	out := s.state()
	h.drop(s, errDissolved)
	return out
}

var (
	errDissolved = errors.New("clique dissolved")
	errExpired   = errors.New("clique idle for too long")
	errEnded     = errors.New("worker closed")
)

// close closes all sessions and the UCX context.
func (h *hub) close() error {
	h.stop()
	h.mu.Lock()
	h.closed = true
	sessions := h.sessions
	h.sessions = map[string]*session{}
	h.mu.Unlock()
	for _, s := range sessions {
		s.close(errEnded)
	}
	h.ucx.close()
	return nil
}

// ucxContext creates UCX workers. Its UCX context is created for the first clique that needs one.
type ucxContext struct {
	mu     sync.Mutex // guards the fields below; held while ctx is created
	ctx    *ucx.Context
	closed bool
}

// worker returns a UCX worker for one clique, as UCX matches messages by worker. Unless data may leave the machine, UCX
// listens on the loopback interface alone.
func (u *ucxContext) worker(trusted bool) (*ucx.Worker, ucx.Contact, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil, ucx.Contact{}, task.ErrHostClosed
	}
	if u.ctx == nil {
		// Without streams UCX does not limit the number of endpoints between two workers.
		cfg := ucx.Config{Name: "millstream-clique", Features: ucx.AllFeatures &^ ucx.Stream}
		if !trusted {
			cfg.Options = ucxenv.OnLoopback(nil)
		}
		c, err := ucx.NewContext(cfg)
		if err != nil {
			return nil, ucx.Contact{}, err
		}
		u.ctx = c
	}
	w, err := u.ctx.NewWorker(ucx.WorkerConfig{})
	if err != nil {
		return nil, ucx.Contact{}, err
	}
	contact, err := w.Contact()
	if err != nil {
		_ = w.Close()
		return nil, ucx.Contact{}, err
	}
	return w, contact, nil
}

func (u *ucxContext) close() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.closed = true
	if u.ctx != nil {
		_ = u.ctx.Close()
	}
}
