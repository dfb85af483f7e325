//go:build cgo

package cudrv

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra
#cgo LDFLAGS: -ldl -lpthread
#include "cudrv.h"

// No function here calls back into Go or keeps a pointer argument, so the out parameters may stay on the goroutine's
// stack.
#cgo noescape cudrv_load
#cgo nocallback cudrv_load
#cgo noescape cudrv_error_text
#cgo nocallback cudrv_error_text
#cgo noescape cudrv_driver_version
#cgo nocallback cudrv_driver_version
#cgo noescape cudrv_device_count
#cgo nocallback cudrv_device_count
#cgo noescape cudrv_device_query
#cgo nocallback cudrv_device_query
#cgo noescape cudrv_can_access_peer
#cgo nocallback cudrv_can_access_peer
#cgo noescape cudrv_primary_state
#cgo nocallback cudrv_primary_state
#cgo noescape cudrv_primary_retain
#cgo nocallback cudrv_primary_retain
#cgo noescape cudrv_mem_info
#cgo nocallback cudrv_mem_info
#cgo noescape cudrv_mem_alloc
#cgo nocallback cudrv_mem_alloc
#cgo noescape cudrv_mem_alloc_managed
#cgo nocallback cudrv_mem_alloc_managed
#cgo noescape cudrv_mem_alloc_host
#cgo nocallback cudrv_mem_alloc_host
#cgo noescape cudrv_mem_alloc_async
#cgo nocallback cudrv_mem_alloc_async
#cgo nocallback cudrv_mem_free
#cgo nocallback cudrv_mem_free_host
#cgo nocallback cudrv_mem_free_async
#cgo nocallback cudrv_host_register
#cgo nocallback cudrv_host_unregister
#cgo noescape cudrv_address_range
#cgo nocallback cudrv_address_range
#cgo noescape cudrv_pointer_query
#cgo nocallback cudrv_pointer_query
#cgo nocallback cudrv_copy
#cgo nocallback cudrv_fill
#cgo noescape cudrv_stream_create
#cgo nocallback cudrv_stream_create
#cgo nocallback cudrv_stream_destroy
#cgo nocallback cudrv_stream_wait
#cgo noescape cudrv_stream_query
#cgo nocallback cudrv_stream_query
#cgo noescape cudrv_event_create
#cgo nocallback cudrv_event_create
#cgo nocallback cudrv_event_destroy
#cgo nocallback cudrv_event_record
#cgo nocallback cudrv_event_query
#cgo noescape cudrv_event_elapsed
#cgo nocallback cudrv_event_elapsed
#cgo noescape cudrv_ipc_get_mem
#cgo nocallback cudrv_ipc_get_mem
#cgo noescape cudrv_ipc_open_mem
#cgo nocallback cudrv_ipc_open_mem
#cgo nocallback cudrv_ipc_close_mem
#cgo noescape cudrv_ipc_get_event
#cgo nocallback cudrv_ipc_get_event
#cgo noescape cudrv_ipc_open_event
#cgo nocallback cudrv_ipc_open_event
*/
import "C"

import "unsafe"

// Load loads libcuda.so.1 and initializes it, once per process; later calls return the same result.
// MILLSTREAM_CUDA_LIBRARY specifies another file. It creates no context.
func Load() error {
	var result C.int
	var message *C.char
	stage := Stage(C.cudrv_load(&result, &message))
	if stage == Loaded {
		return nil
	}
	return &LoadError{Stage: stage, Result: Result(result), Message: C.GoString(message), Path: Path()}
}

// Path returns the path of the loaded driver library, or "".
func Path() string { return C.GoString(C.cudrv_path()) }

func driverText(r Result) (name, text string) {
	var n, t *C.char
	C.cudrv_error_text(C.int(r), &n, &t)
	return C.GoString(n), C.GoString(t)
}

