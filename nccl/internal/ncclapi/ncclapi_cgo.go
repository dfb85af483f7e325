//go:build cgo

package ncclapi

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra
#cgo LDFLAGS: -ldl -lpthread
#include "ncclapi.h"
#include <stdlib.h>

// No function here calls back into Go or keeps a pointer argument.
#cgo noescape ncclapi_load
#cgo nocallback ncclapi_load
#cgo noescape ncclapi_unique_id
#cgo nocallback ncclapi_unique_id
#cgo noescape ncclapi_init
#cgo nocallback ncclapi_init
#cgo noescape ncclapi_split
#cgo nocallback ncclapi_split
#cgo noescape ncclapi_shrink
#cgo nocallback ncclapi_shrink
#cgo noescape ncclapi_async_error
#cgo nocallback ncclapi_async_error
#cgo noescape ncclapi_place
#cgo nocallback ncclapi_place
#cgo noescape ncclapi_register
#cgo nocallback ncclapi_register
#cgo noescape ncclapi_window_register
#cgo nocallback ncclapi_window_register
#cgo noescape ncclapi_premul_sum
#cgo nocallback ncclapi_premul_sum
#cgo noescape ncclapi_run
#cgo nocallback ncclapi_run
*/
import "C"

import (
	"errors"
	"unsafe"
)

// Cgo reports whether this binary can load NCCL.
const Cgo = true

// Load loads a library and looks up its functions. With onlyLoaded it uses one that is already loaded in the process,
// or fails. Call it until it succeeds once, from one goroutine.
func Load(path string, onlyLoaded bool) error {
	p := C.CString(path)
	defer C.free(unsafe.Pointer(p))
	var message [1024]C.char
	var only C.int
	if onlyLoaded {
		only = 1
	}
	if C.ncclapi_load(p, only, &message[0], C.size_t(len(message))) != 0 {
		return errors.New(C.GoString(&message[0]))
	}
	return nil
}

// Path returns the path of the loaded library.
func Path() string { return C.GoString(C.ncclapi_path()) }

// Version returns 10000*major + 100*minor + patch, or less than 1.
func Version() int { return int(C.ncclapi_version()) }

func libraryText(r Result) string { return C.GoString(C.ncclapi_error_text(C.int(r))) }

// LastError returns NCCL's message of the last error of the process.
func LastError(comm uint64) string { return C.GoString(C.ncclapi_last_error(C.uint64_t(comm))) }

// UniqueID creates the id of a new communicator; it opens a socket that ranks connect to.
func UniqueID(id *[128]byte) Result { return Result(C.ncclapi_unique_id(unsafe.Pointer(id))) }

func (s *Settings) c() (c C.ncclapi_settings, free func()) {
	c = C.ncclapi_settings{
		cga_cluster_size: C.int(s.CGAClusterSize), min_ctas: C.int(s.MinCTAs), max_ctas: C.int(s.MaxCTAs),
		split_share: C.int(s.SplitShare),
	}
	if s.NetName == "" {
		return c, func() {}
	}
	c.net_name = C.CString(s.NetName)
	return c, func() { C.free(unsafe.Pointer(c.net_name)) }
}

// Init starts the creation of a communicator; AsyncError reports its completion.
func Init(setCurrent uintptr, device, ranks int, id *[128]byte, rank int, s *Settings) (comm uint64, r Result) {
	c, free := s.c()
	defer free()
	var out C.uint64_t
	r = Result(C.ncclapi_init(C.uintptr_t(setCurrent), C.int(device), C.int(ranks), unsafe.Pointer(id), C.int(rank), &c,
		&out))
	return uint64(out), r
}

// Split starts the creation of a communicator of the ranks with the same color; negative: none. Peek returns it when it
// is complete.
func Split(setCurrent uintptr, device int, comm uint64, color, key int, s *Settings) (cell uint64, r Result) {
	c, free := s.c()
	defer free()
	var out C.uint64_t
	r = Result(C.ncclapi_split(C.uintptr_t(setCurrent), C.int(device), C.uint64_t(comm), C.int(color), C.int(key), &c,
		&out))
	return uint64(out), r
}

// Shrink starts the creation of a communicator without some ranks, like Split.
func Shrink(setCurrent uintptr, device int, comm uint64, without []int32, abort bool, s *Settings) (cell uint64,
	r Result) {
	c, free := s.c()
	defer free()
	var out C.uint64_t
	var force C.int
	if abort {
		force = 1
	}
	r = Result(C.ncclapi_shrink(C.uintptr_t(setCurrent), C.int(device), C.uint64_t(comm),
		(*C.int32_t)(unsafe.SliceData(without)), C.int(len(without)), force, &c, &out))
	return uint64(out), r
}

