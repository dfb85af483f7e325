//go:build race || invariants

package rawmem

import "bytes"

// canary fills blocks of the pool.
const canary = 0xdb

// poison fills a block of the pool.
func poison(b []byte) {
	b[0] = canary
	for n := 1; n < len(b); n *= 2 {
		copy(b[n:], b[:n])
	}
}

// checkPoison panics if a block was written while it was in the pool.
func checkPoison(b []byte) {
	if bytes.Count(b, []byte{canary}) != len(b) {
		panic("rawmem: block written after its last reference was dropped")
	}
}
