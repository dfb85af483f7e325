package wire

import "go.millstream.dev/internal/wire/block"

// Recycle releases a message and lets the memory of its body be reused. It is for a message that this process has read
// from a socket and of which nothing is referenced, not even a string that borrows from it.
func (m *Message) Recycle() {
	var body []byte
	if len(m.Frames) == 1 {
		body = m.Frames[0].data
	}
	m.Release()
	block.Put(body)
}
