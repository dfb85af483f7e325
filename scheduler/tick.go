package scheduler

import (
	"context"
	"time"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/val"
)

// tickInterval is how often time passes for the state.
func (s *Scheduler) tickInterval() time.Duration {
	return min(100*time.Millisecond, s.cfg.StealingInterval)
}

// tick lets time pass. It runs in the loop.
func (s *Scheduler) tick() {
	if !s.ready {
		return
	}
	s.totals.Ticks++
	s.apply(&state.Tick{})
	s.workers.Tick()
	s.prims.Tick()
	s.clients.Tick()
	s.checkIdle()
	s.recovery.Tick()
	s.short.Tick()
	for address, at := range s.removed {
		if s.loop.Now().Sub(at) > s.cfg.EventsDelay {
			delete(s.removed, address)
			s.topics.Forget(address)
		}
	}
}

// idleWatch notices that nothing happens.
type idleWatch struct {
	since       time.Time
	transitions uint64
}

// checkIdle ends the scheduler when it has had nothing to do for long enough.
func (s *Scheduler) checkIdle() {
	n := s.state.Counters().Transitions
	if n != s.idle.transitions || !s.state.Idle() {
		s.idle = idleWatch{transitions: n}
		return
	}
	if s.idle.since.IsZero() {
		s.idle.since = s.loop.Now()
	}
	if s.cfg.IdleTimeout > 0 && s.loop.Now().Sub(s.idle.since) > s.cfg.IdleTimeout {
		s.log.Info("scheduler closes after being idle", "for", s.cfg.IdleTimeout)
		s.cfg.IdleTimeout = 0
		s.end("idle-timeout-exceeded")
	}
}

// end closes the scheduler from within, workers and all.
func (s *Scheduler) end(reason string) {
	s.life.Lock()
	s.life.reason = reason
	s.life.Unlock()
	go func() { _ = s.close(context.Background(), true) }()
}

// checkIdleRPC is since when nothing happens, None if something does.
func (s *Scheduler) checkIdleRPC(ctx context.Context, _ *rpc.Request, _ struct{}) (any, error) {
	return loop.Ask(ctx, s.loop, func() (any, error) {
		s.checkIdle()
		if s.idle.since.IsZero() {
			return nil, nil
		}
		return val.Seconds(s.idle.since), nil
	})
}
