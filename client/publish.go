package client

import (
	"context"
	"fmt"

	"go.millstream.dev/task"
	"go.millstream.dev/wire"
	"go.millstream.dev/wire/msgpack"
)

// Publish keeps futures under a name, so that other clients find them, also after this one is
// gone. override replaces what is published under the name.
func Publish[T any](ctx context.Context, c *Client, name string, futures []*Future[T], override bool) error {
	keys, err := keysOf(Futures(futures))
	if err != nil {
		return err
	}
	// The futures' tasks were submitted on the stream: the scheduler reads it up to here first.
	uid := randomHex(8)
	c.mu.Lock()
	b := msgpack.AppendMapHeader(nil, 2)
	b = appendField(b, "op", "publish_flush_batched_send")
	c.say(appendField(b, "uid", uid))
	c.mu.Unlock()
	args := wire.NewDict("names", []any{name}, "keys", []any{keys}, "data", []any{keys}, "override", override, "client", c.id, "uid", uid)
	if err := c.call(ctx, "publish_put", args, nil); err != nil {
		return fmt.Errorf("client: publish %s: %w", name, err)
	}
	return nil
}

// Published returns the futures that are published under a name.
func Published[T any](ctx context.Context, c *Client, name string) ([]*Future[T], error) {
	var reply []any
	if err := c.call(ctx, "publish_get", wire.NewDict("names", []any{name}), &reply); err != nil {
		return nil, fmt.Errorf("client: dataset %s: %w", name, err)
	}
	if len(reply) != 1 {
		return nil, fmt.Errorf("client: dataset %s: %d answers", name, len(reply))
	}
	d, ok := reply[0].(msgpack.Map)
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

// Datasets lists the names that something is published under.
func (c *Client) Datasets(ctx context.Context) ([]string, error) {
	var reply []any
	if err := c.call(ctx, "publish_list", nil, &reply); err != nil {
		return nil, err
	}
	return textList(reply), nil
}

// Unpublish gives up what is published under names.
func (c *Client) Unpublish(ctx context.Context, names ...string) error {
	list := make([]any, len(names))
	for i, n := range names {
		list[i] = n
	}
	return c.call(ctx, "publish_delete", wire.NewDict("names", list, "client", c.id), nil)
}
