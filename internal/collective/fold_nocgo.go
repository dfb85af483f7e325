//go:build !cgo

package collective

// foldNative has no C to call here.
func foldNative(dst, a, b []byte, k Kind, op opCode) bool { return false }
