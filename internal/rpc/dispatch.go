package rpc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc/internal/hooks"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// States of a session.
const (
	idle  int32 = iota // waiting for a request
	busy               // a handler runs
	taken              // a handler has taken the comm over
)

// session is one comm that is served.
type session struct {
	server *Server
	comm   comm.Comm
	host   string // of the peer, "" if the address has none
	state  atomic.Int32
	active atomic.Int64    // time of the last request, or of the comm: Unix nanoseconds
	ctx    context.Context // of detached handlers and of the reading
	cancel context.CancelFunc
	caller context.Context // of other handlers: ends with the comm as well
	left   context.CancelCauseFunc
	served bool // a request has arrived

	mu       sync.Mutex
	stopping bool               // guarded by mu
	reading  context.CancelFunc // ends the wait for the next request; guarded by mu
}

// ServeComm serves the requests of one comm until it ends, and closes it. It returns nil if the peer closed it between
// two requests.
func (s *Server) ServeComm(ctx context.Context, c comm.Comm) error {
	n := &session{server: s, comm: c, host: hostOf(c)}
	n.active.Store(time.Now().UnixNano())
	var idlest *session
	var crowded error
	if !s.enter(func() {
		if idlest, crowded = s.room(n.host); crowded == nil {
			s.life.comms[n] = struct{}{}
			s.life.hosts[n.host]++
			n.ctx, n.cancel = context.WithCancel(ctx)
			n.caller, n.left = context.WithCancelCause(n.ctx)
		}
	}) {
		c.Abort()
		return ErrClosed
	}
	defer s.running.Done()
	if crowded != nil {
		c.Abort()
		s.noisy.comms.Warn(s.cfg.Logger, "too many comms", "server", s.id, "peer", c.PeerAddr(), "error", crowded)
		return crowded
	}
	if idlest != nil {
		s.noisy.comms.Warn(s.cfg.Logger, "idle comm closed to make room", "server", s.id, "peer",
			idlest.comm.PeerAddr(),
			"idle", time.Since(time.Unix(0, idlest.active.Load())).Round(time.Millisecond), "limit", s.cfg.MaxComms)
		idlest.stop()
	}
	defer context.AfterFunc(s.ctx, n.cancel)()
	defer func() {
		n.cancel()
		s.life.Lock()
		defer s.life.Unlock()
		s.forget(n)
	}()
	hooks.AfterDone(c, n.hungUp)
	err := n.loop()
	if err != nil {
		c.Abort()
		return err
	}
	return c.Close()
}

// errHungUp is the cause of the contexts of handlers whose callers have disconnected.
var errHungUp = fmt.Errorf("rpc: caller disconnected: %w", context.Canceled)

// hungUp ends the context of a handler whose comm has ended. A handler that has taken over the comm sees the end
// itself, after it has read earlier data.
func (n *session) hungUp() {
	if n.state.Load() != taken {
		n.left(errHungUp)
	}
}

// stop ends the session when its handler is done; immediately if there is none.
func (n *session) stop() {
	n.mu.Lock()
	n.stopping = true
	if n.reading != nil {
		n.reading()
	}
	n.mu.Unlock()
	if n.state.Load() == taken {
		n.cancel()
	}
}

// read waits for the next request. It returns nil without an error when the session is to end.
func (n *session) read() (*wire.Message, error) {
	ctx, cancel := context.WithCancel(n.ctx)
	defer cancel()
	n.mu.Lock()
	if n.stopping {
		n.mu.Unlock()
		return nil, nil
	}
	n.reading = cancel
	n.mu.Unlock()
	if !n.served {
		n.served = true
		defer n.awaitFirst()()
	}
	m, err := n.comm.Read(ctx)
	n.mu.Lock()
	n.reading = nil
	stopping := n.stopping
	n.mu.Unlock()
	if err != nil && (stopping || errors.Is(err, comm.ErrClosed) && !errors.Is(err, comm.ErrProtocol)) {
		return nil, nil
	}
	return m, err
}

func (n *session) loop() error {
	for {
		m, err := n.read()
		if m == nil || err != nil {
			return err
		}
		more, err := n.one(m)
		m.Release()
		if err != nil || !more {
			return err
		}
	}
}

