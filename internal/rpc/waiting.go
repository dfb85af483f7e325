package rpc

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// ErrTooManyWaiting is returned to requests that would wait when too many already do; see Config.MaxWaiting.
var ErrTooManyWaiting = errors.New("rpc: too many waiting requests")

// Delivery is the result of a handler that must know whether its answer was sent: an item taken out of a queue, a lock
// that was acquired. Lost is called, on the goroutine of the handler, if the answer could not be sent or was not
// wanted. An answer that was sent may still be lost in the network.
type Delivery struct {
	Value any
	Lost  func()
}

func (d Delivery) lose() {
	if d.Lost != nil {
		d.Lost()
	}
}

// trait specifies how requests of an op are run.
type trait struct{ waits, detached bool }

func (c *Config) traits() map[string]trait {
	out := map[string]trait{"connection_stream": {detached: true}}
	for _, op := range c.Waiting {
		t := out[op]
		t.waits = true
		out[op] = t
	}
	for _, op := range c.Detached {
		t := out[op]
		t.detached = true
		out[op] = t
	}
	return out
}

// waiting counts the requests in progress that may wait.
type waiting struct {
	mu    sync.Mutex
	total int            // guarded by mu
	hosts map[string]int // guarded by mu
}

func (w *waiting) count() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return int64(w.total)
}

// enter counts one more request of a host.
func (w *waiting) enter(host string, limit, perHost int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if n := w.hosts[host]; n >= perHost {
		return fmt.Errorf("%w: %d of host %s, the limit for a host; wait in fewer tasks at once", ErrTooManyWaiting, n,
			host)
	}
	if w.total >= limit {
		return fmt.Errorf("%w: %d in all, the limit of the server; wait in fewer tasks at once", ErrTooManyWaiting,
			w.total)
	}
	if w.hosts == nil {
		w.hosts = map[string]int{}
	}
	w.total++
	w.hosts[host]++
	return nil
}

func (w *waiting) leave(host string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.total--
	if w.hosts[host]--; w.hosts[host] == 0 {
		delete(w.hosts, host)
	}
}

// admit waits until a request may run. leave, which may be called twice, marks it as finished or no longer counted.
func (s *Server) admit(ctx context.Context, host string, t trait) (leave func(), err error) {
	if t.waits {
		if err := s.waiting.enter(host, s.cfg.MaxWaiting, s.cfg.MaxWaitingPerHost); err != nil {
			s.noisy.comms.Warn(s.cfg.Logger, "too many waiting requests", "server", s.id, "host", host, "error", err)
			return nil, err
		}
		return sync.OnceFunc(func() { s.waiting.leave(host) }), nil
	}
	select {
	case s.slots <- struct{}{}: // also if ctx has ended: the handler handles it
	default:
		select {
		case s.slots <- struct{}{}:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	s.stats.runningNow.Add(1)
	return sync.OnceFunc(func() {
		s.stats.runningNow.Add(-1)
		<-s.slots
	}), nil
}
