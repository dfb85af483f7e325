package top

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Fetch returns a snapshot; last is the previous one, nil at first.
type Fetch func(ctx context.Context, last *Snapshot) (*Snapshot, error)

// Bounds of the interval that the keys + and - change.
const (
	minInterval = 200 * time.Millisecond
	maxInterval = time.Minute
)

// fetched is the result of one Fetch.
type fetched struct {
	snapshot *Snapshot
	err      error
}

// Run shows snapshots in a terminal until ctx ends or the user quits. first is shown at once. The terminal is restored
// whatever happens, panics included.
func Run(ctx context.Context, t *Terminal, first *Snapshot, fetch Fetch, v View) error {
	defer t.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGWINCH, syscall.SIGTSTP, syscall.SIGCONT)
	defer signal.Stop(signals)
	keys := t.Keys(ctx.Done())
	defer func() { // the terminal may be closed when Run has returned
		cancel()
		for range keys {
		}
	}()
	results := make(chan fetched, 1)
	s, running := first, false
	timer := time.NewTimer(v.Interval)
	defer timer.Stop()
	v.Keys = true
	for {
		v.Width, v.Height = t.Size()
		v.Offset = min(v.Offset, max(0, len(s.Workers)-1))
		t.Draw(s.Lines(v))
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			if !running && !v.Paused {
				running = true
				last := s
				go func() {
					next, err := fetch(ctx, last)
					results <- fetched{next, err}
				}()
			}
			timer.Reset(v.Interval)
		case r := <-results:
			running = false
			if v.Problem = ""; r.err != nil {
				v.Problem = r.err.Error() // the last snapshot stays
			} else {
				s = r.snapshot
			}
		case k, ok := <-keys:
			if !ok && ctx.Err() != nil { // which ended the keys
				return context.Cause(ctx)
			}
			if !ok || k == 'q' {
				return nil
			}
			v.press(k)
			timer.Reset(v.Interval)
		case sig := <-signals:
			switch sig {
			case syscall.SIGTSTP:
				t.Suspend()
				_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
			case syscall.SIGCONT:
				if err := t.Resume(); err != nil {
					return err
				}
			}
		}
	}
}

// press applies a key.
func (v *View) press(k rune) {
	page := max(1, v.Height-12)
	switch {
	case k == 'p' || k == ' ':
		v.Paused = !v.Paused
	case k == 'r':
		v.Reverse = !v.Reverse
	case k == 'j':
		v.Offset++
	case k == 'k':
		v.Offset = max(0, v.Offset-1)
	case k == 'J':
		v.Offset += page
	case k == 'K':
		v.Offset = max(0, v.Offset-page)
	case k == '+':
		v.Interval = min(2*v.Interval, maxInterval)
	case k == '-':
		v.Interval = max(v.Interval/2, minInterval)
	case Sorts(k):
		v.Sort, v.Offset = k, 0
	}
}
