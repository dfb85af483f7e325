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

// checkRelease requests the release of a Dask scheduler before the connection becomes the stream of the worker:
// releases older than the tested ones encode tasks differently, and their tasks would be misread.
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
		c.log.Warn(daskver.Untested, "detail", text)
	}
	return nil
}
