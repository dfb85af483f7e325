package client

import "go.millstream.dev/client/internal/tracker"

// Cancel cancels tasks that no other client wants: those that wait are not run, the contexts
// of those that run end. Their futures, and those of tasks that depend on them, have
// ErrCanceled.
func (c *Client) Cancel(futures ...AnyFuture) error {
	return c.tracker.Cancel(submitted(futures), false)
}

// ForceCancel cancels tasks even if other clients want them.
func (c *Client) ForceCancel(futures ...AnyFuture) error {
	return c.tracker.Cancel(submitted(futures), true)
}

// submitted returns the states of futures, but for those that were never submitted.
func submitted(futures []AnyFuture) []*tracker.State {
	var states []*tracker.State
	for _, f := range futures {
		if _, s, err := f.state(); err == nil {
			states = append(states, s)
		}
	}
	return states
}
