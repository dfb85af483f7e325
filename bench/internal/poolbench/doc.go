// Package poolbench measures how long a mem.Pool takes to allocate and release one buffer, and how many calls of the
// CUDA driver that needs, compared with allocators of Python programs: the pool of RMM, the pool of the driver
// (cudaMallocAsync) and cudaMalloc.
//
// The measured pool is in a separate process with the preloaded counter of package cucount; the peers are in one Python
// process. They alternate.
package poolbench
