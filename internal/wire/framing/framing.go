// Package framing puts the messages of package wire on byte streams, as tcp:// and tls:// have them.
//
// A message starts with the length of the "first read" and the prelude, all of it little-endian 64-bit integers:
//
//	first      bytes that follow: the rest of the prelude and the joined frames
//	nframes
//	len[0] … len[nframes-1]
//	frames, back to back
//
// The first read holds whole frames only, the leading ones. It exists so that a receiver can give each large frame
// that is not in it memory of its own.
package framing

import (
	"encoding/binary"
	"fmt"
	"math"

	"go.millstream.dev/wire"
)

// HeadSize is the length in bytes of the integer in front of the first read.
const HeadSize = 8

// Defaults of Limits and of comm.Limits.
const (
	// DefaultMaxMessage is the largest message in bytes.
	DefaultMaxMessage = 64 << 30
	// DefaultMaxFrames is the largest number of frames of a message.
	DefaultMaxFrames = 1 << 20
)

// joinBelow is the length under which a frame is worth no memory of its own.
const joinBelow = 64 << 10

// Limits bound the messages that are accepted. The zero value is the default.
type Limits struct {
	// Message bounds the sum of the frames' lengths in bytes (default 64 GiB: what
	// is allocated follows the bytes that arrive).
	Message int64
	// Frames bounds their number (default 1 Mi).
	Frames int
}

func (l Limits) fill() Limits {
	if l.Message <= 0 {
		l.Message = DefaultMaxMessage
	}
	if l.Frames <= 0 {
		l.Frames = DefaultMaxFrames
	}
	return l
}

// Joined returns how many of a message's leading frames travel best in the first read:
// small ones, and the first large one if the bytes before it are few in comparison, which is
// Dask's rule (memory that lives as long as a large frame should not hold much else).
func Joined(m *wire.Message) int {
	total, large := 0, false
	for i, f := range m.Frames {
		n := f.Len()
		if n >= joinBelow && i > 0 {
			if large || total > max(2048, n/20) {
				return i
			}
			large = true
		}
		total += n
	}
	return len(m.Frames)
}

// Append appends what goes out in front of the message's frames on a byte stream.
// The first joined frames belong to the first read; len(m.Frames) is always legal.
func Append(dst []byte, m *wire.Message, joined int) []byte {
	first := 8 * uint64(1+len(m.Frames))
	for _, f := range m.Frames[:joined] {
		first += uint64(f.Len())
	}
	dst = binary.LittleEndian.AppendUint64(dst, first)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(len(m.Frames)))
	for _, f := range m.Frames {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(f.Len()))
	}
	return dst
}

// FirstRead returns how many bytes the first read has, from the 8 bytes in front of it.
// They are a promise of the peer: read as many, and allocate as they arrive.
func FirstRead(head []byte, lim Limits) (int64, error) {
	lim = lim.fill()
	if len(head) < HeadSize {
		return 0, fmt.Errorf("wire: a message starts with %d bytes, got %d", HeadSize, len(head))
	}
	n := binary.LittleEndian.Uint64(head)
	if n < 16 {
		return 0, fmt.Errorf("wire: a first read of %d bytes has no room for the prelude of one frame", n)
	}
	if most := uint64(lim.Message) + 8*(1+uint64(lim.Frames)); n > most {
		return 0, fmt.Errorf("wire: the peer announces a message of %d bytes, the limit is %d", n, lim.Message)
	}
	return int64(n), nil
}

// Prelude describes the frames of a message.
type Prelude struct {
	// Lengths of all frames in bytes; there is at least one.
	Lengths []int64
	// Joined is how many frames are in the first read. The others follow it, each whole,
	// without further headers.
	Joined int
	// Size is the length in bytes of the prelude, where the first joined frame starts.
	Size int
}

// Missing are the lengths of the frames that follow the first read.
func (p *Prelude) Missing() []int64 { return p.Lengths[p.Joined:] }

// Parse reads the prelude at the start of a first read. It needs all bytes of the
// prelude, which are 8 and those that NumFrames tells; joined frames may still be missing
// if total, the length of the whole first read, says so.
func Parse(first []byte, total int64, lim Limits) (Prelude, error) {
	var p Prelude
	n, err := NumFrames(first, lim)
	if err != nil {
		return p, err
	}
	lim = lim.fill()
	p.Size = 8 * (1 + n)
	if len(first) < p.Size || total < int64(p.Size) {
		return p, fmt.Errorf("wire: a prelude of %d frames needs %d bytes, the first read has %d", n, p.Size,
			min(total, int64(len(first))))
	}
	p.Lengths = make([]int64, n)
	p.Joined = -1
	var sum uint64
	left := uint64(total) - uint64(p.Size)
	for i := range p.Lengths {
		k := binary.LittleEndian.Uint64(first[8*(1+i):])
		if k > math.MaxInt64 || k > uint64(lim.Message)-sum {
			return p, fmt.Errorf("wire: frame %d of %d bytes makes the message larger than the limit of %d bytes", i, k,
				lim.Message)
		}
		sum += k
		p.Lengths[i] = int64(k)
		if p.Joined >= 0 {
			continue
		}
		// A first read that is used up ends the joined frames, so empty ones that come
		// then count as missing. A frame is never cut.
		switch {
		case left == 0:
			p.Joined = i
		case k > left:
			return p, fmt.Errorf("wire: frame %d of %d bytes is cut by the end of the first read, which has %d left", i,
				k, left)
		default:
			left -= k
		}
	}
	if p.Joined < 0 {
		p.Joined = n
	}
	return p, CheckCount(n, int64(sum))
}

// Frames beyond freeFrames must have frameBytes bytes on average: each costs this side
// several times the 8 bytes that announce it.
const (
	freeFrames = 64 << 10
	frameBytes = 16
)

// CheckCount returns an error for a message that has too many frames for its bytes.
func CheckCount(frames int, bytes int64) error {
	if frames > freeFrames && int64(frames-freeFrames) > bytes/frameBytes {
		return fmt.Errorf("wire: %d frames for %d bytes; beyond %d frames each must have %d bytes on average", frames,
			bytes, freeFrames, frameBytes)
	}
	return nil
}

// NumFrames returns the number of frames, from the first 8 bytes of a first read.
func NumFrames(first []byte, lim Limits) (int, error) {
	lim = lim.fill()
	if len(first) < 8 {
		return 0, fmt.Errorf("wire: a prelude needs 8 bytes, the first read has %d", len(first))
	}
	n := binary.LittleEndian.Uint64(first)
	if n == 0 {
		return 0, fmt.Errorf("wire: a message has no frame, not even a body")
	}
	if n > uint64(lim.Frames) {
		return 0, fmt.Errorf("wire: the peer announces %d frames, the limit is %d", n, lim.Frames)
	}
	return int(n), nil
}

// SplitFirst makes the joined frames of a first read, all of which must be there. They
// share its memory.
func (p *Prelude) SplitFirst(dst []wire.Frame, first []byte) ([]wire.Frame, error) {
	at := p.Size
	for i, n := range p.Lengths[:p.Joined] {
		if n > int64(len(first)-at) {
			return dst, fmt.Errorf("wire: frame %d of %d bytes is not whole", i, n)
		}
		end := at + int(n)
		dst = append(dst, wire.HeapFrame(first[at:end])) // merge sees that they are neighbours
		at = end
	}
	return dst, nil
}
