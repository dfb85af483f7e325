package native

import (
	"unsafe"

	"go.millstream.dev/clique"
)

// valuesOf copies bytes into a slice of elements, because the bytes may not be aligned.
func valuesOf[T clique.Number](b []byte) []T {
	var zero T
	out := make([]T, len(b)/int(unsafe.Sizeof(zero)))
	if len(out) > 0 {
		copy(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(out))), len(b)), b)
	}
	return out
}
