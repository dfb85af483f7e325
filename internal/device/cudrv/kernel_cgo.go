//go:build cgo

package cudrv

/*
#include <stdlib.h>
#include "cudrv.h"

#cgo noescape cudrv_buffer_id
#cgo nocallback cudrv_buffer_id
#cgo noescape cudrv_module_load
#cgo nocallback cudrv_module_load
#cgo nocallback cudrv_module_unload
#cgo noescape cudrv_module_function
#cgo nocallback cudrv_module_function
#cgo noescape cudrv_function_query
#cgo nocallback cudrv_function_query
#cgo nocallback cudrv_function_set_shared
#cgo noescape cudrv_function_blocks
#cgo nocallback cudrv_function_blocks
#cgo noescape cudrv_launch_kernel
#cgo nocallback cudrv_launch_kernel
*/
import "C"

import "unsafe"

// The layouts of Launch and cudrv_launch agree.
var (
	_ [unsafe.Sizeof(Launch{})]struct{}            = [C.sizeof_cudrv_launch]struct{}{}
	_ [unsafe.Offsetof(Launch{}.At)]struct{}       = [unsafe.Offsetof(C.cudrv_launch{}.at)]struct{}{}
	_ [unsafe.Offsetof(Launch{}.Function)]struct{} = [unsafe.Offsetof(C.cudrv_launch{}.function)]struct{}{}
	_ [MaxParameters]struct{}                      = [C.CUDRV_MAX_PARAMETERS]struct{}{}
)

// ModuleLoad loads PTX (terminated by a zero byte), a cubin or a fatbin. log has the messages of the driver's compiler.
func ModuleLoad(device int, image []byte) (module uint64, log string, r Result) {
	const size = 16 << 10
	text := (*C.char)(C.calloc(1, size))
	defer C.free(unsafe.Pointer(text))
	var m C.uint64_t
	r = Result(C.cudrv_module_load(C.int(device), unsafe.Pointer(unsafe.SliceData(image)), &m, text, size-1))
	return uint64(m), C.GoString(text), r
}

// ModuleUnload unloads a module and its functions.
func ModuleUnload(device int, module uint64) Result {
	return Result(C.cudrv_module_unload(C.int(device), C.uint64_t(module)))
}

// ModuleFunction returns a kernel by its name.
func ModuleFunction(device int, module uint64, name string) (uint64, Result) {
	text := C.CString(name)
	defer C.free(unsafe.Pointer(text))
	var f C.uint64_t
	r := Result(C.cudrv_module_function(C.int(device), C.uint64_t(module), text, &f))
	return uint64(f), r
}

// FunctionQuery returns the description of a kernel.
func FunctionQuery(device int, function uint64) (FunctionInfo, Result) {
	var c C.cudrv_function_info
	r := Result(C.cudrv_function_query(C.int(device), C.uint64_t(function), &c))
	return FunctionInfo{int(c.max_threads), int(c.shared_bytes), int(c.registers), int(c.dynamic_shared)}, r
}

// FunctionSetShared allows launches with bytes bytes of dynamic shared memory.
func FunctionSetShared(device int, function uint64, bytes int) Result {
	return Result(C.cudrv_function_set_shared(C.int(device), C.uint64_t(function), C.int(bytes)))
}

// FunctionBlocks returns how many blocks of that size run on one multiprocessor at once.
func FunctionBlocks(device int, function uint64, block, shared int) (int, Result) {
	var n C.int
	r := Result(C.cudrv_function_blocks(C.int(device), C.uint64_t(function), C.int(block), C.size_t(shared), &n))
	return int(n), r
}

// LaunchKernel enqueues: wait for the events, launch, record an event. It copies values.
func LaunchKernel(device int, l *Launch, values []byte, waits []uint64) Result {
	return Result(C.cudrv_launch_kernel(C.int(device), (*C.cudrv_launch)(unsafe.Pointer(l)),
		(*C.uchar)(unsafe.SliceData(values)), (*C.uint64_t)(unsafe.SliceData(waits))))
}

// BufferID returns a number that is unique among all allocations of this process, past and present, for the one that
// contains addr.
func BufferID(device int, addr uint64) (uint64, Result) {
	var id C.uint64_t
	r := Result(C.cudrv_buffer_id(C.int(device), C.uint64_t(addr), &id))
	return uint64(id), r
}