// Peek returns the communicator of a cell, or 0 while there is none.
func Peek(cell uint64) (comm uint64) { return uint64(C.ncclapi_peek(C.uint64_t(cell))) }

// Free frees a cell that NCCL no longer uses.
func Free(cell uint64) { C.ncclapi_free(C.uint64_t(cell)) }

// Place returns the rank and the number of ranks of a communicator.
func Place(comm uint64) (rank, ranks int, r Result) {
	var a, b C.int
	r = Result(C.ncclapi_place(C.uint64_t(comm), &a, &b))
	return int(a), int(b), r
}

// AsyncError returns the state of a communicator: Success, InProgress, or its error.
func AsyncError(comm uint64) Result {
	var state C.int
	if r := C.ncclapi_async_error(C.uint64_t(comm), &state); r != 0 {
		return Result(r)
	}
	return Result(state)
}

// Finalize starts the end of a communicator; AsyncError reports its completion.
func Finalize(setCurrent uintptr, device int, comm uint64) Result {
	return Result(C.ncclapi_finalize(C.uintptr_t(setCurrent), C.int(device), C.uint64_t(comm)))
}

// Destroy frees a communicator that is finalized.
func Destroy(setCurrent uintptr, device int, comm uint64) Result {
	return Result(C.ncclapi_destroy(C.uintptr_t(setCurrent), C.int(device), C.uint64_t(comm)))
}

// Abort ends all operations of a communicator and frees it.
func Abort(setCurrent uintptr, device int, comm uint64) Result {
	return Result(C.ncclapi_abort(C.uintptr_t(setCurrent), C.int(device), C.uint64_t(comm)))
}

// Register registers memory with a communicator.
func Register(setCurrent uintptr, device int, comm uint64, addr uintptr, n int) (handle uint64, r Result) {
	var out C.uint64_t
	r = Result(C.ncclapi_register(C.uintptr_t(setCurrent), C.int(device), C.uint64_t(comm), C.uint64_t(addr),
		C.size_t(n), &out))
	return uint64(out), r
}

// Deregister undoes Register.
func Deregister(setCurrent uintptr, device int, comm, handle uint64) Result {
	return Result(C.ncclapi_deregister(C.uintptr_t(setCurrent), C.int(device), C.uint64_t(comm), C.uint64_t(handle)))
}

// RegisterWindow starts the registration of memory of all ranks as a window. The result is stored in a cell, which Free
// frees when NCCL no longer uses it; it stays empty if NCCL cannot use the memory.
func RegisterWindow(setCurrent uintptr, device int, comm uint64, addr uintptr, n int) (cell uint64, r Result) {
	var out C.uint64_t
	r = Result(C.ncclapi_window_register(C.uintptr_t(setCurrent), C.int(device), C.uint64_t(comm), C.uint64_t(addr),
		C.size_t(n), &out))
	return uint64(out), r
}

// PeekWindow returns the content of a cell of RegisterWindow.
func PeekWindow(cell uint64) uint64 { return uint64(C.ncclapi_window_peek(C.uint64_t(cell))) }

// DeregisterWindow undoes RegisterWindow.
func DeregisterWindow(setCurrent uintptr, device int, comm, cell uint64) Result {
	return Result(C.ncclapi_window_deregister(C.uintptr_t(setCurrent), C.int(device), C.uint64_t(comm),
		C.uint64_t(cell)))
}

// Has reports whether the library has a kind of operation.
func Has(kind int) bool { return C.ncclapi_has(C.int(kind)) != 0 }

// PreMulSum creates an operation that multiplies by the scalar, of the type's size, and adds.
func PreMulSum(comm uint64, scalar []byte, dataType int) (op int, r Result) {
	var out C.int
	p := C.CBytes(scalar)
	defer C.free(p)
	r = Result(C.ncclapi_premul_sum(C.uint64_t(comm), p, C.int(dataType), &out))
	return int(out), r
}

// RedOpDestroy frees an operation of PreMulSum.
func RedOpDestroy(comm uint64, op int) Result {
	return Result(C.ncclapi_redop_destroy(C.uint64_t(comm), C.int(op)))
}

// Run enqueues operations on a stream in one call: one directly, several as a group.
func Run(setCurrent uintptr, device int, comm uint64, stream uintptr, ops []Op) Result {
	if len(ops) == 0 {
		return Success
	}
	return Result(C.ncclapi_run(C.uintptr_t(setCurrent), C.int(device), C.uint64_t(comm), C.uint64_t(stream),
		(*C.ncclapi_op)(unsafe.Pointer(&ops[0])), C.int(len(ops))))
}

// opSize is compared with the size of the Go struct by a test.
const opSize = C.sizeof_ncclapi_op
