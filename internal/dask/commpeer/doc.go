// Package commpeer has the processes of a pair that exchange Dask messages: each is of Go (Serve) or of Python
// (peers/bench_comm.py of internal/bench/benchpeer), reads commands as JSON lines on its standard input and answers on
// its standard output. `bench comm`, `demo` and the tests of Dask releases use it.
package commpeer

// PeerName is the name of the Python peer on the command line and in figures.
const PeerName = "dask"
