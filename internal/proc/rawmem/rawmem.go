// Package rawmem allocates memory of the Go heap for data that is about to be received.
package rawmem

import (
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	// rawFrom is the length in bytes from which clearing costs more than it is worth to avoid it.
	rawFrom = 32 << 10
	// hugeFrom is the length in bytes from which huge pages are requested.
	hugeFrom = 1 << 20
	// hugePage is the size of a huge page in bytes.
	hugePage = 2 << 20
)

// Alloc returns n bytes of Go heap memory with undefined content, on huge pages if it is large and the kernel has them.
// The caller overwrites all of it or drops it.
//
// Clearing memory before it is overwritten takes a fifth of the time of an echo of 100 MiB over the loopback interface,
// and the first access to 64 MiB of small pages takes longer than copying them.
func Alloc(n int) []byte {
	if n < rawFrom {
		return make([]byte, n)
	}
	if b := blocks.alloc(n); b != nil {
		return b
	}
	return fresh(n)
}

// fresh returns n bytes of new memory.
func fresh(n int) []byte {
	// strings.Builder is the only part of the standard library that returns memory that is not cleared.
	var s strings.Builder
	s.Grow(n)
	s.WriteByte(0) // the data pointer of an empty string is unspecified
	b := unsafe.Slice(unsafe.StringData(s.String()), n)
	if n >= hugeFrom {
		first, size := hugePages(b)
		// A hint: kernels without huge pages reject it.
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, first, size, unix.MADV_HUGEPAGE)
	}
	return b
}

// hugePages returns the address and the length of the huge pages that contain b. Their other parts are memory of the Go
// heap too, whose arenas consist of whole huge pages: objects of a few megabytes are adjacent, and share them.
func hugePages(b []byte) (first, size uintptr) {
	at := uintptr(unsafe.Pointer(unsafe.SliceData(b)))
	first = at &^ (hugePage - 1)
	return first, (at+uintptr(len(b))+hugePage-1)&^(hugePage-1) - first
}
