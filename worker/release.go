package worker

import (
	"context"
	"fmt"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/dask/daskver"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// checkRelease asks a scheduler of Dask's which release it is, before the connection becomes
// the worker's stream: tasks have another form before those that were tested, and are then
// misread rather than refused.
func (w *Worker) checkRelease(ctx context.Context, c comm.Comm) error {
	if c.Info().Millstream != nil {
		return nil
	}
	var reply msgpack.Map
	if err := rpc.Call(ctx, c, "versions", wire.Dict{}, &reply); err != nil {
		return err
	}
	packages, _ := reply.Get("packages")
	m, _ := packages.(msgpack.Map)
	release := m.GetString("distributed")
	theirs, _ := wire.Clone(m).(msgpack.Map)
	w.packages.Store(&theirs)
	switch text := daskver.Worker.Message("the scheduler at "+w.cfg.Scheduler, release); daskver.Worker.Check(release) {
	case daskver.Older:
		return fmt.Errorf("%w: %s", ErrRefused, text)
	case daskver.Newer, daskver.Unknown:
		w.log.Warn(text)
	}
	return nil
}
