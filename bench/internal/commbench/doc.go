// Package commbench measures package comm between two processes, and distributed.comm of Dask: the round trip of a
// small message, the echo of a large one, and the cost of an idle listener with its comms.
//
// Every pair is a server and a client process, each in Go (Serve) or Python (bench_comm.py of benchpeer). Both read
// commands as JSON lines from standard input and answer on standard output; they end with their input.
package commbench
