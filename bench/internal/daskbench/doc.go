// Package daskbench implements `millstream bench dask`: Python programs that use Dask, with the scheduler and workers
// of Dask and with those of Millstream. Every round has fresh processes: a scheduler, workers, and a Python client,
// bench_dask.py of benchpeer, which reads JSON lines. Sides alternate; both must compute the same.
//
// The cost of a scheduler is the processor time of its process and of all its descendants, including helpers, as
// counted by the system.
package daskbench
