package ucxcomm

import "slices"

// Transports returns the names of the transports of the comm, each once and in order: cuda_ipc, posix, tcp, … It is for
// diagnosis, found by a type assertion, since comms of other schemes do not have it. Before the first message has been
// delivered, and after the comm's end, it may be incomplete or empty. It contains "staged" if GPU memory is sent over
// stripes through pinned memory, and "stripes" if large frames in host memory are sent over such connections.
func (c *conn) Transports() []string {
	ep := c.tagged.raw()
	if c.data != nil {
		ep = c.data.ep
	}
	transports, err := ep.Transports()
	if err != nil {
		return nil
	}
	var names []string
	for _, l := range transports {
		names = append(names, l.Name)
	}
	if c.data != nil && c.data.stripes != nil {
		names = append(names, "staged")
	}
	if c.data != nil && c.data.large.isOpen() {
		names = append(names, "stripes")
	}
	slices.Sort(names)
	return slices.Compact(names)
}
