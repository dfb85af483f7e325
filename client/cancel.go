package client

import (
	"strconv"
	"strings"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
)

// Cancel cancels tasks that no other client wants: those that wait are not run, the contexts
// of those that run end. Their futures, and those of tasks that depend on them, have
// ErrCanceled.
func (c *Client) Cancel(futures ...AnyFuture) error { return c.cancelKeys(false, futures) }

// ForceCancel cancels tasks even if other clients want them.
func (c *Client) ForceCancel(futures ...AnyFuture) error { return c.cancelKeys(true, futures) }

// A cancellation is numbered, and the scheduler repeats reason and number: when its answer
// comes, the key may have been submitted again.
const (
	cancelReason = "cancelled by "
	cancelNumber = "request "
)

// stale tells whether an answer is about a cancellation that was asked for before the key was
// submitted. The caller holds mu.
func (c *Client) stale(ks *keyState, reason, text string) bool {
	if reason != cancelReason+c.id {
		return false
	}
	n, err := strconv.ParseInt(strings.TrimPrefix(text, cancelNumber), 10, 64)
	return err == nil && n <= ks.born
}

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
	c.cancels++
	b = appendField(b, "reason", cancelReason+c.id)
	b = appendField(b, "msg", cancelNumber+strconv.FormatInt(c.cancels, 10))
	c.say(b)
	for _, ks := range states {
		c.cancelKey(ks, "", "")
	}
	return nil
}
