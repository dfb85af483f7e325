// Package stagebench measures frames on a GPU between two processes that have no lane for GPUs: over Millstream's
// comms, which stage them through pinned memory (package staging), and beside them UCX's own way by cuda_copy and tcp,
// as it comes and with the best of several tunings (ucx_perftest).
//
// A pair of ours is two processes (Serve) that read commands as JSON lines from their standard input, answer on their
// standard output and end with their input. Data is checked before it is timed.
package stagebench
