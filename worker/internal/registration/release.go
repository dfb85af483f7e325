package registration

import (
	"context"
	"fmt"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/dask/daskver"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// checkRelease asks a Dask scheduler which release it is, before the connection becomes
// the worker's stream: tasks have another form before those that were tested, and are then
// misread rather than refused.
func (c *Client) checkRelease(ctx context.Context, conn comm.Comm) error {
	if conn.Info().Millstream != nil {
		return nil
	}
	var reply struct{ Packages msgpack.Map }
	if err := rpc.Call(ctx, conn, "versions", wire.Dict{}, &reply); err != nil {
		return err
	}
	release := reply.Packages.GetString("distributed")
	theirs, _ := wire.Clone(reply.Packages).(msgpack.Map)
	c.packages.Store(&theirs)
	switch text := daskver.Worker.Message("the scheduler at "+c.cfg.Scheduler, release); daskver.Worker.Check(release) {
	case daskver.Older:
		return fmt.Errorf("%w: %s", ErrRefused, text)
	case daskver.Newer, daskver.Unknown:
		c.log.Warn(text)
	}
	return nil
}
