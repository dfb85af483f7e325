// Package commpeer runs pairs of processes that exchange Dask messages: each is a Go process (Serve) or a Python
// process (peers/bench_comm.py of internal/bench/benchpeer), reads commands as JSON lines from its standard input and
// writes replies to its standard output. `bench comm`, `demo` and the tests of Dask releases use it.
package commpeer

// PeerName is the name of the Python peer on the command line and in results.
const PeerName = "dask"
