package ucxcomm

import "slices"

// Transports names what UCX moves the comm's data with, each transport once and in order: cuda_ipc, posix, tcp, …
// It is for records and diagnosis, found by an interface that comms of other schemes lack. Before the first message
// has gone through, and after the comm's end, it may be incomplete or empty.
func (c *conn) Transports() []string {
	ep := c.meeting.raw()
	if c.lane != nil {
		ep = c.lane.ep
	}
	lanes, err := ep.Transports()
	if err != nil {
		return nil
	}
	var names []string
	for _, l := range lanes {
		names = append(names, l.Transport)
	}
	slices.Sort(names)
	return slices.Compact(names)
}
