//go:build cgo

package ucp

/*
#cgo CFLAGS: -O2 -std=gnu11 -Wall
#cgo LDFLAGS: -ldl
#cgo noescape ms_drive_at
#cgo nocallback ms_drive_at
#cgo noescape ms_leave_at
#cgo nocallback ms_leave_at
#cgo noescape ms_block
#cgo nocallback ms_block
#include <stdlib.h>
#include "shim.h"

static int ms_drive_at(uintptr_t w, uintptr_t own, int64_t spin_ns)
{
	return ms_drive((ms_worker *)w, (ms_slot *)own, spin_ns);
}

static int ms_leave_at(uintptr_t w)
{
	return ms_leave((ms_worker *)w);
}
*/
import "C"

import (
	"fmt"
	"sync"
	"unsafe"
)

// Cgo reports whether native code was compiled in.
const Cgo = true

var loadMu sync.Mutex

// Load opens libucp at path ("" is not allowed; a bare name uses the system's search path). With onlyLoaded it finds a
// library that is already loaded in the process and fails otherwise. The first success is used for the life of the
// process.
func Load(path string, onlyLoaded bool) error {
	loadMu.Lock()
	defer loadMu.Unlock()
	cpath := C.CString(path)
	defer C.free(unsafe.Pointer(cpath))
	var msg [512]C.char
	only := C.int(0)
	if onlyLoaded {
		only = 1
	}
	if C.ms_load(cpath, only, &msg[0], C.size_t(len(msg))) != 0 {
		return fmt.Errorf("%s: %s", path, C.GoString(&msg[0]))
	}
	return nil
}

// Setenv sets a variable in C's environment, which libraries read. Go's own os.Setenv does so too, but a variable that
// was set before main is seen here as C sees it.
func Setenv(name, value string) {
	n, v := C.CString(name), C.CString(value)
	C.setenv(n, v, 1)
	C.free(unsafe.Pointer(n))
	C.free(unsafe.Pointer(v))
}

// LoadedPath returns the absolute path of the loaded library.
func LoadedPath() string {
	var buf [4096]C.char
	if C.ms_loaded_path(&buf[0], C.size_t(len(buf))) != 0 {
		return ""
	}
	return C.GoString(&buf[0])
}

// Quarantined returns how many of UCX's functions that free memory were redirected through quarantine.c; 0 means that
// the library is unmodified.
func Quarantined() int { return int(C.ms_quarantined()) }

// Version returns the loaded library's version.
func Version() (major, minor, release int) {
	var a, b, c C.uint
	C.ms_version(&a, &b, &c)
	return int(a), int(b), int(c)
}

// DeviceHooks passes C function pointers of package cuda to the shim.
func DeviceHooks(setCurrent, eventQuery uintptr) {
	C.ms_device_hooks(cptr(setCurrent), cptr(eventQuery))
}

// MarkCloseOnExec marks every descriptor above stderr close-on-exec.
func MarkCloseOnExec() { C.ms_mark_cloexec() }

// cptr converts a C address that Go holds as an integer into a C pointer.
func cptr(p uintptr) unsafe.Pointer { return *(*unsafe.Pointer)(unsafe.Pointer(&p)) }

// Config is a ucp_config_t.
type Config struct{ h unsafe.Pointer }

// ReadConfig reads the effective options from defaults, files and UCX_* variables.
func ReadConfig() (*Config, int) {
	var h unsafe.Pointer
	if s := C.ms_config_read(&h); s != 0 {
		return nil, int(s)
	}
	return &Config{h}, 0
}

// Modify sets one option, named without the UCX_ prefix.
func (c *Config) Modify(name, value string) int {
	n, v := C.CString(name), C.CString(value)
	defer C.free(unsafe.Pointer(n))
	defer C.free(unsafe.Pointer(v))
	return int(C.ms_config_modify(c.h, n, v))
}

// Text returns the options as UCX prints them, one NAME=value per line.
func (c *Config) Text() string { return takeText(C.ms_config_text(c.h)) }

