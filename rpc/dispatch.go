package rpc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/wire"
	"go.millstream.dev/wire/msgpack"
)

// States of a session.
const (
	idle  int32 = iota // waits for a request
	busy               // a handler runs
	taken              // a handler has taken the comm over
)

// session is one comm that is served.
type session struct {
	server *Server
	comm   comm.Comm
	state  atomic.Int32
	ctx    context.Context // of its handlers
	cancel context.CancelFunc

	mu       sync.Mutex
	stopping bool               // guarded by mu
	reading  context.CancelFunc // ends the wait for the next request; guarded by mu
}

// ServeComm answers the requests of one comm until it ends, and closes it. It returns nil
// when the peer closed it between two requests.
func (s *Server) ServeComm(ctx context.Context, c comm.Comm) error {
	n := &session{server: s, comm: c}
	crowded := false
	if !s.enter(func() {
		if crowded = len(s.life.comms) >= s.cfg.MaxComms; !crowded {
			s.life.comms[n] = struct{}{}
			n.ctx, n.cancel = context.WithCancel(ctx)
		}
	}) {
		c.Abort()
		return ErrClosed
	}
	defer s.running.Done()
	if crowded {
		c.Abort()
		s.cfg.Logger.Warn("too many comms", "server", s.id, "peer", c.PeerAddr(), "limit", s.cfg.MaxComms)
		return fmt.Errorf("rpc: comm of %s refused: %d are open (Config.MaxComms)", c.PeerAddr(), s.cfg.MaxComms)
	}
	defer context.AfterFunc(s.ctx, n.cancel)()
	defer func() {
		n.cancel()
		s.life.Lock()
		defer s.life.Unlock()
		delete(s.life.comms, n)
	}()
	err := n.loop()
	if err != nil {
		c.Abort()
		return err
	}
	return c.Close()
}

// stop ends the session when its handler is done; at once if there is none.
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

// read waits for the next request. It returns nil without an error when the session is to
// end.
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
	m, err := n.comm.Read(ctx)
	n.mu.Lock()
	n.reading = nil
	stopping := n.stopping
	n.mu.Unlock()
	if err != nil && (stopping || errors.Is(err, comm.ErrClosed)) {
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

// one answers one request, and reports whether the comm is to be read on.
func (n *session) one(m *wire.Message) (more bool, err error) {
	s := n.server
	if len(m.Frames) == 0 || m.Frames[0].OnDevice() {
		return false, &ProtocolError{"it has no body in host memory"}
	}
	body, err := parseBody(m.Body(), m, nil)
	var protocol *ProtocolError
	if errors.As(err, &protocol) {
		return false, err // as Dask: whoever sends this does not speak the protocol
	}
	if err != nil {
		// Dask answers what it cannot read with the error.
		return true, n.answer(nil, err)
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
		return false, n.answer("OK", nil)
	}
	s.stats.requests.Add(1)
	began := time.Now()
	result, err := n.run(r)
	if s.cfg.Observe != nil {
		s.cfg.Observe(Observation{Op: r.Op, Peer: n.comm.PeerAddr(), Took: time.Since(began), Err: err})
	}
	if errors.Is(err, ErrUnknownOp) && n.comm.Info().Millstream == nil {
		err = nil // a Dask server answers None, and Python peers expect it
	}
	if err != nil && n.comm.Err() != nil {
		releaseResult(result)
		return false, nil // nobody is left to be told
	}
	if _, none := result.(noReply); err == nil && none || !r.Reply {
		releaseResult(result)
	} else if err := n.answer(result, err); err != nil {
		return false, err
	}
	return !r.Close && n.comm.Err() == nil, nil
}

// run calls the handler of a request.
func (n *session) run(r *Request) (result any, err error) {
	s := n.server
	h := s.handler(r.Op)
	if slices.Contains(s.cfg.Blocked, r.Op) {
		s.stats.refused.Add(1)
		return nil, &Exception{"ValueError", fmt.Sprintf("The '%s' handler has been explicitly disallowed in %s, possibly due to security concerns.", r.Op, s.cfg.Type)}
	}
	if h == nil {
		s.stats.unknown.Add(1)
		s.cfg.Logger.Warn("no handler", "server", s.id, "op", r.Op, "peer", n.comm.PeerAddr())
		return nil, fmt.Errorf("%w %q: %s has no such handler", ErrUnknownOp, r.Op, s.cfg.Type)
	}
	select {
	case s.slots <- struct{}{}:
	case <-n.ctx.Done():
		return nil, n.ctx.Err()
	}
	s.stats.runningNow.Add(1)
	leave := sync.OnceFunc(func() {
		s.stats.runningNow.Add(-1)
		<-s.slots
	})
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
			if err := s.cfg.Authorize(n.ctx, r); err != nil {
				s.stats.refused.Add(1)
				return err
			}
		}
		result, err = h(n.ctx, r)
		return err
	})
	if err != nil {
		s.stats.errors.Add(1)
		var panicked *PanicError
		if errors.As(err, &panicked) {
			s.cfg.Logger.Error("handler panicked", "server", s.id, "op", r.Op, "peer", n.comm.PeerAddr(), "panic", panicked.Value, "stack", string(panicked.Stack))
		} else if !errors.Is(err, fs.ErrPermission) {
			s.cfg.Logger.Warn("handler failed", "server", s.id, "op", r.Op, "peer", n.comm.PeerAddr(), "error", err)
		}
	}
	return result, err
}

// answer sends a result or an error.
func (n *session) answer(result any, failure error) error {
	var m *wire.Message
	var err error
	if failure == nil {
		m, err = encode(result, n.comm.Info())
		if err != nil {
			failure = fmt.Errorf("the result cannot be sent: %w", err)
		}
	}
	if failure != nil {
		releaseResult(result)
		reply, err := ErrorMessage(failure, "uncaught-error")
		if err != nil {
			return err
		}
		if m, err = encode(reply, n.comm.Info()); err != nil {
			return err
		}
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
		return nil // the peer did not wait; the loop sees the end
	}
	return err
}

// releaseResult gives back what a handler made and nobody sends.
func releaseResult(result any) {
	if m, ok := result.(*wire.Message); ok && m != nil {
		m.Release()
	}
}

// stringList reads a list of strings; anything else is none.
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
