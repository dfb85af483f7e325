package vec

import (
	"strings"
	"unsafe"
)

// rawSize is the least size in bytes of memory that is not cleared.
const rawSize = 1 << 10

// raw returns n values of a fixed width, without pointers, which the caller sets: large ones are not cleared.
func raw[T any](n int) []T {
	var zero T
	size := n * int(unsafe.Sizeof(zero))
	if size < rawSize {
		return make([]T, n)
	}
	// A Builder is the only way to memory of the Go heap that is not cleared.
	var b strings.Builder
	b.Grow(size)
	b.WriteByte(0)
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.StringData(b.String()))), n)
}
