// Package framing encodes the messages of package wire on byte streams, for tcp:// and tls://.
//
// A message starts with the length of the "first read" and the prelude, all of it little-endian 64-bit integers:
//
//	first      bytes that follow: the rest of the prelude and the joined frames
//	nframes
//	len[0] … len[nframes-1]
//	frames, back to back
//
// The first read holds only whole frames, the leading ones. It exists so that a receiver can allocate separate memory
// for each large frame that is not in it.
package framing

import (
	"encoding/binary"
	"fmt"
	"math"

	"go.millstream.dev/wire"
)

// HeadSize is the length in bytes of the integer before the first read.
const HeadSize = 8

// Defaults of Limits and of comm.Limits.
const (
	// DefaultMaxMessage is the largest message in bytes.
	DefaultMaxMessage = 64 << 30
	// DefaultMaxFrames is the largest number of frames of a message.
	DefaultMaxFrames = 1 << 20
)

// joinBelow is the length below which a frame gets no separate memory.
const joinBelow = 64 << 10

// Limits bound accepted messages. The zero value has the defaults.
type Limits struct {
	// Message bounds the sum of the frames' lengths in bytes (default 64 GiB: allocations follow the received bytes).
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

// Joined returns how many of a message's leading frames are best sent in the first read: small ones, and the first
// large one if the bytes before it are few in comparison, which is Dask's rule (memory that lives as long as a large
// frame should not hold much else).
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

// Append appends the bytes before the message's frames on a byte stream. The first joined frames belong to the first
// read; len(m.Frames) is always valid.
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

// FirstRead returns the length of the first read, from the 8 bytes before it. The length is untrusted: allocate as the
// bytes arrive.
func FirstRead(head []byte, lim Limits) (int64, error) {
	lim = lim.fill()
	if len(head) < HeadSize {
		return 0, fmt.Errorf("wire: a message starts with %d bytes, got %d", HeadSize, len(head))
	}
	n := binary.LittleEndian.Uint64(head)
	if n < 16 {
		return 0, fmt.Errorf("wire: first read of %d bytes is too short for the prelude of one frame", n)
	}
	if most := uint64(lim.Message) + 8*(1+uint64(lim.Frames)); n > most {
		return 0, fmt.Errorf("wire: message of %d bytes announced, the limit is %d", n, lim.Message)
	}
	return int64(n), nil
}

// Prelude describes the frames of a message.
type Prelude struct {
	// Lengths are the lengths of all frames in bytes; there is at least one.
	Lengths []int64
	// Joined is how many frames are in the first read. The others follow it, each whole,
	// without further headers.
	Joined int
	// Size is the length in bytes of the prelude, where the first joined frame starts.
	Size int
}

// Missing returns the lengths of the frames after the first read.
func (p *Prelude) Missing() []int64 { return p.Lengths[p.Joined:] }

// Parse parses the prelude at the start of a first read. It needs all bytes of the prelude, which are 8 and those of
// NumFrames; joined frames may still be missing according to total, the length of the whole first read.
func Parse(first []byte, total int64, lim Limits) (Prelude, error) {
	var p Prelude
	n, err := NumFrames(first, lim)
	if err != nil {
		return p, err
	}
	lim = lim.fill()
	p.Size = 8 * (1 + n)
	if len(first) < p.Size || total < int64(p.Size) {
		return p, fmt.Errorf("wire: prelude of %d frames needs %d bytes, the first read has %d", n, p.Size,
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
		// The end of the first read ends the joined frames, so later empty ones count as missing. A frame is never
		// split.
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

// CheckCount returns an error for a message with too many frames for its bytes.
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
		return 0, fmt.Errorf("wire: prelude needs 8 bytes, the first read has %d", len(first))
	}
	n := binary.LittleEndian.Uint64(first)
	if n == 0 {
		return 0, fmt.Errorf("wire: message without a body")
	}
	if n > uint64(lim.Frames) {
		return 0, fmt.Errorf("wire: %d frames announced, the limit is %d", n, lim.Frames)
	}
	return int(n), nil
}

// SplitFirst returns the joined frames of a complete first read. They share its memory.
func (p *Prelude) SplitFirst(dst []wire.Frame, first []byte) ([]wire.Frame, error) {
	at := p.Size
	for i, n := range p.Lengths[:p.Joined] {
		if n > int64(len(first)-at) {
			return dst, fmt.Errorf("wire: frame %d of %d bytes is incomplete", i, n)
		}
		end := at + int(n)
		dst = append(dst, wire.HeapFrame(first[at:end])) // merge detects that they are adjacent
		at = end
	}
	return dst, nil
}