// Release frees the configuration.
func (c *Config) Release() { C.ms_config_release(c.h) }

func takeText(p *C.char) string {
	if p == nil {
		return ""
	}
	defer C.free(unsafe.Pointer(p))
	return C.GoString(p)
}

// TakeText copies and frees a malloc'd text whose address a call put into a slot.
func TakeText(addr uint64) string { return takeText((*C.char)(cptr(uintptr(addr)))) }

// Context is a ucp_context_h.
type Context struct{ h unsafe.Pointer }

// NewContext creates a context; status is a ucs_status_t.
func NewContext(cfg *Config, features uint64, name string, numEPs int) (*Context, int) {
	var cname *C.char
	if name != "" {
		cname = C.CString(name)
		defer C.free(unsafe.Pointer(cname))
	}
	var h unsafe.Pointer
	s := C.ms_context_new(cfg.h, C.uint64_t(features), cname, C.uint64_t(numEPs), &h)
	C.ms_mark_cloexec()
	if s != 0 {
		return nil, int(s)
	}
	return &Context{h}, 0
}

// Free destroys the context; its workers must be gone.
func (c *Context) Free() { C.ms_context_free(c.h) }

// Text returns UCX's description of the context's memory domains and transports.
func (c *Context) Text() string { return takeText(C.ms_context_text(c.h)) }

// Query returns the memory types as a bit set, the thread mode and the name.
func (c *Context) Query() (memoryTypes uint64, threadMode int, name string, status int) {
	var mt C.uint64_t
	var tm C.uint32_t
	var n [32]C.char
	s := C.ms_context_query(c.h, &mt, &tm, &n[0])
	return uint64(mt), int(tm), C.GoString(&n[0]), int(s)
}

// MemMap registers [addr, addr+n), or allocates n bytes when allocate is set. memType -1 lets UCX detect it; device -1
// is host memory.
func (c *Context) MemMap(addr uintptr, n uint64, memType, device int, allocate bool) (memh unsafe.Pointer,
	base uintptr, status int) {
	var flags C.uint32_t
	if allocate {
		flags |= 1
	}
	var h, out unsafe.Pointer
	var outLen C.uint64_t
	s := C.ms_mem_map(c.h, cptr(addr), C.uint64_t(n), C.int32_t(memType), C.int32_t(device), flags, &h, &out, &outLen)
	return h, uintptr(out), int(s)
}

// MemUnmap ends a registration, and frees the memory if MemMap allocated it.
func (c *Context) MemUnmap(memh unsafe.Pointer, device int) int {
	return int(C.ms_mem_unmap(c.h, memh, C.int32_t(device)))
}

// RkeyPack returns the key with which a peer accesses the registered memory.
func (c *Context) RkeyPack(memh unsafe.Pointer, device int) ([]byte, int) {
	var buf unsafe.Pointer
	var n C.size_t
	if s := C.ms_rkey_pack(c.h, memh, C.int32_t(device), &buf, &n); s != 0 {
		return nil, int(s)
	}
	defer C.ms_rkey_buffer_release(buf)
	return C.GoBytes(buf, C.int(n)), 0
}

// NewWorker creates a worker in the given thread mode; wakeup requests its event descriptor.
func NewWorker(c *Context, threadMode int, name string, wakeup bool) (*Worker, int) {
	var cname *C.char
	if name != "" {
		cname = C.CString(name)
		defer C.free(unsafe.Pointer(cname))
	}
	wake := C.int(0)
	if wakeup {
		wake = 1
	}
	var w *C.ms_worker
	s := C.ms_worker_new(c.h, C.uint32_t(threadMode), cname, wake, &w)
	C.ms_mark_cloexec()
	if s != 0 {
		return nil, int(s)
	}
	return (*Worker)(unsafe.Pointer(w)), 0
}

// DestroyWorker destroys the UCX worker. The caller holds the token permanently; the struct stays until FreeWorker, so
// that late callers find the token taken. With tags, which its context must have, messages that were not received are
// dropped silently.
func DestroyWorker(w *Worker, tags bool) {
	drop := C.int(0)
	if tags {
		drop = 1
	}
	C.ms_worker_destroy((*C.ms_worker)(unsafe.Pointer(w)), drop)
}

