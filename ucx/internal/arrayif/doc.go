// Package arrayif reads descriptions of arrays that another library owns: the CUDA
// array interface (__cuda_array_interface__ of CuPy, Numba, PyTorch, RMM, cuDF) and
// DLPack's tensor. It checks that an array is one contiguous run of plain bytes,
// which is what a transport can move without a copy, and returns it as a [View].
//
// The package never follows a pointer: it computes with addresses that somebody
// else guarantees.
package arrayif
