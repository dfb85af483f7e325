package client

import (
	"context"
	"fmt"

	"go.millstream.dev/wire"
)

// Flag is a named flag that clients and tasks of the cluster set, clear and wait for: Dask's
// Event.
type Flag struct {
	c    *Client
	name string
}

// NewFlag is the flag of a name; it is not set at first.
func NewFlag(c *Client, name string) *Flag { return &Flag{c, name} }

// Set sets it and wakes all who wait.
func (e *Flag) Set(ctx context.Context) error {
	return e.c.call(ctx, "event_set", wire.NewDict("name", e.name), nil)
}

// Clear makes it unset.
func (e *Flag) Clear(ctx context.Context) error {
	return e.c.call(ctx, "event_clear", wire.NewDict("name", e.name), nil)
}

// IsSet tells whether it is set.
func (e *Flag) IsSet(ctx context.Context) (bool, error) {
	var ok bool
	err := e.c.call(ctx, "event_is_set", wire.NewDict("name", e.name), &ok)
	return ok, err
}

// Wait waits until it is set.
func (e *Flag) Wait(ctx context.Context) error {
	var ok bool
	err := e.c.call(ctx, "event_wait", wire.NewDict("name", e.name, "timeout", timeoutOf(ctx)), &ok)
	if err == nil && !ok {
		err = fmt.Errorf("client: event %s: %w", e.name, context.DeadlineExceeded)
	}
	return err
}
