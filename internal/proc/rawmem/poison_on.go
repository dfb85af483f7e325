//go:build race || invariants

package rawmem

import "bytes"

// canary fills blocks of the pool.
const canary = 0xdb

// poison fills a block of the pool.
func poison(b []byte) {
	for i := range b {
		b[i] = canary
	}
}

// checkPoison panics if a block was written while it was in the pool.
func checkPoison(b []byte) {
	if bytes.Count(b, []byte{canary}) != len(b) {
		panic("rawmem: block written after its last reference was dropped")
	}
}