// one serves one request, and reports whether to continue reading.
func (n *session) one(m *wire.Message) (more bool, err error) {
	s := n.server
	if len(m.Frames) == 0 || m.Frames[0].OnDevice() {
		return false, &ProtocolError{"no body in host memory"}
	}
	body, err := parseBody(m.Body(), m, nil)
	var protocol *ProtocolError
	if errors.As(err, &protocol) {
		return false, err // as in Dask: the peer does not speak the protocol
	}
	if err != nil {
		// Dask answers a message that it cannot read with the error.
		_, err = n.answer(nil, err)
		return true, err
	}
	body.opts = s.cfg.Decode
	r := &Request{Body: body, Comm: n.comm, Server: s, Reply: truth(body.reply, true), Close: truth(body.close, false)}
	if body.serializers != nil {
		r.Serializers = stringList(body.serializers)
	}
	if r.Op == "close" {
		if !r.Reply {
			return false, nil
		}
		_, err = n.answer("OK", nil)
		return false, err
	}
	s.stats.requests.Add(1)
	began := time.Now()
	n.active.Store(began.UnixNano())
	result, err := n.run(r)
	delivery, tracked := result.(Delivery)
	if tracked {
		result = delivery.Value
	}
	if s.cfg.Observe != nil {
		s.cfg.Observe(Observation{Op: r.Op, Peer: n.comm.PeerAddr(), Took: time.Since(began), Err: err})
	}
	if errors.Is(err, ErrUnknownOp) && n.comm.Info().Millstream == nil {
		err = nil // a Dask server answers None, and Python peers expect it
	}
	if (err != nil || tracked) && n.comm.Err() != nil {
		releaseResult(result)
		delivery.lose()
		return false, nil // the caller has disconnected
	}
	if _, none := result.(noReply); err == nil && none || !r.Reply {
		releaseResult(result)
		delivery.lose()
	} else if sent, err := n.answer(result, err); !sent || err != nil {
		delivery.lose()
		if err != nil {
			return false, err
		}
	}
	return !r.Close && n.comm.Err() == nil, nil
}

// run calls the handler of a request.
func (n *session) run(r *Request) (result any, err error) {
	s := n.server
	h := s.handler(r.Op)
	if slices.Contains(s.cfg.Blocked, r.Op) {
		s.stats.refused.Add(1)
		return nil, &Exception{"ValueError", fmt.Sprintf("The '%s' handler has been explicitly disallowed in %s, "+
			"possibly due to security concerns.", r.Op, s.cfg.Type)}
	}
	if h == nil {
		s.stats.unknown.Add(1)
		s.cfg.Logger.Warn("no handler", "server", s.id, "op", r.Op, "peer", n.comm.PeerAddr())
		return nil, fmt.Errorf("%w %q: %s has no such handler", ErrUnknownOp, r.Op, s.cfg.Type)
	}
	ctx, trait := n.caller, s.traits[r.Op]
	if trait.detached || !r.Reply {
		ctx = n.ctx
	}
	leave, err := s.admit(ctx, n.host, trait)
	if err != nil {
		return nil, err
	}
	defer leave()
	n.state.Store(busy)
	defer n.state.Store(idle)
	r.takeover = func() {
		n.state.Store(taken)
		leave()
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.stopping {
			n.cancel()
		}
	}
	err = protect(func() (err error) {
		if s.cfg.Authorize != nil {
			if err := s.cfg.Authorize(ctx, r); err != nil {
				s.stats.refused.Add(1)
				s.noisy.refused.Warn(s.cfg.Logger, "request refused", "server", s.id, "op", r.Op, "peer",
					n.comm.PeerAddr(), "error", err)
				return err
			}
		}
		result, err = h(ctx, r)
		return err
	})
	if err != nil {
		s.stats.errors.Add(1)
		var panicked *PanicError
		if errors.As(err, &panicked) {
			s.cfg.Logger.Error("handler panicked", "server", s.id, "op", r.Op, "peer", n.comm.PeerAddr(), "panic",
				panicked.Value, "stack", string(panicked.Stack))
		} else if !errors.Is(err, fs.ErrPermission) && !(errors.Is(err, context.Canceled) && ctx.Err() != nil) {
			level := slog.LevelWarn
			if isTimeout(err) {
				level = slog.LevelDebug
			}
			s.cfg.Logger.Log(ctx, level, "handler failed", "server", s.id, "op", r.Op, "peer", n.comm.PeerAddr(),
				"error", err)
		}
	}
	return result, err
}

// answer sends a result or an error, and reports whether the result was sent.
func (n *session) answer(result any, failure error) (sent bool, err error) {
	var m *wire.Message
	good := failure == nil
	if good {
		m, err = encode(result, n.comm.Info())
		if err != nil {
			failure = fmt.Errorf("cannot encode the result: %w", err)
		}
	}
	if failure != nil {
		releaseResult(result)
		reply, err := ErrorMessage(failure, "uncaught-error")
		if err != nil {
			return false, err
		}
		if m, err = encode(reply, n.comm.Info()); err != nil {
			return false, err
		}
		good = false
	}
	defer m.Release()
	ctx := n.ctx
	if t := n.server.cfg.WriteTimeout; t > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, t)
		defer cancel()
	}
	err = n.comm.Write(ctx, m)
	if errors.Is(err, comm.ErrClosed) {
		return false, nil // the peer has disconnected; the loop sees the end
	}
	return good && err == nil, err
}

// releaseResult releases the result of a handler that is not sent.
func releaseResult(result any) {
	if m, ok := result.(*wire.Message); ok && m != nil {
		m.Release()
	}
}

// stringList decodes a list of strings; anything else is nil.
func stringList(raw []byte) []string {
	v, err := msgpack.Decode(raw)
	if err != nil {
		return nil
	}
	list, _ := v.([]any)
	var out []string
	for _, x := range list {
		if s, ok := x.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// isTimeout reports whether a request ended with a timeout that its caller chose, such as that of a queue's get. It is
// an answer, not a failure of the server.
func isTimeout(err error) bool {
	var e *Exception
	return errors.As(err, &e) && e.Type == "TimeoutError"
}
