package scheduler

import (
	"context"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/val"
)

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
