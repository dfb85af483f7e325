package pyproc

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"go.millstream.dev/internal/comm/closed"
)

// SupervisorConfig configures a child that is started on demand.
type SupervisorConfig struct {
	Config
	// Setup is called with each new child before it is used; an error ends the child.
	Setup func(ctx context.Context, p *Process) error
	// Exited is called in its own goroutine when a child that Setup has accepted has ended; the next one starts only
	// after it has returned. It is not called for Close.
	Exited func(err error)
	// Backoff is the delay before a child is restarted that ended early, doubled each time up to MaxBackoff (default
	// 100 ms and 10 s).
	Backoff, MaxBackoff time.Duration
}

// Supervisor manages one child: it is started when it is first needed, and restarted when it is needed after it has
// ended.
type Supervisor struct {
	cfg    SupervisorConfig
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu        sync.Mutex
	current   *Process
	left      chan struct{} // closed when current is no longer current
	starting  chan struct{} // closed when the start in progress has ended; nil if there is none
	err       error         // of the last start
	notBefore time.Time     // of the next start
	delay     time.Duration
}

// stable is the running time after which the backoff of a child is reset.
const stable = 30 * time.Second

// errIdle is why a pool ends an idle child.
var errIdle = errors.New("no longer needed")

// ErrClosed is returned by operations on a closed Supervisor or Pool.
var ErrClosed = closed.New("pyproc: closed")

// NewSupervisor returns a Supervisor without a child.
func NewSupervisor(cfg SupervisorConfig) *Supervisor {
	cfg.Backoff = cmp.Or(cfg.Backoff, 100*time.Millisecond)
	cfg.MaxBackoff = cmp.Or(cfg.MaxBackoff, 10*time.Second)
	s := &Supervisor{cfg: cfg}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Current returns the running child, or nil.
func (s *Supervisor) Current() *Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Process returns the running child, or starts it and waits. A child that is ending is not returned. All callers that
// wait for a start receive its error; the next call tries again.
func (s *Supervisor) Process(ctx context.Context) (*Process, error) {
	for {
		s.mu.Lock()
		if s.ctx.Err() != nil {
			s.mu.Unlock()
			return nil, ErrClosed
		}
		if p, left := s.current, s.left; p != nil {
			s.mu.Unlock()
			if !p.Ending() {
				return p, nil
			}
			select {
			case <-left:
			case <-s.ctx.Done():
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			continue
		}
		if s.starting == nil {
			s.starting, s.err = make(chan struct{}), nil
			s.wg.Go(s.start)
		}
		starting := s.starting
		s.mu.Unlock()
		select {
		case <-starting:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		s.mu.Lock()
		err := s.err
		s.mu.Unlock()
		if err != nil {
			return nil, err
		}
	}
}

// start starts a child. It owns starting.
func (s *Supervisor) start() {
	s.mu.Lock()
	wait := time.Until(s.notBefore)
	s.mu.Unlock()
	var p *Process
	err := sleep(s.ctx, wait)
	if err == nil {
		p, err = Start(s.ctx, s.cfg.Config)
	}
	if err == nil && s.cfg.Setup != nil {
		if err = s.cfg.Setup(s.ctx, p); err != nil {
			_ = p.Close()
		}
	}
	if s.ctx.Err() != nil && err == nil {
		_ = p.Close()
		err = ErrClosed
	}
	s.mu.Lock()
	if err == nil {
		s.current, s.left = p, make(chan struct{})
	} else {
		s.err = err
		s.delayNext()
	}
	close(s.starting)
	s.starting = nil
	s.mu.Unlock()
	if err == nil {
		s.watch(p)
	}
}

// watch waits for the end of a child.
func (s *Supervisor) watch(p *Process) {
	born := time.Now()
	select {
	case <-p.Done():
	case <-s.ctx.Done():
		_ = p.Close()
		return
	}
	gone := make(chan struct{})
	s.mu.Lock()
	s.current = nil
	close(s.left)
	s.starting, s.err = gone, nil // no other child is started before Exited has returned
	if time.Since(born) > stable {
		s.delay = 0
	}
	s.delayNext()
	s.mu.Unlock()
	if s.cfg.Exited != nil && s.ctx.Err() == nil {
		s.cfg.Exited(p.Err())
	}
	s.mu.Lock()
	s.starting = nil
	s.mu.Unlock()
	close(gone)
}

// delayNext sets the earliest time of the next start. The caller holds the lock.
func (s *Supervisor) delayNext() {
	s.notBefore = time.Now().Add(s.delay)
	s.delay = min(max(2*s.delay, s.cfg.Backoff), s.cfg.MaxBackoff)
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close ends the child and waits for it.
func (s *Supervisor) Close() error {
	s.cancel()
	s.wg.Wait()
	return nil
}
