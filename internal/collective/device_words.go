package collective

import (
	"encoding/binary"
	"fmt"
)

// Before device memory is reached directly every rank tells where its buffers are: one exchange of these words.
const (
	wordsVersion = 1
	handleBytes  = 104 // cuda.MemHandle's encoding
	whereBytes   = 40 + handleBytes
	deviceWords  = 56 + 2*whereBytes
)

const (
	wordsDirect = 1 << iota // this rank's buffers can be reached directly
	wordsFresh              // it has not told of one of these allocations before
)

// where is a buffer as its owner names it.
type where struct {
	id     uint64 // of the allocation in its process; 0: no memory is shown
	base   uint64 // where the allocation is there, and how long
	size   uint64
	offset uint64
	length uint64
	handle [handleBytes]byte
}

// word is what one rank tells.
type word struct {
	flags      byte
	process    [16]byte
	gpu        [16]byte
	token      uint64 // of the buffers in processBuffers
	scale      uint64
	send, recv where
}

func (w *where) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, w.id)
	b = binary.LittleEndian.AppendUint64(b, w.base)
	b = binary.LittleEndian.AppendUint64(b, w.size)
	b = binary.LittleEndian.AppendUint64(b, w.offset)
	b = binary.LittleEndian.AppendUint64(b, w.length)
	return append(b, w.handle[:]...)
}

func (w *where) parse(b []byte) {
	for i, v := range [...]*uint64{&w.id, &w.base, &w.size, &w.offset, &w.length} {
		*v = binary.LittleEndian.Uint64(b[8*i:])
	}
	copy(w.handle[:], b[40:whereBytes])
}

func (w *word) append(b []byte) []byte {
	b = append(b, wordsVersion, w.flags, 0, 0, 0, 0, 0, 0)
	b = append(b, w.process[:]...)
	b = append(b, w.gpu[:]...)
	b = binary.LittleEndian.AppendUint64(b, w.token)
	b = binary.LittleEndian.AppendUint64(b, w.scale)
	return w.recv.append(w.send.append(b))
}

// parse reads what another process has told. What it says of memory is checked when the memory is opened.
func (w *word) parse(b []byte) error {
	if len(b) != deviceWords {
		return fmt.Errorf("%d bytes about device memory, want %d", len(b), deviceWords)
	}
	if b[0] != wordsVersion {
		return fmt.Errorf("words about device memory of version %d, want %d: all ranks must run the same release", b[0],
			wordsVersion)
	}
	w.flags = b[1]
	copy(w.process[:], b[8:])
	copy(w.gpu[:], b[24:])
	w.token, w.scale = binary.LittleEndian.Uint64(b[40:]), binary.LittleEndian.Uint64(b[48:])
	w.send.parse(b[56:])
	w.recv.parse(b[56+whereBytes:])
	for _, p := range [...]*where{&w.send, &w.recv} {
		if p.offset > maxCount || p.length > maxCount || p.size > maxCount || p.base > 1<<62 {
			return fmt.Errorf("%d bytes at %d of an allocation", p.length, p.offset)
		}
	}
	return nil
}
