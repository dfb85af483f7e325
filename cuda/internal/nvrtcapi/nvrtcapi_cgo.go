//go:build cgo

package nvrtcapi

/*
#cgo CFLAGS: -std=gnu11 -O2 -Wall -Wextra
#cgo LDFLAGS: -ldl
#include <stdlib.h>
#include "nvrtcapi.h"
*/
import "C"

import (
	"errors"
	"unsafe"
)

// Cgo reports whether this binary can load native libraries.
const Cgo = true

// Load loads a library; with onlyIfLoaded only one that is already loaded in the process.
func Load(path string, onlyIfLoaded bool) error {
	name := C.CString(path)
	defer C.free(unsafe.Pointer(name))
	const size = 1024
	message := (*C.char)(C.calloc(1, size))
	defer C.free(unsafe.Pointer(message))
	only := C.int(0)
	if onlyIfLoaded {
		only = 1
	}
	if C.nvrtcapi_load(name, only, message, size) != 0 {
		return errors.New(C.GoString(message))
	}
	return nil
}

// Path returns the path of the loaded library, or "".
func Path() string { return C.GoString(C.nvrtcapi_path()) }

// Version returns the version of the library.
func Version() (major, minor int) {
	var a, b C.int
	if C.nvrtcapi_version(&a, &b) != 0 {
		return 0, 0
	}
	return int(a), int(b)
}

// Text returns the library's name of a result.
func (r Result) Text() string { return C.GoString(C.nvrtcapi_error_text(C.int(r))) }

// texts is a C array of C strings.
type texts struct {
	list []*C.char
	at   **C.char
}

func newTexts(list []string) texts {
	t := texts{at: (**C.char)(C.calloc(C.size_t(len(list)+1), C.size_t(unsafe.Sizeof(uintptr(0)))))}
	t.list = unsafe.Slice(t.at, len(list)+1)
	for i, s := range list {
		t.list[i] = C.CString(s)
	}
	return t
}

func (t texts) free() {
	for _, s := range t.list {
		C.free(unsafe.Pointer(s))
	}
	C.free(unsafe.Pointer(t.at))
}

// Compile compiles one source with its headers to PTX or a cubin.
func Compile(source, name string, headerNames, headers, flags []string, cubin bool) (image []byte, log string,
	r Result) {
	all := []texts{newTexts([]string{source, name}), newTexts(headers), newTexts(headerNames), newTexts(flags)}
	defer func() {
		for _, t := range all {
			t.free()
		}
	}()
	kind := C.int(0)
	if cubin {
		kind = 1
	}
	var code, text *C.char
	var n C.size_t
	r = Result(C.nvrtcapi_compile(all[0].list[0], all[0].list[1], C.int(len(headers)), all[1].at, all[2].at,
		C.int(len(flags)), all[3].at, kind, &code, &n, &text))
	if text != nil {
		log = C.GoString(text)
		C.free(unsafe.Pointer(text))
	}
	if code != nil {
		if r == 0 {
			image = C.GoBytes(unsafe.Pointer(code), C.int(n))
		}
		C.free(unsafe.Pointer(code))
	}
	return image, log, r
}