// FreeWorker frees the struct of a destroyed worker that is no longer referenced.
func FreeWorker(w *Worker) { C.ms_worker_free((*C.ms_worker)(unsafe.Pointer(w))) }

// QueryWorker returns the granted thread mode and the longest active-message header.
func QueryWorker(w *Worker) (threadMode int, maxAMHeader uint64, status int) {
	var tm C.uint32_t
	var h C.uint64_t
	s := C.ms_worker_query((*C.ms_worker)(unsafe.Pointer(w)), &tm, &h)
	return int(tm), uint64(h), int(s)
}

// ShutAMIDs is ms_am_shut_ids; the worker must not be shared yet.
func ShutAMIDs(w *Worker) int { return int(C.ms_am_shut_ids((*C.ms_worker)(unsafe.Pointer(w)))) }

// The worker and its slots are C memory. The frequent calls pass them as integers: cgo examines every pointer argument,
// which costs as much as the rest of the call.

// Drive is ms_drive.
func Drive(w *Worker, own *Slot, spinNS int64) int {
	return int(C.ms_drive_at(C.uintptr_t(uintptr(unsafe.Pointer(w))), C.uintptr_t(uintptr(unsafe.Pointer(own))),
		C.int64_t(spinNS)))
}

// Leave is ms_leave.
func Leave(w *Worker) int { return int(C.ms_leave_at(C.uintptr_t(uintptr(unsafe.Pointer(w))))) }

// Block is ms_block.
func Block(w *Worker, timeoutMS int) int {
	return int(C.ms_block((*C.ms_worker)(unsafe.Pointer(w)), C.int(timeoutMS)))
}

// NewSlots allocates n slots with consecutive indices, contiguous in memory.
func NewSlots(w *Worker, first, n int) []Slot {
	p := C.ms_slots_new((*C.ms_worker)(unsafe.Pointer(w)), C.uint32_t(first), C.uint32_t(n))
	if p == nil {
		return nil
	}
	return unsafe.Slice((*Slot)(unsafe.Pointer(p)), n)
}

// FreeSlots frees what NewSlots returned.
func FreeSlots(s []Slot) { C.ms_slots_free((*C.ms_slot)(unsafe.Pointer(&s[0]))) }

// FreeEvent frees an event; the caller holds the token. A small message is returned to the spare events without a
// call into C, as ms_event_free does it.
func FreeEvent(w *Worker, e *Event) {
	if e.Type == EventAM && e.AMKind == AMCopy && e.Spare != 0 && w.EvSpares < spareEvents {
		w.AMQueued -= uint64(e.HdrLen) + e.Len
		e.Next, w.EvSpare = w.EvSpare, e
		w.EvSpares++
		return
	}
	C.ms_event_free((*C.ms_worker)(unsafe.Pointer(w)), (*C.ms_event)(unsafe.Pointer(e)))
}

// BorrowEP wraps a ucp_ep_h that UCX owns; the caller holds the token.
func BorrowEP(w *Worker, h unsafe.Pointer) *EP {
	return (*EP)(unsafe.Pointer(C.ms_ep_borrow((*C.ms_worker)(unsafe.Pointer(w)), h)))
}

// EPNumber returns the number of the open endpoint that has UCX's handle h, or 0; the
// caller holds the token.
func EPNumber(w *Worker, h unsafe.Pointer) uint64 {
	return uint64(C.ms_ep_id((*C.ms_worker)(unsafe.Pointer(w)), h))
}

// CallPointer returns the C function of a call.
func CallPointer(c Call) unsafe.Pointer { return unsafe.Pointer(C.ms_call_by_number(C.int(c))) }

// Malloc allocates C memory; it never returns nil.
func Malloc(n int) unsafe.Pointer { return C.malloc(C.size_t(max(n, 1))) }

// FreeMemory frees what Malloc returned.
func FreeMemory(p unsafe.Pointer) { C.free(p) }
