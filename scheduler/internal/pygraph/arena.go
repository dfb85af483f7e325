package pygraph

import "unsafe"

// arena allocates small pieces from chunks, so that a graph costs few allocations and its memory is still freed
// together with its tasks: a chunk is freed with the last of its tasks.
type arena struct {
	chunk []byte
}

// arenaChunk is the length of a chunk in bytes.
const arenaChunk = 32 << 10

// room returns an empty slice to append a piece to, of about n bytes. keep ends the piece.
func (a *arena) room(n int) []byte {
	if cap(a.chunk)-len(a.chunk) < n {
		a.chunk = make([]byte, 0, max(n, min(arenaChunk, 4*max(cap(a.chunk), 128))))
	}
	return a.chunk[len(a.chunk):len(a.chunk)]
}

// keep ends a piece that room began. One that outgrew the chunk has memory of its own.
func (a *arena) keep(piece []byte) []byte {
	at := len(a.chunk)
	if len(piece) > 0 && cap(a.chunk) > at && unsafe.SliceData(piece) == unsafe.SliceData(a.chunk[at:at+1]) {
		a.chunk = a.chunk[:at+len(piece)]
	}
	return piece[:len(piece):len(piece)]
}
