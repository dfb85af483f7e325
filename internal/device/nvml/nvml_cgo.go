//go:build cgo

package nvml

/*
#cgo CFLAGS: -std=gnu11 -D_GNU_SOURCE -O2 -Wall -Wextra
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "nvml.h"
*/
import "C"

import (
	"fmt"
	"os"
	"sync"
	"unsafe"
)

// places are the files that Open tries. WSL has the driver in a folder that the dynamic linker does not search.
var places = []string{"libnvidia-ml.so.1", "/usr/lib/wsl/lib/libnvidia-ml.so.1"}

// Library is the open library. It is safe for concurrent use.
type Library struct {
	c    *C.nvml_library
	once sync.Once
	err  error // of Close
}

// Device is a GPU or a MIG instance of a Library. It is valid until the library is closed; later calls return errors.
type Device struct {
	l      *Library
	handle C.uint64_t
}

// Open loads and initializes the library, which takes some 10 ms on a machine with a GPU. Without an NVIDIA driver it
// returns an error that wraps ErrUnavailable.
func Open() (*Library, error) {
	files := places
	if f := os.Getenv(Variable); f != "" {
		files = []string{f}
	}
	var first string
	for _, f := range files {
		path := C.CString(f)
		var message [512]C.char
		l := C.nvml_open(path, &message[0], C.int(len(message)))
		C.free(unsafe.Pointer(path))
		if l != nil {
			return &Library{c: l}, nil
		}
		if first == "" {
			first = C.GoString(&message[0])
		}
	}
	return nil, fmt.Errorf("%w: %s; install the NVIDIA driver, or start the container with --gpus", ErrUnavailable,
		first)
}

// Close shuts the library down. It may be called twice.
func (l *Library) Close() error {
	l.once.Do(func() { l.err = l.check("shut down", C.nvml_close(l.c)) })
	return l.err
}

func (l *Library) check(op string, code C.int) error {
	if Return(code) == Success {
		return nil
	}
	return &Error{Op: op, Code: Return(code), Text: C.GoString(C.nvml_text(l.c, code))}
}

func (l *Library) count() (int, error) {
	var n C.uint
	err := l.check("count GPUs", C.nvml_count(l.c, &n))
	return int(n), err
}

// ByIndex returns a GPU by its index, in the order of PCI addresses.
func (l *Library) ByIndex(i int) (Device, error) {
	d := Device{l: l}
	err := l.check(fmt.Sprintf("find GPU %d", i), C.nvml_by_index(l.c, C.uint(i), &d.handle))
	return d, err
}

// ByUUID returns the GPU or MIG instance with a UUID, such as "GPU-…" or "MIG-…".
func (l *Library) ByUUID(uuid string) (Device, error) {
	d := Device{l: l}
	text := C.CString(uuid)
	defer C.free(unsafe.Pointer(text))
	err := l.check("find "+uuid, C.nvml_by_uuid(l.c, text, &d.handle))
	return d, err
}

// UUID returns the UUID of the device.
func (d Device) UUID() (string, error) {
	var b [96]C.char
	err := d.l.check("read UUID", C.nvml_uuid(d.l.c, d.handle, &b[0], C.uint(len(b))))
	return text(b[:]), err
}

// Name returns the model of the device.
func (d Device) Name() (string, error) {
	var b [96]C.char
	err := d.l.check("read name", C.nvml_name(d.l.c, d.handle, &b[0], C.uint(len(b))))
	return text(b[:]), err
}

// text returns the string in a buffer, which a broken driver may leave without its end.
func text(b []C.char) string {
	b[len(b)-1] = 0
	return C.GoString(&b[0])
}

func (d Device) address() (string, error) {
	var b [32]C.char
	err := d.l.check("read PCI address", C.nvml_address(d.l.c, d.handle, &b[0], C.uint(len(b))))
	return text(b[:]), err
}

func (d Device) memory() (used, total int64, err error) {
	var u, t C.uint64_t
	err = d.l.check("read memory", C.nvml_memory(d.l.c, d.handle, &u, &t))
	return size(uint64(u)), size(uint64(t)), err
}

func (d Device) utilization() (int, error) {
	var n C.uint
	err := d.l.check("read utilization", C.nvml_utilization(d.l.c, d.handle, &n))
	return int(n), err
}

func (d Device) link(i int) (bool, error) {
	var active C.uint
	err := d.l.check("read NVLink", C.nvml_link(d.l.c, d.handle, C.uint(i), &active))
	return active != 0, err
}

func (d Device) migEnabled() bool {
	var enabled C.uint
	return C.nvml_mig_mode(d.l.c, d.handle, &enabled) == 0 && enabled == 1
}

// maxInstances bounds the MIG instances of a GPU.
const maxInstances = 64

func (d Device) instances() (int, error) {
	var n C.uint
	err := d.l.check("count MIG instances", C.nvml_mig_count(d.l.c, d.handle, &n))
	return min(int(n), maxInstances), err
}

func (d Device) instance(i int) (Device, error) {
	part := Device{l: d.l}
	code := C.nvml_mig_device(d.l.c, d.handle, C.uint(i), &part.handle)
	return part, d.l.check(fmt.Sprintf("find MIG instance %d", i), code)
}

func (d Device) instanceIDs() (gpu, compute int, err error) {
	var g, c C.uint
	err = d.l.check("read numbers of MIG instance", C.nvml_mig_ids(d.l.c, d.handle, &g, &c))
	return int(g), int(c), err
}