// Hooks returns the addresses of the C functions for hooks.Hooks.
func Hooks() (setCurrent, eventQuery uintptr) {
	return uintptr(unsafe.Pointer(C.cudrv_set_current)), uintptr(unsafe.Pointer(C.cudrv_event_query))
}

// SetCurrent calls the hook of that name.
func SetCurrent(device int) Result { return Result(C.cudrv_set_current(C.int(device))) }

// DriverVersion returns the newest CUDA version that the driver supports, as 1000*major+10*minor.
func DriverVersion() (int, Result) {
	var v C.int
	r := Result(C.cudrv_driver_version(&v))
	return int(v), r
}

// DeviceCount returns the number of devices that CUDA_VISIBLE_DEVICES leaves.
func DeviceCount() (int, Result) {
	var n C.int
	r := Result(C.cudrv_device_count(&n))
	return int(n), r
}

// DeviceQuery returns the description of a device.
func DeviceQuery(device int) (DeviceInfo, Result) {
	var c C.cudrv_device_info
	r := Result(C.cudrv_device_query(C.int(device), &c))
	if r != Success {
		return DeviceInfo{}, r
	}
	return DeviceInfo{
		Name: C.GoString(&c.name[0]), PCIBusID: C.GoString(&c.pci[0]),
		UUID: *(*[16]byte)(unsafe.Pointer(&c.uuid)), InstanceUUID: *(*[16]byte)(unsafe.Pointer(&c.instance_uuid)),
		Total: uint64(c.total), Major: int(c.cc_major), Minor: int(c.cc_minor), Multiprocessors: int(c.multiprocessors),
		Integrated: c.integrated != 0, UnifiedAddressing: c.unified_addressing != 0, Managed: c.managed != 0,
		ConcurrentManaged: c.concurrent_managed != 0, PageableAccess: c.pageable_access != 0,
		MemoryPools: c.memory_pools != 0, GPUDirectRDMA: c.gpu_direct_rdma != 0, IPC: c.ipc != 0,
		NUMANode: int(c.numa_node),
	}, r
}

// CanAccessPeer reports whether device can read and write the memory of peer directly.
func CanAccessPeer(device, peer int) (bool, Result) {
	var yes C.int
	r := Result(C.cudrv_can_access_peer(C.int(device), C.int(peer), &yes))
	return yes != 0, r
}

// PrimaryActive reports whether the device has a primary context in this process.
func PrimaryActive(device int) (bool, Result) {
	var flags C.uint
	var active C.int
	r := Result(C.cudrv_primary_state(C.int(device), &flags, &active))
	return active != 0, r
}

// RetainPrimary creates the device's primary context and returns it (a CUcontext).
func RetainPrimary(device int) (uint64, Result) {
	var ctx C.uint64_t
	r := Result(C.cudrv_primary_retain(C.int(device), &ctx))
	return uint64(ctx), r
}

// MemInfo returns the free and total memory of a device in bytes.
func MemInfo(device int) (free, total uint64, r Result) {
	var f, t C.uint64_t
	r = Result(C.cudrv_mem_info(C.int(device), &f, &t))
	return uint64(f), uint64(t), r
}

// MemAlloc allocates device memory.
func MemAlloc(device, n int) (uint64, Result) {
	var a C.uint64_t
	r := Result(C.cudrv_mem_alloc(C.int(device), C.size_t(n), &a))
	return uint64(a), r
}

// MemAllocManaged allocates unified memory that every device may use.
func MemAllocManaged(device, n int) (uint64, Result) {
	var a C.uint64_t
	r := Result(C.cudrv_mem_alloc_managed(C.int(device), C.size_t(n), &a))
	return uint64(a), r
}

// MemAllocHost allocates page-locked host memory for all contexts.
func MemAllocHost(device, n int) (uint64, Result) {
	var a C.uint64_t
	r := Result(C.cudrv_mem_alloc_host(C.int(device), C.size_t(n), &a))
	return uint64(a), r
}

