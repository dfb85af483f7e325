// Package poolbench measures how long a mem.Pool takes to give and take back one buffer, and
// how many calls of the CUDA driver that makes, beside the allocators that Python programs
// use: RMM's pool, the driver's own pool (cudaMallocAsync) and cudaMalloc.
//
// The measured pool is in a process of its own, into which the counter of package cucount is
// preloaded; the peers are in one process of Python. They take turns.
package poolbench
