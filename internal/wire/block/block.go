// Package block keeps memory of messages that have been read, for those that come.
package block

import "sync"

var blocks sync.Pool

// least and most bound the length of blocks that are kept, in bytes: less is not worth the trouble, more would be kept
// for messages that are not so long.
const (
	least = 8 << 10
	most  = 256 << 10
)

// Get returns memory of n bytes for a message that is about to be read. Its content is that of another message.
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

// Put keeps memory that no one uses any more, if a later message may need as much.
func Put(b []byte) {
	if cap(b) >= least && cap(b) <= most {
		blocks.Put(&b)
	}
}
