// Package comm connects processes with whole messages, as Dask's distributed.comm does:
// tcp://, tls://, inproc://, ucx:// and ucxx:// addresses behind one interface.
package comm
