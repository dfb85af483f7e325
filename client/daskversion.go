package client

import (
	"context"
	"errors"

	"go.millstream.dev/internal/dask/daskver"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// checkDask asks a scheduler of Dask's for its release: one that is too old is refused, one
// that is newer than all that were tested is warned of.
func (c *Client) checkDask(ctx context.Context) error {
	var reply msgpack.Map
	if err := c.call(ctx, "versions", wire.Dict{}, &reply); err != nil {
		return err
	}
	release := packagesOf(reply)["distributed"]
	switch text := daskver.Client.Message("the scheduler", release); daskver.Client.Check(release) {
	case daskver.Good:
	case daskver.Older:
		return errors.New(text)
	default:
		c.log.Warn(text, "scheduler", c.address, "release", release)
	}
	return nil
}
