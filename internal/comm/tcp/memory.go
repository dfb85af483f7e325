package tcp

import (
	"strings"
	"unsafe"
)

// uncleared returns n bytes of uninitialized Go heap memory. Every byte of a large frame is overwritten by received
// data, or the memory is dropped; clearing it before was a fifth of the CPU time of echoing 100 MiB over the loopback
// interface. strings.Builder is the only part of the standard library that returns such memory.
func uncleared(n int) []byte {
	if n < 1<<15 {
		return make([]byte, n)
	}
	var b strings.Builder
	b.Grow(n)
	b.WriteByte(0) // the data pointer of an empty string is unspecified
	return unsafe.Slice(unsafe.StringData(b.String()), n)
}
