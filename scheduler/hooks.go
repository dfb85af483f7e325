package scheduler

import (
	"context"
	"slices"
	"strings"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/scheduler/internal/helpers"
	"go.millstream.dev/scheduler/internal/hooks"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/wire"
)

// registerSchedulerPlugin serves register_scheduler_plugin: the plugin runs in the Python helper.
func (s *Scheduler) registerSchedulerPlugin(ctx context.Context, _ *rpc.Request, in struct {
	Plugin     []byte `rpc:"plugin"`
	Name       string `rpc:"name,optional"`
	Idempotent bool   `rpc:"idempotent,optional"`
}) (any, error) {
	return nil, s.hooks.Register(ctx, strings.Clone(in.Name), slices.Clone(in.Plugin), in.Idempotent)
}

// unregisterSchedulerPlugin serves unregister_scheduler_plugin.
func (s *Scheduler) unregisterSchedulerPlugin(ctx context.Context, _ *rpc.Request, in struct {
	Name string `rpc:"name"`
}) (any, error) {
	return nil, s.hooks.Unregister(ctx, strings.Clone(in.Name))
}

// facadeHooks sets the hooks and handlers of scheduler plugins.
func (s *Scheduler) facadeHooks(ctx context.Context, m *pyproc.Message) (any, [][]byte, error) {
	var in hooks.Interest
	if err := helpers.Args(m, &in); err != nil {
		return nil, nil, err
	}
	return nil, nil, s.hooks.Set(ctx, in)
}

// facadeTask returns a task and its neighbors, for hooks that look up single tasks.
func (s *Scheduler) facadeTask(ctx context.Context, m *pyproc.Message) (any, [][]byte, error) {
	var in struct{ Key any }
	if err := helpers.Args(m, &in); err != nil {
		return nil, nil, err
	}
	key, err := task.KeyOf(wire.Clone(in.Key))
	if err != nil {
		return nil, nil, err
	}
	v, err := loop.Ask(ctx, s.loop, func() (any, error) { return s.inspect.FacadeTask(key), nil })
	return v, nil, err
}

// removable returns those of some workers that plugins allow to be closed; false if all may.
func (s *Scheduler) removable(ctx context.Context, addresses []string) (map[string]bool, bool) {
	wanted, err := loop.Ask(ctx, s.loop, func() (bool, error) { return s.hooks.Wants(hooks.Downscale), nil })
	if err != nil || !wanted {
		return nil, false
	}
	return s.hooks.Removable(ctx, addresses)
}
