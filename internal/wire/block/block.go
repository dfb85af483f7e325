// Package block keeps the memory of messages for reuse.
package block

import "sync"

var blocks sync.Pool

// least and most bound the length of blocks that are kept, in bytes: shorter ones are not worthwhile, longer ones would
// waste memory.
const (
	least = 8 << 10
	most  = 256 << 10
)

// Get returns n bytes of memory for a message that is about to be read. Its content is undefined.
func Get(n int) []byte {
	if n >= least && n <= most {
		if b, ok := blocks.Get().(*[]byte); ok {
			if cap(*b) >= n {
				return (*b)[:n]
			}
			// It is too short, and so would be for the next one.
		}
	}
	return make([]byte, n)
}

// Put keeps unused memory, if a later message may need as much.
func Put(b []byte) {
	if cap(b) >= least && cap(b) <= most {
		blocks.Put(&b)
	}
}
