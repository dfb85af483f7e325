package scheduler

import (
	"context"
	"maps"
	"time"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/val"
)

// tickInterval returns the interval of Tick events of the state.
func (s *Scheduler) tickInterval() time.Duration {
	return min(100*time.Millisecond, s.cfg.StealingInterval)
}

// tick applies a Tick event and runs periodic work of the subsystems. It runs in the loop.
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
	s.memory.Tick()
	s.feed.Tick(s.loop.Now(), maps.Values(s.workers.ByAddress))
	for address, at := range s.removed {
		if s.loop.Now().Sub(at) > s.cfg.EventsDelay {
			delete(s.removed, address)
			s.topics.Forget(address)
			s.feed.Forget(address)
		}
	}
}

// idleWatch records since when the scheduler is idle.
type idleWatch struct {
	since       time.Time
	transitions uint64
}

// checkIdle closes the scheduler when it has been idle for IdleTimeout.
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
		s.log.Info("scheduler closes: idle timeout", "timeout", s.cfg.IdleTimeout)
		s.cfg.IdleTimeout = 0
		s.terminate("idle-timeout-exceeded")
	}
}

// terminate closes the scheduler and its workers from within.
func (s *Scheduler) terminate(reason string) {
	s.life.Lock()
	s.life.reason = reason
	s.life.Unlock()
	go func() { _ = s.close(context.Background(), true) }()
}

// checkIdleRPC returns the time since when the scheduler is idle, None if it is not.
func (s *Scheduler) checkIdleRPC(ctx context.Context, _ *rpc.Request, _ struct{}) (any, error) {
	return loop.Ask(ctx, s.loop, func() (any, error) {
		s.checkIdle()
		if s.idle.since.IsZero() {
			return nil, nil
		}
		return val.Seconds(s.idle.since), nil
	})
}
