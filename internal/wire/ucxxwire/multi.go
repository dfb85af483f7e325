package ucxxwire

import (
	"encoding/binary"
	"math"
)

// MultiHeaderFrames is the number of frames that one multi-buffer header
// describes.
const MultiHeaderFrames = 100

// MultiHeaderSize is the length in bytes of a multi-buffer header. It is always
// sent in full.
const MultiHeaderSize = 1 + 8 + MultiHeaderFrames*4 + MultiHeaderFrames*8

// DefaultMaxFrames is the default of MultiLimits.MaxFrames.
const DefaultMaxFrames = 1 << 16

// DefaultMaxBytes is the default of MultiLimits.MaxBytes: 64 GiB.
const DefaultMaxBytes = 64 << 30

const (
	formatMulti   = "multi-buffer header"
	multiCUDAOff  = 1 + 8
	multiSizesOff = multiCUDAOff + MultiHeaderFrames*4
)

// Frame is one buffer of a multi-buffer message.
type Frame struct {
	// Size is the length in bytes; 0 is allowed and still sent as a message.
	Size int64
	// CUDA reports whether the sender has the frame in CUDA device memory; the receiver then allocates it there too.
	CUDA bool
}

// MultiHeaders returns the number of headers that announce n frames.
func MultiHeaders(n int) int {
	return (n + MultiHeaderFrames - 1) / MultiHeaderFrames
}

// AppendMultiHeaders appends the headers that announce frames to dst:
// MultiHeaders(len(frames)) pieces of MultiHeaderSize bytes, each of which is sent
// as a tag message of its own, all of them before the first frame, and all on the
// tag of the frames:
//
//	bool next | u64 frames | 100 × int32 is CUDA | 100 × u64 size
//
// A message without frames cannot be sent: UCXX sends nothing for it and its receiver would wait forever.
func AppendMultiHeaders(dst []byte, frames []Frame) ([]byte, error) {
	if len(frames) == 0 {
		return dst, fieldErr(formatMulti, "frames", "no frames; send at least one, it may be empty")
	}
	for i, f := range frames {
		if f.Size < 0 {
			return dst, fieldErr(formatMulti, "size", "frame %d has negative size %d", i, f.Size)
		}
	}
	for len(frames) > 0 {
		part := frames[:min(len(frames), MultiHeaderFrames)]
		frames = frames[len(part):]
		dst = appendMultiHeader(dst, part, len(frames) > 0)
	}
	return dst, nil
}

func appendMultiHeader(dst []byte, frames []Frame, next bool) []byte {
	at := len(dst)
	dst = append(dst, make([]byte, MultiHeaderSize)...)
	h := dst[at:]
	if next {
		h[0] = 1
	}
	binary.NativeEndian.PutUint64(h[1:], uint64(len(frames)))
	for i, f := range frames {
		if f.CUDA {
			binary.NativeEndian.PutUint32(h[multiCUDAOff+4*i:], 1)
		}
		binary.NativeEndian.PutUint64(h[multiSizesOff+8*i:], uint64(f.Size))
	}
	return dst
}

// MultiLimits bounds the multi-buffer messages that a receiver accepts.
type MultiLimits struct {
	// MaxFrames is the largest number of frames, DefaultMaxFrames when 0.
	MaxFrames int
	// MaxBytes is the largest sum of all frame sizes, DefaultMaxBytes when 0.
	MaxBytes int64
}

// MultiDecoder collects the chained headers of one multi-buffer message. The zero value is ready to use and has the
// default limits.
type MultiDecoder struct {
	// Limits is read by every Add.
	Limits MultiLimits

	frames []Frame
	total  int64
	done   bool
	err    error
}

// Add decodes the next header and reports whether another one follows. After an error the decoder stays failed: the end
// of the message cannot be found.
func (d *MultiDecoder) Add(b []byte) (next bool, err error) {
	if d.err != nil {
		return false, d.err
	}
	if d.done {
		d.err = fieldErr(formatMulti, "next", "a header after the last one")
		return false, d.err
	}
	next, err = d.add(b)
	d.err = err
	d.done = err == nil && !next
	return next, err
}

func (d *MultiDecoder) add(b []byte) (bool, error) {
	if len(b) != MultiHeaderSize {
		return false, fieldErr(formatMulti, "length", "%d bytes, want %d", len(b), MultiHeaderSize)
	}
	if b[0] > 1 {
		return false, fieldErr(formatMulti, "next", "byte %d, want 0 or 1", b[0])
	}
	next := b[0] == 1
	n64 := binary.NativeEndian.Uint64(b[1:])
	if n64 > MultiHeaderFrames {
		return false, fieldErr(formatMulti, "frames", "%d in one header, at most %d", n64, MultiHeaderFrames)
	}
	n := int(n64)
	if n == 0 {
		// Rejected also because a chain of such headers would never end.
		return false, fieldErr(formatMulti, "frames", "no frames in the header")
	}
	maxFrames := d.Limits.MaxFrames
	if maxFrames == 0 {
		maxFrames = DefaultMaxFrames
	}
	if n > maxFrames-len(d.frames) {
		return false, limitErr(formatMulti, "frames", "%d frames so far, at most %d", len(d.frames)+n, maxFrames)
	}
	maxBytes := d.Limits.MaxBytes
	if maxBytes == 0 {
		maxBytes = DefaultMaxBytes
	}
	for i := range n {
		size := binary.NativeEndian.Uint64(b[multiSizesOff+8*i:])
		if size > math.MaxInt64 {
			return false, fieldErr(formatMulti, "size", "frame %d has %d bytes, more than any memory", len(d.frames),
				size)
		}
		if int64(size) > maxBytes-d.total {
			return false, limitErr(formatMulti, "size", "frame %d of %d bytes after %d bytes, at most %d in all",
				len(d.frames), size, d.total, maxBytes)
		}
		d.total += int64(size)
		d.frames = append(d.frames, Frame{
			Size: int64(size),
			CUDA: binary.NativeEndian.Uint32(b[multiCUDAOff+4*i:]) != 0,
		})
	}
	return next, nil
}

// Frames returns the frames announced so far; it is complete when Add has
// returned false without an error. The slice belongs to the decoder until Reset.
func (d *MultiDecoder) Frames() []Frame { return d.frames }

// TotalBytes returns the sum of the sizes of Frames.
func (d *MultiDecoder) TotalBytes() int64 { return d.total }

// Reset prepares the decoder for another message and keeps its limits and memory.
func (d *MultiDecoder) Reset() {
	*d = MultiDecoder{Limits: d.Limits, frames: d.frames[:0]}
}
