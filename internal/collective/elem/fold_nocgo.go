//go:build !cgo

package elem

// foldNative returns false: there is no C code without cgo.
func foldNative(dst, a, b []byte, k Kind, op OpCode) bool { return false }
