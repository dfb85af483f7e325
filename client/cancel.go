package client

import (
	"go.millstream.dev/task"
	"go.millstream.dev/wire/msgpack"
)

// Cancel cancels tasks that no other client wants: those that wait are not run, the contexts
// of those that run end. Their futures, and those of tasks that depend on them, have
// ErrCancelled.
func (c *Client) Cancel(futures ...AnyFuture) error { return c.cancelKeys(false, futures) }

// ForceCancel cancels tasks even if other clients want them.
func (c *Client) ForceCancel(futures ...AnyFuture) error { return c.cancelKeys(true, futures) }

func (c *Client) cancelKeys(force bool, futures []AnyFuture) error {
	var keys []task.Key
	var states []*keyState
	for _, f := range futures {
		_, ks, err := f.state()
		if err != nil {
			continue // it was never submitted
		}
		keys, states = append(keys, ks.key), append(states, ks)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed != nil {
		return c.closed
	}
	b := msgpack.AppendMapHeader(nil, 6)
	b = appendField(b, "op", "cancel-keys")
	b = msgpack.AppendString(b, "keys")
	b = task.AppendKeys(b, keys)
	b = appendField(b, "client", c.id)
	b = msgpack.AppendString(b, "force")
	b = msgpack.AppendBool(b, force)
	b = appendField(b, "reason", "cancelled by the client")
	b = appendField(b, "msg", "")
	c.say(b)
	for _, ks := range states {
		c.cancelKey(ks, "", "")
	}
	return nil
}
