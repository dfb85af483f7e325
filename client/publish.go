package client

import (
	"context"
	"errors"
	"fmt"

	"go.millstream.dev/client/internal/daskgraph"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
)

// Publish stores futures under a name, so that other clients can get them, also after this client has closed. override
// replaces the futures that are published under the name. Python clients receive a list of futures.
func Publish[T any](ctx context.Context, c *Client, name string, futures []*Future[T], override bool) error {
	keys, err := keysOf(Futures(futures))
	if err != nil {
		return err
	}
	list := make([]any, len(futures))
	for i, f := range futures {
		k, err := task.PyKey(f.Key())
		if err != nil {
			return err
		}
		list[i] = pickle.Call(pickle.Global{Module: "distributed.client", Name: "Future"}, k)
	}
	data, err := pickle.Dump(list)
	if err != nil {
		return err
	}
	value := &wire.Serialized{Header: daskgraph.ExprHeader(), Frames: []wire.Frame{wire.HeapFrame(data)}}
	args := wire.NewDict("names", []any{name}, "keys", []any{keys}, "data", []any{value}, "override", override,
		"client", c.id, "uid", c.flush())
	err = c.call(ctx, "publish_put", args, nil)
	if signatureError(err) { // a release of Dask before 2026.7
		if err = c.call(ctx, "publish_wait_flush", wire.NewDict("uid", c.flush()), nil); err == nil {
			err = c.call(ctx, "publish_put", wire.NewDict("name", name, "keys", keys, "data", value, "override",
				override, "client", c.id), nil)
		}
	}
	if err != nil {
		return fmt.Errorf("client: publish %s: %w", name, err)
	}
	return nil
}

// flush queues a mark on the stream and returns it. The scheduler reads the stream up to the mark, and thereby all
// earlier submissions, before it serves a request with the mark.
func (c *Client) flush() string {
	uid := randomHex(8)
	_ = c.tracker.Queue(&message.PublishFlush{UID: msgpack.AppendString(nil, uid)}) // if it fails, the request does too
	return uid
}

// signatureError reports whether a server's function rejects such arguments, as in another release of Dask.
func signatureError(err error) bool {
	var e *rpc.RemoteError
	return errors.As(err, &e) && e.Type == "TypeError"
}

// Published returns the futures that are published under a name.
func Published[T any](ctx context.Context, c *Client, name string) ([]*Future[T], error) {
	var reply any
	err := c.call(ctx, "publish_get", wire.NewDict("names", []any{name}), &reply)
	if signatureError(err) {
		err = c.call(ctx, "publish_get", wire.NewDict("name", name, "client", c.id), &reply)
	}
	if err != nil {
		return nil, fmt.Errorf("client: dataset %s: %w", name, err)
	}
	if list, ok := reply.([]any); ok && len(list) == 1 {
		reply = list[0]
	}
	d, ok := reply.(msgpack.Map)
	if !ok {
		return nil, fmt.Errorf("client: dataset %s is not published", name)
	}
	v, _ := d.Get("keys")
	list, _ := v.([]any)
	futures := make([]*Future[T], len(list))
	for i, x := range list {
		k, err := task.KeyOf(keyValue(x))
		if err != nil {
			return nil, err
		}
		futures[i] = FutureOf[T](c, k)
	}
	return futures, nil
}

// Datasets returns the names of published futures.
func (c *Client) Datasets(ctx context.Context) ([]string, error) {
	var reply []any
	if err := c.call(ctx, "publish_list", nil, &reply); err != nil {
		return nil, err
	}
	return textList(reply), nil
}

// Unpublish removes the futures that are published under names.
func (c *Client) Unpublish(ctx context.Context, names ...string) error {
	list := make([]any, len(names))
	for i, n := range names {
		list[i] = n
	}
	err := c.call(ctx, "publish_delete", wire.NewDict("names", list, "client", c.id, "uid", c.flush()), nil)
	if !signatureError(err) {
		return err
	}
	for _, n := range names {
		if err := c.call(ctx, "publish_delete", wire.NewDict("name", n), nil); err != nil {
			return err
		}
	}
	return nil
}
