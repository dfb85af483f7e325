// Package staging moves memory of a GPU over a network that cannot touch it: in chunks through pinned host memory, so
// that the copy engine and the network work at the same time.
//
// An [Engine] belongs to a device. Its Send copies one chunk after the other into pinned memory, a few ahead of the one
// that is on the wire; its Recv reads from the wire into pinned memory and lets the copy engine take each chunk on into
// the device buffer while the next is read. Nothing waits for a stream or a device, only for the events of single
// copies, by asking. What Recv returns may still be on its way into the device: the buffer's ready event says when it
// is there.
//
// A transfer goes over one or more lines at once, [Writer]s on one end and [Reader]s on the other: one TCP connection
// carries less than the loopback interface or a fast network can. Chunk i of a transfer goes over line i modulo their
// number. No header is needed, as both ends know length, chunk size and number of lines.
//
// Memory is given back only when nobody uses it any more: a copy that is enqueued holds both its buffers, also if the
// transfer has failed in between. The package is used by the comms (tcp://, tls://, and ucxx:// between processes that
// have no lane for GPUs); docs/adr/0018 says why it exists.
package staging
