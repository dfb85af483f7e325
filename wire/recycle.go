package wire

import "sync"

// blocks is memory of messages that nobody looks at any more.
var blocks sync.Pool

// leastBlock and mostBlock bound the length of blocks that are kept, in bytes: less is not
// worth the trouble, more would be kept for messages that are not so long.
const (
	leastBlock = 8 << 10
	mostBlock  = 256 << 10
)

// Block returns memory of n bytes for a message that is about to be read. What is in it is
// left from another message.
func Block(n int) []byte {
	if n >= leastBlock && n <= mostBlock {
		if b, ok := blocks.Get().(*[]byte); ok {
			if cap(*b) >= n {
				return (*b)[:n]
			}
			// It is too short, and so would be for the next one.
		}
	}
	return make([]byte, n)
}

// Recycle releases a message and lets the memory of its body be used for another one. It is
// for a message that this process has read from a socket and of which nothing is kept, not
// even a string that borrows from it.
func (m *Message) Recycle() {
	var body []byte
	if len(m.Frames) == 1 {
		body = m.Frames[0].data
	}
	m.Release()
	if cap(body) >= leastBlock && cap(body) <= mostBlock {
		blocks.Put(&body)
	}
}
