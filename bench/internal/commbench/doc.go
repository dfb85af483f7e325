// Package commbench measures package comm between two processes, and Dask's
// distributed.comm beside it: the round trip of a small message, the echo of a large
// one, and what an idle listener with its comms costs.
//
// Every pair is a server and a client process, each of Go (Serve) or of Python
// (bench_comm.py of benchpeer). Both read commands as JSON lines from their
// standard input and answer on their standard output; they end with their input.
package commbench
