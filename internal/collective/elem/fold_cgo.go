//go:build cgo

package elem

/*
#cgo CFLAGS: -O3 -std=c11 -Wall
#cgo noescape ms_fold
#cgo nocallback ms_fold
#include "fold.h"
*/
import "C"

import "unsafe"

// foldNative calls vectorized C code and reports whether it did. Below a few hundred bytes a cgo call costs more.
func foldNative(dst, a, b []byte, k Kind, op OpCode) bool {
	if len(dst) < 256 {
		return false
	}
	ok := C.ms_fold(unsafe.Pointer(unsafe.SliceData(dst)), unsafe.Pointer(unsafe.SliceData(a)),
		unsafe.Pointer(unsafe.SliceData(b)), C.size_t(len(dst)/k.Size()), C.int(k), C.int(op))
	return ok != 0
}
