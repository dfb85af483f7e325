package state

// Client is one client, or a part of the scheduler that wants keys (variables, queues, published datasets).
// The State owns it; others read it, until the next Apply.
type Client struct {
	id   ClientID
	name string
	// Data is the server's own: the state does not look at it.
	Data any

	wants   []wanted
	removed bool
}

// wanted is a task that a client wants: place is the index in the task's list.
type wanted struct {
	t     *Task
	place int32
}

// ID of the client.
func (c *Client) ID() ClientID { return c.id }

// Name of the client.
func (c *Client) Name() string { return c.name }

// NumWanted is how many keys the client wants, and Wanted the i-th.
func (c *Client) NumWanted() int { return len(c.wants) }

// Wanted is the i-th task that the client wants.
func (c *Client) Wanted(i int) *Task { return c.wants[i].t }
