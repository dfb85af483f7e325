package scheduler

import (
	"context"
	"math"
	"time"

	"go.millstream.dev/config"
	"go.millstream.dev/internal/rpc"
)

// signal wakes those who wait for something to change. The loop owns it.
type signal struct{ ch chan struct{} }

// wait returns a channel that is closed by the next fire.
func (s *signal) wait() <-chan struct{} {
	if s.ch == nil {
		s.ch = make(chan struct{})
	}
	return s.ch
}

func (s *signal) fire() {
	if s.ch != nil {
		close(s.ch)
		s.ch = nil
	}
}

// timeout is an argument that is missing, a number of seconds or a text such as "30 s".
func timeout(v any) (d time.Duration, limited bool, err error) {
	switch v := v.(type) {
	case nil:
		return 0, false, nil
	case string:
		d, err = config.ParseDuration(v)
		return d, true, err
	}
	f, ok := number(v)
	if !ok || math.IsNaN(f) {
		return 0, false, &rpc.Exception{Type: "TypeError", Message: "timeout: want seconds, a text such as '30 s', or None"}
	}
	f = min(max(f, 0), math.MaxInt64/float64(time.Second)-1)
	return time.Duration(f * float64(time.Second)), true, nil
}

// await calls try in the loop until it returns no channel; between two calls it waits for
// the channel. ok is false when the time was over before.
func await(ctx context.Context, s *Scheduler, limit any, try func() (<-chan struct{}, error)) (ok bool, err error) {
	d, limited, err := timeout(limit)
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
		ch, err := ask(ctx, s, try)
		if err != nil || ch == nil {
			return err == nil, err
		}
		select {
		case <-ch:
		case <-over:
			return false, nil
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-s.loopDone:
			return false, s.closedError()
		}
	}
}

// kept waits until the journal has what was done in the loop before, so that an answer is
// a promise.
func (s *Scheduler) kept(ctx context.Context, position uint64) error {
	if s.journal == nil || position == 0 {
		return nil
	}
	return s.commit(ctx, position)
}

// change runs f in the loop and returns when the journal has what it did. f also runs if the
// caller has left, as in Dask: a lock whose release was lost would stay.
func (s *Scheduler) change(ctx context.Context, f func() error) error {
	var position uint64
	_, err := ask(context.WithoutCancel(ctx), s, func() (struct{}, error) {
		err := f()
		position = s.position
		return struct{}{}, err
	})
	if err != nil {
		return err
	}
	return s.kept(ctx, position)
}
