package scheduler

import (
	"context"
	"slices"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/helpers"
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
	m, err := s.helpers.Call(ctx, helpers.Service, "run-function", wire.NewDict("wait", in.Wait == nil || *in.Wait), [][]byte{slices.Clone(in.Function), slices.Clone(in.Args), slices.Clone(in.Kwargs)})
	if err != nil {
		return nil, err
	}
	return helpers.Message(m.Frames)
}

// registerSchedulerPlugin is register_scheduler_plugin. The helper looks at the plugin: some
// of Dask's own only bring files or packages, all others are refused.
func (s *Scheduler) registerSchedulerPlugin(ctx context.Context, _ *rpc.Request, in struct {
	Plugin     []byte `rpc:"plugin"`
	Name       string `rpc:"name"`
	Idempotent any    `rpc:"idempotent,optional"`
}) (any, error) {
	_, err := s.helpers.Call(ctx, helpers.Service, "register-plugin", msgpack.MapOf("name", in.Name), [][]byte{slices.Clone(in.Plugin)})
	return nil, err
}
