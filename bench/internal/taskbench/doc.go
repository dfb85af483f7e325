// Package taskbench measures tasks of a cluster, and compares with Dask: no-op tasks, trees, random graphs, the latency
// of one task and of a chain, the scheduler alone, fetches between workers and a shuffle.
//
// Each side of a comparison is one process with a client and a scheduler, which starts its workers as further
// processes, in Go (Serve) or Python (bench_tasks.py of benchpeer). Both read commands as JSON lines from standard
// input and answer on standard output; they end with their input. Every round has a fresh process, and only one side
// runs at a time.
package taskbench
