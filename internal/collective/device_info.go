package collective

import (
	"encoding/binary"
	"fmt"
)

// Before device memory is accessed directly, the ranks exchange references to their buffers.
const (
	infoVersion = 1
	handleBytes = 104 // size of an encoded cuda.MemHandle
	refBytes    = 40 + handleBytes
	infoBytes   = 56 + 2*refBytes
)

const (
	infoDirect = 1 << iota // the buffers of this rank can be accessed directly
	infoNew                // an allocation is sent for the first time
)

// bufferRef is a reference to a buffer for other processes.
type bufferRef struct {
	id     uint64 // id of the allocation in its process; 0 if no memory is exported
	base   uint64 // address and size of the allocation in its process
	size   uint64
	offset uint64
	length uint64
	handle [handleBytes]byte
}

// deviceInfo is the information that one rank sends.
type deviceInfo struct {
	flags      byte
	process    [16]byte
	gpu        [16]byte
	token      uint64 // key of the buffers in processBuffers
	scale      uint64
	send, recv bufferRef
}

func (w *bufferRef) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, w.id)
	b = binary.LittleEndian.AppendUint64(b, w.base)
	b = binary.LittleEndian.AppendUint64(b, w.size)
	b = binary.LittleEndian.AppendUint64(b, w.offset)
	b = binary.LittleEndian.AppendUint64(b, w.length)
	return append(b, w.handle[:]...)
}

func (w *bufferRef) parse(b []byte) {
	for i, v := range [...]*uint64{&w.id, &w.base, &w.size, &w.offset, &w.length} {
		*v = binary.LittleEndian.Uint64(b[8*i:])
	}
	copy(w.handle[:], b[40:refBytes])
}

func (w *deviceInfo) append(b []byte) []byte {
	b = append(b, infoVersion, w.flags, 0, 0, 0, 0, 0, 0)
	b = append(b, w.process[:]...)
	b = append(b, w.gpu[:]...)
	b = binary.LittleEndian.AppendUint64(b, w.token)
	b = binary.LittleEndian.AppendUint64(b, w.scale)
	return w.recv.append(w.send.append(b))
}

// parse decodes the information of another process. References are checked when the memory is opened.
func (w *deviceInfo) parse(b []byte) error {
	if len(b) != infoBytes {
		return fmt.Errorf("device info has %d bytes, want %d", len(b), infoBytes)
	}
	if b[0] != infoVersion {
		return fmt.Errorf("device info has version %d, want %d; run the same release on all ranks", b[0],
			infoVersion)
	}
	w.flags = b[1]
	copy(w.process[:], b[8:])
	copy(w.gpu[:], b[24:])
	w.token, w.scale = binary.LittleEndian.Uint64(b[40:]), binary.LittleEndian.Uint64(b[48:])
	w.send.parse(b[56:])
	w.recv.parse(b[56+refBytes:])
	for _, p := range [...]*bufferRef{&w.send, &w.recv} {
		if p.offset > maxCount || p.length > maxCount || p.size > maxCount || p.base > 1<<62 {
			return fmt.Errorf("invalid reference: %d bytes at offset %d", p.length, p.offset)
		}
	}
	return nil
}
