package expr

import "unsafe"

// castTo returns bytes of an Arrow buffer as numbers. Bytes that are not aligned, as in a message, are copied.
func castTo[T uint8 | uint16 | uint32 | uint64](b []byte) []T {
	var zero T
	size := int(unsafe.Sizeof(zero))
	n := len(b) / size
	if n == 0 {
		return nil
	}
	p := unsafe.Pointer(unsafe.SliceData(b))
	if uintptr(p)%uintptr(size) != 0 {
		out := make([]T, n)
		copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(out))), n*size), b)
		return out
	}
	return unsafe.Slice((*T)(p), n)
}
