package tcp

import "go.millstream.dev/internal/proc/rawmem"

// uncleared returns n bytes of uninitialized Go heap memory. Every byte of a large frame is overwritten by received
// data, or the memory is dropped.
func uncleared(n int) []byte { return rawmem.Alloc(n) }
