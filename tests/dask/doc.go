// Package dask holds the tests of Millstream's client, worker and scheduler among Dask's own processes. Package rig
// starts them; the programs of Python are in peers. scripts/setup peers installs Dask; without it the tests fail.
package dask
