// Package cucount counts the calls of other processes, or of this one, into the CUDA driver, as the dynamic linker sees
// them, independently of the accounting of Millstream or UCX. A small C library is compiled on demand ([Build]) and
// preloaded into a process ([Env]); its counters are read from a file ([Open], [Read]).
//
// Benchmarks and tests use it to show that an operation makes no driver call, or opens no memory of another process.
package cucount
