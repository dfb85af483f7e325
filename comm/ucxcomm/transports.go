package ucxcomm

import "slices"

// Transports names what UCX moves the comm's data with, each transport once and in order: cuda_ipc, posix, tcp, …
// It is for records and diagnosis, found by an interface that comms of other schemes lack. Before the first message
// has gone through, and after the comm's end, it may be incomplete or empty. "staged" is among them where memory of
// GPUs goes beside the lane, through pinned memory.
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
		names = append(names, l.Name)
	}
	if c.lane != nil && c.lane.lines != nil {
		names = append(names, "staged")
	}
	slices.Sort(names)
	return slices.Compact(names)
}
