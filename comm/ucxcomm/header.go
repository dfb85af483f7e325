package ucxcomm

import (
	"encoding/binary"
	"fmt"
	"math"
)

// The header that distributed-ucxx sends before a message's frames, in the native layout of the Python module struct
// on a 64-bit machine. Each of the two parts is a separate UCX message:
//
//	bool shutdown | 7 bytes 0 | u64 number of frames
//	n bytes: is frame i in GPU memory | padding to 8 | n u64: length of frame i
const leadSize = 16

// lead is the first part.
type lead struct {
	shutdown bool
	frames   uint64
}

func (l lead) put(b *[leadSize]byte) {
	clear(b[:])
	if l.shutdown {
		b[0] = 1
	}
	binary.NativeEndian.PutUint64(b[8:], l.frames)
}

// decodeLead decodes a lead. Python writes uninitialized memory into the padding of a struct's native layout, so
// padding is ignored.
func decodeLead(b []byte) (lead, error) {
	if len(b) != leadSize {
		return lead{}, fmt.Errorf("%w (first part of %d bytes, want %d)", errForm, len(b), leadSize)
	}
	return lead{shutdown: b[0] != 0, frames: binary.NativeEndian.Uint64(b[8:])}, nil
}

// part describes a frame: an entry of the table.
type part struct {
	size   int64
	device bool
}

// tableSize returns the length of the table of n frames; n is at most math.MaxInt32.
func tableSize(n int) int { return (n+7)&^7 + 8*n }

// appendTable appends the table of the frames.
func appendTable(b []byte, parts []part) []byte {
	at := len(b)
	b = append(b, make([]byte, tableSize(len(parts)))...)
	t := b[at:]
	sizes := t[(len(parts)+7)&^7:]
	for i, p := range parts {
		if p.device {
			t[i] = 1
		}
		binary.NativeEndian.PutUint64(sizes[8*i:], uint64(p.size))
	}
	return b
}

// decodeTable decodes the table of n frames and checks their sum against the limit before memory is allocated for them.
// Its own allocations are proportional to len(b).
func decodeTable(b []byte, n int, limit int64) (parts []part, total int64, err error) {
	if n < 0 || n > math.MaxInt32 || len(b) != tableSize(n) {
		return nil, 0, fmt.Errorf("table of %d frames has %d bytes", n, len(b))
	}
	sizes := b[(n+7)&^7:]
	parts = make([]part, n)
	for i := range parts {
		size := binary.NativeEndian.Uint64(sizes[8*i:])
		if size > math.MaxInt64 || int64(size) > limit-total {
			return nil, 0, &limitError{what: "bytes", got: satAdd(total, size), limit: limit, key: "Limits.Message"}
		}
		total += int64(size)
		parts[i] = part{size: int64(size), device: b[i] != 0}
	}
	return parts, total, nil
}

// satAdd is for error messages only.
func satAdd(a int64, b uint64) int64 {
	if b > uint64(math.MaxInt64-a) {
		return math.MaxInt64
	}
	return a + int64(b)
}

// limitError is returned for a message beyond the limits of this side.
type limitError struct {
	what       string
	got, limit int64
	key        string
}

func (e *limitError) Error() string {
	return fmt.Sprintf("message of %d %s announced, at most %d allowed (%s)", e.got, e.what, e.limit, e.key)
}
