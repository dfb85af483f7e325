//go:build !cgo

package elem

// foldNative has no C to call here.
func foldNative(dst, a, b []byte, k Kind, op OpCode) bool { return false }
