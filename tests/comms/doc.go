// Package comms holds the tests of libmillstream: as a C library, and with Python workers of Dask clusters through
// class Comms of the Python package. They build the library with go build -buildmode=c-shared.
package comms
