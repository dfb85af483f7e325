package link

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/secure"
)

// dialNotice is how long the scheduler is dialed before a warning is logged. Further warnings follow at intervals that
// double.
const dialNotice = 2 * time.Second

// dialing logs failed attempts to connect: the client waits for a scheduler that has not started yet, and without a
// warning a wrong address would look the same.
type dialing struct {
	log     *slog.Logger
	address string
	limit   time.Duration
	start   time.Time

	mu       sync.Mutex // guards all below
	attempts int
	last     error
	pause    time.Duration
	timer    *time.Timer
	done     bool
}

// dial connects to the scheduler and logs a warning if that takes long.
func (l *Link) dial(ctx context.Context) (comm.Comm, error) {
	cfg := l.cfg.Dial.To(secure.Scheduler)
	d := &dialing{log: l.cfg.Log, address: l.cfg.Address, limit: cfg.Timeout, start: time.Now(), pause: dialNotice}
	if d.limit <= 0 {
		d.limit = comm.DefaultConnectTimeout
	}
	cfg.Retrying = d.failed
	d.mu.Lock()
	d.timer = time.AfterFunc(d.pause, d.report)
	d.mu.Unlock()
	defer d.stop()
	return l.cfg.Network.Dial(ctx, l.cfg.Address, cfg)
}

func (d *dialing) failed(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.attempts++
	d.last = err
}

func (d *dialing) report() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done {
		return
	}
	reason := "no reply yet"
	if d.last != nil {
		reason = d.last.Error()
	}
	d.log.Warn("scheduler not reachable; still trying", "scheduler", d.address, "attempts", d.attempts,
		"after", time.Since(d.start).Round(time.Millisecond), "limit", d.limit, "error", reason)
	d.pause *= 2
	d.timer.Reset(d.pause)
}

func (d *dialing) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done = true
	d.timer.Stop()
}
