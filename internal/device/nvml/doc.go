// Package nvml reads NVIDIA GPUs from the management library of their driver, libnvidia-ml: what they are, how busy
// they are and how much of their memory is in use. The library is opened at run time, so that programs work without it;
// a program without cgo has none. No function creates a CUDA context.
package nvml
