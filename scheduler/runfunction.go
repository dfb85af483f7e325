package scheduler

import (
	"context"
	"slices"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/wire"
)

// runFunction is run_function, Client.run_on_scheduler: a function of a client runs in a
// Python process beside the scheduler, with a facade in the scheduler's place. The process
// makes the answer, the function's exception included.
func (s *Scheduler) runFunction(ctx context.Context, _ *rpc.Request, in struct {
	Function []byte `rpc:"function"`
	Args     []byte `rpc:"args,optional"`
	Kwargs   []byte `rpc:"kwargs,optional"`
	Wait     *bool  `rpc:"wait"`
}) (any, error) {
	m, err := s.callHelper(ctx, moduleService, "run-function", wire.NewDict("wait", in.Wait == nil || *in.Wait), [][]byte{slices.Clone(in.Function), slices.Clone(in.Args), slices.Clone(in.Kwargs)})
	if err != nil {
		return nil, err
	}
	return encoded(m.Frames)
}

// encoded is a message that a helper has made.
func encoded(frames [][]byte) (*wire.Message, error) {
	if len(frames) == 0 {
		return nil, errNoBody
	}
	out := &wire.Message{Frames: make([]wire.Frame, len(frames))}
	for i, f := range frames {
		out.Frames[i] = wire.HeapFrame(f)
	}
	return out, nil
}
