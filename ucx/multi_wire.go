package ucx

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
	frameHeaderSize = 4 + 1 + 1 + 2 + 8 + 8 + 4
	frameSeqOffset  = 16
	frameEntrySize  = 16
	frameAlign      = 8

	frameTable = 1
	frameData  = 2

	frameFlagInline = 1
)

type frameHeader struct {
	kind   byte
	number uint64 // the receiver's number of the connection
	seq    uint64
	n      uint32
}

func (h *frameHeader) put(b []byte) {
	copy(b, frameMagic)
	b[4], b[5], b[6], b[7] = frameVersion, h.kind, 0, 0
	binary.LittleEndian.PutUint64(b[8:], h.number)
	putFrameSequence(b, h.seq)
	binary.LittleEndian.PutUint32(b[24:], h.n)
}

func putFrameSequence(b []byte, seq uint64) { binary.LittleEndian.PutUint64(b[frameSeqOffset:], seq) }

func decodeFrameHeader(b []byte) (frameHeader, error) {
	if len(b) != frameHeaderSize || string(b[:4]) != frameMagic {
		return frameHeader{}, fmt.Errorf("ucx: no header of a message of frames (%d bytes)", len(b))
	}
	if b[4] != frameVersion {
		return frameHeader{}, fmt.Errorf("ucx: message of frames in version %d, this side knows %d; upgrade the older one", b[4], frameVersion)
	}
	h := frameHeader{
		kind: b[5], number: binary.LittleEndian.Uint64(b[8:]),
		seq: binary.LittleEndian.Uint64(b[frameSeqOffset:]), n: binary.LittleEndian.Uint32(b[24:]),
	}
	switch {
	case h.kind != frameTable && h.kind != frameData:
		return frameHeader{}, fmt.Errorf("ucx: message of frames: part of kind %d", h.kind)
	case b[6] != 0 || b[7] != 0:
		return frameHeader{}, fmt.Errorf("ucx: message of frames: reserved bytes are set")
	case h.n > maxFrames || h.kind == frameData && h.n == maxFrames:
		return frameHeader{}, fmt.Errorf("ucx: message of frames: %d frames, at most %d", h.n, maxFrames)
	case h.seq == 0:
		return frameHeader{}, fmt.Errorf("ucx: message of frames: sequence numbers begin at 1")
	}
	return h, nil
}

// framePlan says which frames travel with the table.
type framePlan struct {
	inline   []bool
	separate int
	size     int // of the table message's data
}

func planFrames(frames []View) (framePlan, error) {
	p := framePlan{size: len(frames) * frameEntrySize}
	if len(frames) > maxFrames {
		return p, fmt.Errorf("ucx: %d frames, at most %d in a message", len(frames), maxFrames)
	}
	p.inline = make([]bool, len(frames))
	total := 0
	for i, v := range frames {
		if v.bad != nil {
			return p, v.bad
		}
		switch {
		case v.n == 0:
			p.inline[i] = true
		case !v.onDevice() && v.n <= frameInline && total+v.n <= frameInlineTotal:
			p.inline[i] = true
			total += v.n
			p.size += alignFrame(v.n)
		default:
			p.separate++
		}
	}
	return p, nil
}

func alignFrame(n int) int { return (n + frameAlign - 1) &^ (frameAlign - 1) }

// write fills b, which has the plan's size.
func (p *framePlan) write(b []byte, frames []View) {
	at := len(frames) * frameEntrySize
	for i, v := range frames {
		e := b[i*frameEntrySize : (i+1)*frameEntrySize]
		clear(e)
		binary.LittleEndian.PutUint64(e, uint64(v.n))
		e[8] = byte(v.kind)
		if p.inline[i] {
			e[9] = frameFlagInline
			n := copy(b[at:], v.bytes())
			end := at + alignFrame(n)
			clear(b[at+n : end])
			at = end
		}
	}
}

// frameEntry describes one frame of a received table.
type frameEntry struct {
	n      int
	kind   mem.Kind
	offset int // in the table's data; -1 for a frame of its own
}

// decodeFrameTable reads a table of count frames from data. What it allocates is in
// proportion to data, which has arrived. The sum of lengths fits an int64.
func decodeFrameTable(data []byte, count int) (entries []frameEntry, separate int, total int64, err error) {
	if count < 0 || count > maxFrames || len(data) < count*frameEntrySize {
		return nil, 0, 0, fmt.Errorf("ucx: message of frames: table of %d frames in %d bytes", count, len(data))
	}
	entries = make([]frameEntry, count)
	at := count * frameEntrySize
	for i := range entries {
		b := data[i*frameEntrySize : (i+1)*frameEntrySize]
		n := binary.LittleEndian.Uint64(b)
		if n > uint64(math.MaxInt64-total) {
			return nil, 0, 0, fmt.Errorf("ucx: message of frames: frame %d of %d bytes after %d bytes", i, n, total)
		}
		total += int64(n)
		e := frameEntry{n: int(n), kind: mem.Kind(b[8]), offset: -1}
		if e.kind > mem.Managed {
			return nil, 0, 0, fmt.Errorf("ucx: message of frames: frame %d in memory of kind %d", i, b[8])
		}
		if b[9]&^frameFlagInline != 0 || [6]byte(b[10:16]) != [6]byte{} {
			return nil, 0, 0, fmt.Errorf("ucx: message of frames: frame %d has unknown flags", i)
		}
		if b[9]&frameFlagInline == 0 {
			if n == 0 {
				return nil, 0, 0, fmt.Errorf("ucx: message of frames: frame %d is empty and yet of its own", i)
			}
			separate++
			entries[i] = e
			continue
		}
		if n > uint64(len(data)-at) || alignFrame(int(n)) > len(data)-at {
			return nil, 0, 0, fmt.Errorf("ucx: message of frames: frame %d of %d bytes ends beyond the message", i, n)
		}
		e.offset = at
		at += alignFrame(int(n))
		entries[i] = e
	}
	if at != len(data) {
		return nil, 0, 0, fmt.Errorf("ucx: message of frames: %d bytes behind the last frame", len(data)-at)
	}
	return entries, separate, total, nil
}
