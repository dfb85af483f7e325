package dashboard

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"
)

// Bounds of the live stream: viewers at a time, the interval of ticks, the ticks that a viewer may be behind before it
// is dropped, and the time for one write.
const (
	maxViewers   = 256
	tickInterval = 500 * time.Millisecond
	maxBehind    = 8
	writeTime    = 10 * time.Second
)

// live sends ticks to all viewers. Each tick is encoded once; without viewers there are none.
type live struct {
	tick func(context.Context) ([]byte, error) // returns an encoded event

	mu      sync.Mutex
	viewers map[*viewer]bool // guarded by mu
	closed  bool             // guarded by mu
	cancel  context.CancelFunc
	running sync.WaitGroup // the goroutine that makes ticks
}

// viewer is one open page.
type viewer struct{ events chan []byte } // closed when the viewer is dropped

var (
	errViewers = errors.New("dashboard: too many viewers; close some pages")
	errClosed  = errors.New("dashboard: closed")
)

// add adds a viewer, and starts the ticks for the first.
func (l *live) add() (*viewer, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, errClosed
	case len(l.viewers) >= maxViewers:
		return nil, errViewers
	}
	v := &viewer{make(chan []byte, maxBehind)}
	if l.viewers == nil {
		l.viewers = map[*viewer]bool{}
	}
	l.viewers[v] = true
	if l.cancel == nil {
		var ctx context.Context
		ctx, l.cancel = context.WithCancel(context.Background())
		l.running.Go(func() { l.run(ctx) })
	}
	return v, nil
}

// remove removes a viewer, and ends the ticks after the last.
func (l *live) remove(v *viewer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop(v)
	if len(l.viewers) == 0 && l.cancel != nil {
		l.cancel()
		l.cancel = nil
	}
}

// drop ends a viewer's stream. The caller holds mu.
func (l *live) drop(v *viewer) {
	if l.viewers[v] {
		delete(l.viewers, v)
		close(v.events)
	}
}

// run makes ticks until ctx ends.
func (l *live) run(ctx context.Context) {
	t := time.NewTicker(tickInterval)
	defer t.Stop()
	for {
		event, err := l.tick(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			l.send(event)
		}
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

// send queues an event for all viewers. A viewer that does not read is dropped: its page connects again.
func (l *live) send(event []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for v := range l.viewers {
		select {
		case v.events <- event:
		default:
			l.drop(v)
		}
	}
}

// close ends all streams and waits for the ticks to end.
func (l *live) close() {
	l.mu.Lock()
	l.closed = true
	for v := range l.viewers {
		l.drop(v)
	}
	if l.cancel != nil {
		l.cancel()
		l.cancel = nil
	}
	l.mu.Unlock()
	l.running.Wait()
}

// ServeHTTP sends the events to one viewer until it leaves or is dropped.
func (l *live) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	v, err := l.add()
	if err != nil {
		w.Header().Set("Retry-After", "5")
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	defer l.remove(v)
	// The server bounds requests in time; a stream has no end.
	c := http.NewResponseController(w)
	if err := c.SetReadDeadline(time.Time{}); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // nginx would collect events
	w.WriteHeader(http.StatusOK)
	for {
		if c.Flush() != nil {
			return
		}
		select {
		case event, ok := <-v.events:
			if !ok || c.SetWriteDeadline(time.Now().Add(writeTime)) != nil {
				return
			}
			if _, err := w.Write(event); err != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}