// MemAllocAsync allocates in stream order and records an event after it.
func MemAllocAsync(device, n int, stream, record uint64) (uint64, Result) {
	var a C.uint64_t
	r := Result(C.cudrv_mem_alloc_async(C.int(device), C.size_t(n), C.uint64_t(stream), C.uint64_t(record), &a))
	return uint64(a), r
}

// MemFree frees device or managed memory.
func MemFree(device int, addr uint64) Result {
	return Result(C.cudrv_mem_free(C.int(device), C.uint64_t(addr)))
}

// MemFreeHost frees memory of MemAllocHost.
func MemFreeHost(device int, addr uint64) Result {
	return Result(C.cudrv_mem_free_host(C.int(device), C.uint64_t(addr)))
}

// HostRegister locks the pages of host memory for copies of all contexts. The memory must not be on Go's heap.
func HostRegister(device int, addr uint64, n int) Result {
	return Result(C.cudrv_host_register(C.int(device), C.uint64_t(addr), C.size_t(n)))
}

// HostUnregister unlocks memory of HostRegister.
func HostUnregister(device int, addr uint64) Result {
	return Result(C.cudrv_host_unregister(C.int(device), C.uint64_t(addr)))
}

// MemFreeAsync frees memory of MemAllocAsync in stream order.
func MemFreeAsync(device int, addr, stream uint64) Result {
	return Result(C.cudrv_mem_free_async(C.int(device), C.uint64_t(addr), C.uint64_t(stream)))
}

// PoolKeep sets how many unused bytes the device's default memory pool keeps.
func PoolKeep(device int, bytes uint64) Result {
	return Result(C.cudrv_pool_keep(C.int(device), C.uint64_t(bytes)))
}

// PoolReserved returns the size of the device's default memory pool in bytes, used or not.
func PoolReserved(device int) (uint64, Result) {
	var n C.uint64_t
	r := Result(C.cudrv_pool_reserved(C.int(device), &n))
	return uint64(n), r
}

// AddressRange returns the allocation that contains addr.
func AddressRange(device int, addr uint64) (base, size uint64, r Result) {
	var b, n C.uint64_t
	r = Result(C.cudrv_address_range(C.int(device), C.uint64_t(addr), &b, &n))
	return uint64(b), uint64(n), r
}

// PointerQuery returns the description of an address of any kind.
func PointerQuery(addr uint64) (PointerInfo, Result) {
	var c C.cudrv_pointer_info
	r := Result(C.cudrv_pointer_query(C.uint64_t(addr), &c))
	return PointerInfo{
		Type: int(c._type), Managed: c.managed != 0, Device: int(c.device), IPC: c.ipc != 0,
		Base: uint64(c.base), Size: uint64(c.size), Host: uint64(c.host),
	}, r
}

// Copy enqueues: wait for two events (0: none), copy, record an event (0: none). The kinds of memory are determined
// from the addresses.
func Copy(device int, dst, src uint64, n int, stream, wait1, wait2, record uint64) Result {
	return Result(C.cudrv_copy(C.int(device), C.uint64_t(dst), C.uint64_t(src), C.size_t(n),
		C.uint64_t(stream), C.uint64_t(wait1), C.uint64_t(wait2), C.uint64_t(record)))
}

// CopyRows enqueues: copy rows of pinned host memory, pitch bytes apart, to adjacent device memory, record an event (0:
// none).
func CopyRows(device int, dst, src uint64, width, pitch, rows int, stream, record uint64) Result {
	return Result(C.cudrv_copy_rows(C.int(device), C.uint64_t(dst), C.uint64_t(src), C.size_t(width),
		C.size_t(pitch), C.size_t(rows), C.uint64_t(stream), C.uint64_t(record)))
}

// Fill enqueues: wait for an event (0: none), set n bytes, record an event (0: none).
func Fill(device int, dst uint64, value byte, n int, stream, wait, record uint64) Result {
	return Result(C.cudrv_fill(C.int(device), C.uint64_t(dst), C.uchar(value), C.size_t(n),
		C.uint64_t(stream), C.uint64_t(wait), C.uint64_t(record)))
}

