package client

import "go.millstream.dev/client/internal/tracker"

// Cancel cancels tasks that no other client needs: waiting tasks are not run, and the contexts of running ones end.
// Their futures, and those of tasks that depend on them, return ErrCanceled.
func (c *Client) Cancel(futures ...AnyFuture) error {
	return c.tracker.Cancel(statesOfSubmitted(futures), false)
}

// ForceCancel cancels tasks even if other clients need them.
func (c *Client) ForceCancel(futures ...AnyFuture) error {
	return c.tracker.Cancel(statesOfSubmitted(futures), true)
}

// statesOfSubmitted returns the states of futures without those whose tasks were never submitted.
func statesOfSubmitted(futures []AnyFuture) []*tracker.State {
	var states []*tracker.State
	for _, f := range futures {
		if _, s, err := f.state(); err == nil {
			states = append(states, s)
		}
	}
	return states
}
