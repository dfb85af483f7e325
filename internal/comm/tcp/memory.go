package tcp

import (
	"strings"
	"unsafe"
)

// uncleared returns n bytes of Go heap memory that hold anything. Every byte of a large
// frame is overwritten by what arrives, or the memory is dropped; clearing it before was a
// fifth of the CPU time of echoing 100 MiB over the loopback interface. strings.Builder is
// the one part of the standard library that hands out such memory.
func uncleared(n int) []byte {
	if n < 1<<15 {
		return make([]byte, n)
	}
	var b strings.Builder
	b.Grow(n)
	b.WriteByte(0) // the data of an empty string may be anywhere
	return unsafe.Slice(unsafe.StringData(b.String()), n)
}
