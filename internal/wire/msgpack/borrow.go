package msgpack

import "unsafe"

// Borrow returns bytes as a string without a copy. The bytes must not change while the string is used.
func Borrow(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
