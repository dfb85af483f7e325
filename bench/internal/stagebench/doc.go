// Package stagebench measures GPU frames between two processes without a GPU transport: over comms of Millstream, which
// stage them through pinned memory (package staging), and over UCX with cuda_copy and tcp, with defaults and with the
// best of several tunings (ucx_perftest).
//
// A pair consists of two processes (Serve) that read commands as JSON lines from standard input, answer on standard
// output and end with their input. Data is verified before it is timed.
package stagebench
