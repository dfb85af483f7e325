package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"go.millstream.dev/client/internal/link"
	"go.millstream.dev/internal/dask/daskver"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// SetMetadata stores a value on the scheduler under a path of names, for all clients and tasks of the cluster: Dask's
// set_metadata. The value must be one that task.Plain accepts.
func (c *Client) SetMetadata(ctx context.Context, value any, path ...string) error {
	v, err := task.Plain(value)
	if err != nil {
		return err
	}
	return c.call(ctx, "set_metadata", wire.NewDict("keys", path, "value", v), nil)
}

// Metadata returns the value that SetMetadata has stored under a path, or an error if there is none.
func Metadata[T any](ctx context.Context, c *Client, path ...string) (T, error) {
	var reply any
	if err := c.call(ctx, "get_metadata", wire.NewDict("keys", path), &reply); err != nil {
		var zero T
		return zero, fmt.Errorf("client: metadata %q: %w", path, err)
	}
	return task.FromPlain[T](wire.Clone(reply))
}

// Versions has the versions of packages by name, such as "distributed" or "python", of the processes of a cluster.
type Versions struct {
	// Scheduler has the versions of the scheduler.
	Scheduler map[string]string
	// Workers has the versions of the workers, by address.
	Workers map[string]map[string]string
}

// Versions returns the versions of the packages of scheduler and workers: Dask's get_versions.
func (c *Client) Versions(ctx context.Context) (Versions, error) {
	var out Versions
	var reply msgpack.Map
	if err := c.call(ctx, "versions", wire.Dict{}, &reply); err != nil {
		return out, err
	}
	out.Scheduler = packagesOf(reply)
	reply = nil
	if err := c.call(ctx, "broadcast", wire.NewDict("msg", wire.NewDict("op", "versions")), &reply); err != nil {
		return out, err
	}
	out.Workers = make(map[string]map[string]string, len(reply))
	for _, p := range reply {
		address, _ := p.Key.(string)
		d, _ := p.Value.(msgpack.Map)
		out.Workers[address] = packagesOf(d)
	}
	return out, nil
}

func packagesOf(d msgpack.Map) map[string]string {
	v, _ := d.Get("packages")
	list, _ := v.(msgpack.Map)
	out := make(map[string]string, len(list))
	for _, p := range list {
		name, _ := p.Key.(string)
		if release, ok := p.Value.(string); ok {
			out[name] = release
		}
	}
	return out
}

// checkDask checks the release of a Dask scheduler: it returns an error if the release is too old, and logs a warning
// if it is newer than all tested ones.
func checkDask(ctx context.Context, l *link.Link, address string, log *slog.Logger) error {
	var reply msgpack.Map
	if err := l.Call(ctx, "versions", wire.Dict{}, &reply); err != nil {
		return err
	}
	release := packagesOf(reply)["distributed"]
	switch text := daskver.Client.Message("the scheduler", release); daskver.Client.Check(release) {
	case daskver.Good:
	case daskver.Older:
		return errors.New(text)
	default:
		log.Warn(daskver.Untested, "scheduler", address, "release", release, "detail", text)
	}
	return nil
}
