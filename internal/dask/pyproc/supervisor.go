package pyproc

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"go.millstream.dev/internal/comm/closed"
)

// SupervisorConfig describes a child that is there when it is needed.
type SupervisorConfig struct {
	Config
	// Setup is called with each new child before anybody gets it; an error ends the child.
	Setup func(ctx context.Context, p *Process) error
	// Exited is called when a child that Setup has accepted is gone, in a goroutine of its
	// own; the next one starts only after it has returned. Not called for Close.
	Exited func(err error)
	// Backoff before a child is started again that did not live long, doubled each time
	// from the first to the second (default 100 ms and 10 s).
	Backoff, MaxBackoff time.Duration
}

// Supervisor keeps one child: started at the first need, started again at the first need
// after it has died.
type Supervisor struct {
	cfg    SupervisorConfig
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	current *Process
	coming  chan struct{} // closed when the start that is under way has ended; nil when none is
	err     error         // of the last start
	again   time.Time     // no start before
	delay   time.Duration
}

// steady is how long a child must live for its death to count as the first.
const steady = 30 * time.Second

// errIdle is why a child ends that a pool has no use for.
var errIdle = errors.New("not needed any more")

// ErrClosed is what a closed Supervisor or Pool answers.
var ErrClosed = closed.New("pyproc: closed")

// NewSupervisor starts nothing yet.
func NewSupervisor(cfg SupervisorConfig) *Supervisor {
	cfg.Backoff = cmp.Or(cfg.Backoff, 100*time.Millisecond)
	cfg.MaxBackoff = cmp.Or(cfg.MaxBackoff, 10*time.Second)
	s := &Supervisor{cfg: cfg}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Current is the child if one runs.
func (s *Supervisor) Current() *Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// Process returns the child that runs, or starts it and waits. An error of a start is told
// to all who wait for it; the next call tries again.
func (s *Supervisor) Process(ctx context.Context) (*Process, error) {
	for {
		s.mu.Lock()
		if s.ctx.Err() != nil {
			s.mu.Unlock()
			return nil, ErrClosed
		}
		if s.current != nil {
			defer s.mu.Unlock()
			return s.current, nil
		}
		if s.coming == nil {
			s.coming, s.err = make(chan struct{}), nil
			s.wg.Go(s.start)
		}
		coming := s.coming
		s.mu.Unlock()
		select {
		case <-coming:
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

// start runs once for each child. It owns coming.
func (s *Supervisor) start() {
	s.mu.Lock()
	wait := time.Until(s.again)
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
		s.current = p
	} else {
		s.err = err
		s.later()
	}
	close(s.coming)
	s.coming = nil
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
	s.coming, s.err = gone, nil // nobody starts another before Exited has returned
	if time.Since(born) > steady {
		s.delay = 0
	}
	s.later()
	s.mu.Unlock()
	if s.cfg.Exited != nil && s.ctx.Err() == nil {
		s.cfg.Exited(p.Err())
	}
	s.mu.Lock()
	s.coming = nil
	s.mu.Unlock()
	close(gone)
}

// later sets the time of the next start. The lock is held.
func (s *Supervisor) later() {
	s.again = time.Now().Add(s.delay)
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

// Close ends the child, and waits.
func (s *Supervisor) Close() error {
	s.cancel()
	s.wg.Wait()
	return nil
}
