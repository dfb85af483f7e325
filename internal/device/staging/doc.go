// Package staging moves GPU memory over a network that cannot access it: in chunks through pinned host memory, so that
// the copy engine and the network work concurrently.
//
// An [Engine] belongs to a device. Its Send copies chunks into pinned memory, a few ahead of the one being sent; its
// Recv reads into pinned memory and lets the copy engine copy each chunk to the device buffer while the next is read.
// It never waits for a stream or a device, only polls the events of single copies. When Recv returns, the data may
// still be on its way to the device: the buffer's ready event reports its arrival.
//
// A transfer uses one or more stripes at once, [Writer]s on one end and [Reader]s on the other: one TCP connection
// carries less than the loopback interface or a fast network can. Chunk i of a transfer is sent over stripe i modulo
// their number. No header is needed, as both ends know length, chunk size and number of stripes.
//
// Memory is released only when it is no longer in use: an enqueued copy holds both its buffers, also if the transfer
// has failed meanwhile. The package is used by the comms (tcp://, tls://, and ucxx:// between processes without a
// transport for GPUs); see docs/adr/0018.
package staging
