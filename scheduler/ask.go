package scheduler

import (
	"context"
	"fmt"

	"go.millstream.dev/comm"
	_ "go.millstream.dev/internal/comm/inproc" // the transport of ask
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
)

// listenInside opens the listener that ask connects to. Only this process reaches it.
func (s *Scheduler) listenInside(ctx context.Context) error {
	l, err := comm.Default.Listen(ctx, "inproc://", comm.ListenConfig{})
	if err != nil {
		return fmt.Errorf("scheduler: listener of the process itself: %w", err)
	}
	s.inside = l
	s.serving.Go(func() { _ = s.server.Serve(s.ctx, l) })
	return nil
}

// ask performs an op for the HTTP server or a function on the scheduler as a client does, so that limits and
// distributed.scheduler.blocked-handlers apply.
func (s *Scheduler) ask(ctx context.Context, op string, args msgpack.Map) (any, error) {
	c, err := comm.Default.Dial(ctx, s.inside.ContactAddr(), comm.DialConfig{})
	if err != nil {
		return nil, err
	}
	defer c.Abort()
	var out any
	err = rpc.Call(ctx, c, op, args, &out)
	return out, err
}
