// Package daskbench is the engine of `millstream bench dask`: Python programs that use Dask, once on Dask's scheduler
// with Dask's workers and once on Millstream's. Every round has fresh processes: a scheduler, workers, and a Python
// client, bench_dask.py of benchpeer, which is driven by JSON lines. Sides take turns; both must compute the same.
//
// What the scheduler costs is the processor time of its process and of all that it has started, helpers included, as
// the system counts it.
package daskbench
