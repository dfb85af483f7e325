package loop

import (
	"context"
	"math"
	"time"

	"go.millstream.dev/config"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/scheduler/internal/val"
)

// Ask runs f in the loop and returns its results.
func Ask[T any](ctx context.Context, l Loop, f func() (T, error)) (T, error) {
	var out T
	var err error
	if e := l.Do(ctx, func() { out, err = f() }); e != nil {
		var none T
		return none, e
	}
	return out, err
}

// Signal wakes goroutines that wait for a change. The loop owns it.
type Signal struct{ ch chan struct{} }

// Wait returns a channel that the next Fire closes.
func (s *Signal) Wait() <-chan struct{} {
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

// Fire closes the channels that Wait has returned.
func (s *Signal) Fire() {
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}

// Timeout reads an optional argument: a number of seconds or a string such as "30 s".
func Timeout(v any) (d time.Duration, limited bool, err error) {
	switch v := v.(type) {
	case nil:
		return 0, false, nil
	case string:
		d, err = config.ParseDuration(v)
		return d, true, err
	}
	f, ok := val.Number(v)
	if !ok || math.IsNaN(f) {
		return 0, false, &rpc.Exception{Type: "TypeError",
			Message: "timeout: want seconds, a string such as '30 s', or None"}
	}
	f = min(max(f, 0), math.MaxInt64/float64(time.Second)-1)
	return time.Duration(f * float64(time.Second)), true, nil
}

// Await calls try in the loop until it returns no channel; between two calls it waits for the channel. limit is an
// argument as for Timeout; ok is false if the limit has passed before.
func Await(ctx context.Context, l Loop, limit any, try func() (<-chan struct{}, error)) (ok bool, err error) {
	d, limited, err := Timeout(limit)
	if err != nil {
		return false, err
	}
	var over <-chan time.Time
	if limited {
		t := time.NewTimer(d)
		defer t.Stop()
		over = t.C
	}
	for {
		ch, err := Ask(ctx, l, try)
		if err != nil || ch == nil {
			return err == nil, err
		}
		select {
		case <-ch:
		case <-over:
			return false, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-l.Done():
			return false, l.ClosedError()
		}
	}
}
