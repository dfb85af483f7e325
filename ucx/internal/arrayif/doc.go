// Package arrayif parses descriptions of arrays that another library owns: the CUDA array interface
// (__cuda_array_interface__ of CuPy, Numba, PyTorch, RMM, cuDF) and DLPack's tensor. It checks that an array is one
// contiguous range of plain bytes, which a transport can move without a copy, and returns it as a [View].
//
// The package never dereferences a pointer: it only computes with addresses whose validity the caller guarantees.
package arrayif
