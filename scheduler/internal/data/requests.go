package data

import (
	"context"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/scheduler/internal/loop"
)

// Requests are requests that the state completes later, by number. The loop owns them.
type Requests struct {
	loop    loop.Loop
	apply   func(state.Event)
	pending map[uint64]chan<- requestDone
	last    uint64
}

// NewRequests returns Requests without entries.
func NewRequests(l loop.Loop, apply func(state.Event)) *Requests {
	return &Requests{l, apply, map[uint64]chan<- requestDone{}, 0}
}

// Do applies a request that the state completes later, and waits for its completion. make receives the number of the
// request and returns the event; it runs in the loop.
func (s *Requests) Do(ctx context.Context, make_ func(number uint64) (state.Event, error)) (failed []task.Key,
	err error) {
	done := make(chan requestDone, 1)
	_, err = loop.Ask(ctx, s.loop, func() (any, error) {
		s.last++
		ev, err := make_(s.last)
		if err != nil || ev == nil {
			done <- requestDone{}
			return nil, err
		}
		s.pending[s.last] = done
		s.apply(ev)
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	select {
	case d := <-done:
		return d.failed, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-s.loop.Done():
		return nil, s.loop.ClosedError()
	}
}

// Done completes a request. It runs in the loop.
func (s *Requests) Done(number uint64, failed []task.Key) {
	if done := s.pending[number]; done != nil {
		delete(s.pending, number)
		done <- requestDone{append([]task.Key(nil), failed...)}
	}
}

// requestDone is the result of a completed request.
type requestDone struct{ failed []task.Key }