// StreamCreate creates a stream; a lower priority number is served first.
func StreamCreate(device int, flags uint, priority int) (uint64, Result) {
	var s C.uint64_t
	r := Result(C.cudrv_stream_create(C.int(device), C.uint(flags), C.int(priority), &s))
	return uint64(s), r
}

// StreamDestroy returns immediately; enqueued work still runs.
func StreamDestroy(device int, stream uint64) Result {
	return Result(C.cudrv_stream_destroy(C.int(device), C.uint64_t(stream)))
}

// StreamWait makes later work of the stream wait for an event, on the device.
func StreamWait(device int, stream, event uint64) Result {
	return Result(C.cudrv_stream_wait(C.int(device), C.uint64_t(stream), C.uint64_t(event)))
}

// StreamQuery reports whether all work of the stream has finished.
func StreamQuery(device int, stream uint64) (bool, Result) {
	var busy C.int
	r := Result(C.cudrv_stream_query(C.int(device), C.uint64_t(stream), &busy))
	return r == Success && busy == 0, r
}

// EventCreate creates an event.
func EventCreate(device int, flags uint) (uint64, Result) {
	var e C.uint64_t
	r := Result(C.cudrv_event_create(C.int(device), C.uint(flags), &e))
	return uint64(e), r
}

// EventDestroy destroys an event; its resources are freed when it completes.
func EventDestroy(device int, event uint64) Result {
	return Result(C.cudrv_event_destroy(C.int(device), C.uint64_t(event)))
}

// EventRecord records the work enqueued so far.
func EventRecord(device int, event, stream uint64) Result {
	return Result(C.cudrv_event_record(C.int(device), C.uint64_t(event), C.uint64_t(stream)))
}

// EventQuery reports whether the recorded work has finished. It calls the hook.
func EventQuery(event uint64) (bool, Result) {
	rc := C.cudrv_event_query(*(*unsafe.Pointer)(unsafe.Pointer(&event)))
	switch {
	case rc == 0:
		return true, Success
	case rc > 0:
		return false, Success
	}
	return false, Result(-rc)
}

// EventElapsed returns the time between two events in milliseconds.
func EventElapsed(device int, start, end uint64) (float32, Result) {
	var ms C.float
	r := Result(C.cudrv_event_elapsed(C.int(device), C.uint64_t(start), C.uint64_t(end), &ms))
	return float32(ms), r
}

func handleC(h *[64]byte) *C.uchar { return (*C.uchar)(unsafe.Pointer(&h[0])) }

// IPCGetMem exports the allocation that begins at addr.
func IPCGetMem(device int, addr uint64) (h [64]byte, r Result) {
	r = Result(C.cudrv_ipc_get_mem(C.int(device), C.uint64_t(addr), handleC(&h)))
	return h, r
}

// IPCOpenMem maps another process's allocation.
func IPCOpenMem(device int, h [64]byte) (uint64, Result) {
	var a C.uint64_t
	r := Result(C.cudrv_ipc_open_mem(C.int(device), handleC(&h), &a))
	return uint64(a), r
}

// IPCCloseMem unmaps it.
func IPCCloseMem(device int, addr uint64) Result {
	return Result(C.cudrv_ipc_close_mem(C.int(device), C.uint64_t(addr)))
}

// IPCGetEvent exports an event made with EventInterprocess.
func IPCGetEvent(device int, event uint64) (h [64]byte, r Result) {
	r = Result(C.cudrv_ipc_get_event(C.int(device), C.uint64_t(event), handleC(&h)))
	return h, r
}

// IPCOpenEvent opens another process's event.
func IPCOpenEvent(device int, h [64]byte) (uint64, Result) {
	var e C.uint64_t
	r := Result(C.cudrv_ipc_open_event(C.int(device), handleC(&h), &e))
	return uint64(e), r
}
