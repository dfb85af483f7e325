// Package wire has the formats of the messages that Millstream workers exchange over UCX and their lifelines.
package wire

import (
	"encoding/binary"
	"fmt"
	"math"

	"go.millstream.dev/mem"
)

// The header of every part of a message of frames, little-endian:
//
//	"MSFR" | u8 version | u8 kind | u16 0 | u64 receiver's number | u64 sequence | u32 n
//
// n is the number of frames in a table and the frame's index in a frame. A table's
// data is one entry for each frame, then the frames that travel with it, each at a
// multiple of 8 bytes:
//
//	u64 length | u8 kind of memory | u8 flags (1: in this message) | 6 bytes 0
const (
	frameMagic      = "MSFR"
	frameVersion    = 1
	FrameHeaderSize = 4 + 1 + 1 + 2 + 8 + 8 + 4
	frameSeqOffset  = 16
	FrameEntrySize  = 16
	FrameAlign      = 8

	FrameTable = 1
	FrameData  = 2

	frameFlagInline = 1

	// MaxFrames is the maximum number of frames of a message.
	MaxFrames = 1 << 16
)

// FrameHeader is the header of a part.
type FrameHeader struct {
	Kind   byte
	Number uint64 // the receiver's number of the connection
	Seq    uint64
	N      uint32
}

// Put writes the header to the first FrameHeaderSize bytes of b.
func (h *FrameHeader) Put(b []byte) {
	copy(b, frameMagic)
	b[4], b[5], b[6], b[7] = frameVersion, h.Kind, 0, 0
	binary.LittleEndian.PutUint64(b[8:], h.Number)
	PutFrameSequence(b, h.Seq)
	binary.LittleEndian.PutUint32(b[24:], h.N)
}

// PutFrameSequence sets the sequence number in a header.
func PutFrameSequence(b []byte, seq uint64) { binary.LittleEndian.PutUint64(b[frameSeqOffset:], seq) }

// DecodeFrameHeader parses a header from an untrusted peer.
func DecodeFrameHeader(b []byte) (FrameHeader, error) {
	if len(b) != FrameHeaderSize || string(b[:4]) != frameMagic {
		return FrameHeader{}, fmt.Errorf("ucx: message of frames: invalid header (%d bytes)", len(b))
	}
	if b[4] != frameVersion {
		return FrameHeader{}, fmt.Errorf("ucx: message of frames: version %d, want %d; upgrade the "+
			"older one", b[4], frameVersion)
	}
	h := FrameHeader{
		Kind: b[5], Number: binary.LittleEndian.Uint64(b[8:]),
		Seq: binary.LittleEndian.Uint64(b[frameSeqOffset:]), N: binary.LittleEndian.Uint32(b[24:]),
	}
	switch {
	case h.Kind != FrameTable && h.Kind != FrameData:
		return FrameHeader{}, fmt.Errorf("ucx: message of frames: unknown kind %d of part", h.Kind)
	case b[6] != 0 || b[7] != 0:
		return FrameHeader{}, fmt.Errorf("ucx: message of frames: reserved bytes are set")
	case h.N > MaxFrames || h.Kind == FrameData && h.N == MaxFrames:
		return FrameHeader{}, fmt.Errorf("ucx: message of frames: %d frames, at most %d", h.N, MaxFrames)
	case h.Seq == 0:
		return FrameHeader{}, fmt.Errorf("ucx: message of frames: sequence numbers begin at 1")
	}
	return h, nil
}

// AlignFrame returns the space that a frame of n bytes occupies after the table.
func AlignFrame(n int) int { return (n + FrameAlign - 1) &^ (FrameAlign - 1) }

// FrameEntry describes one frame of a received table.
type FrameEntry struct {
	N      int
	Kind   mem.Kind
	Offset int // in the table's data; -1 for a frame that is sent separately
}

// DecodeFrameTable parses a table of count frames from data. Its allocations are proportional to the length of data.
// The sum of lengths fits an int64.
func DecodeFrameTable(data []byte, count int) (entries []FrameEntry, separate int, total int64, err error) {
	if count < 0 || count > MaxFrames || len(data) < count*FrameEntrySize {
		return nil, 0, 0, fmt.Errorf("ucx: message of frames: table of %d frames in %d bytes", count, len(data))
	}
	entries = make([]FrameEntry, count)
	at := count * FrameEntrySize
	for i := range entries {
		b := data[i*FrameEntrySize : (i+1)*FrameEntrySize]
		n := binary.LittleEndian.Uint64(b)
		if n > uint64(math.MaxInt64-total) {
			return nil, 0, 0, fmt.Errorf("ucx: message of frames: frame %d of %d bytes after %d bytes", i, n, total)
		}
		total += int64(n)
		e := FrameEntry{N: int(n), Kind: mem.Kind(b[8]), Offset: -1}
		if e.Kind > mem.Managed {
			return nil, 0, 0, fmt.Errorf("ucx: message of frames: frame %d in memory of kind %d", i, b[8])
		}
		if b[9]&^frameFlagInline != 0 || [6]byte(b[10:16]) != [6]byte{} {
			return nil, 0, 0, fmt.Errorf("ucx: message of frames: frame %d has unknown flags", i)
		}
		if b[9]&frameFlagInline == 0 {
			if n == 0 {
				return nil, 0, 0, fmt.Errorf("ucx: message of frames: empty frame %d is sent separately", i)
			}
			separate++
			entries[i] = e
			continue
		}
		if n > uint64(len(data)-at) || AlignFrame(int(n)) > len(data)-at {
			return nil, 0, 0, fmt.Errorf("ucx: message of frames: frame %d of %d bytes exceeds the message", i, n)
		}
		e.Offset = at
		at += AlignFrame(int(n))
		entries[i] = e
	}
	if at != len(data) {
		return nil, 0, 0, fmt.Errorf("ucx: message of frames: %d bytes after the last frame", len(data)-at)
	}
	return entries, separate, total, nil
}

// PutFrameEntry writes the entry of one frame to the first FrameEntrySize bytes of b.
func PutFrameEntry(b []byte, n int, kind mem.Kind, inline bool) {
	clear(b[:FrameEntrySize])
	binary.LittleEndian.PutUint64(b, uint64(n))
	b[8] = byte(kind)
	if inline {
		b[9] = frameFlagInline
	}
}
