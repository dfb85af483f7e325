package compress

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// The maximum expansion of one byte: a frame that announces more is invalid, and nothing is allocated for it. An lz4
// length byte stands for 255 bytes, a snappy copy of 3 bytes for 64, and 4 bytes of zstd for a block of 128 KiB.
const (
	lz4Ratio    = 255
	snappyRatio = 22
	zstdRatio   = 128 << 10 / 4
)

// Err is returned for frames that cannot be decompressed; it is wire.ErrDecompress.
var Err = errors.New("wire: cannot decompress")

// atOnce returns how much is allocated immediately for a compressed frame of have bytes. For a frame that announces
// more memory grows with the output.
func atOnce(have int) uint64 { return 1<<20 + 16*uint64(have) }

// lz4Length adds up the decompressed length of the sequences of a block, without decompressing it. It returns a number
// above limit as soon as it is exceeded, and 0 for a truncated block.
func lz4Length(b []byte, limit uint64) (total uint64) {
	// run reads a length that continues in bytes of 255.
	run := func(n uint64) (uint64, bool) {
		if n < 15 {
			return n, true
		}
		for i, x := range b {
			n += uint64(x)
			if x < 255 {
				b = b[i+1:]
				return n, true
			}
		}
		return 0, false
	}
	for len(b) > 0 && total <= limit {
		token := b[0]
		b = b[1:]
		literals, ok := run(uint64(token >> 4))
		if !ok || literals > uint64(len(b)) {
			return 0
		}
		b = b[literals:]
		total += literals
		if len(b) == 0 {
			return total // the last sequence has no match
		}
		if len(b) < 2 {
			return 0
		}
		b = b[2:]
		match, ok := run(uint64(token & 15))
		if !ok {
			return 0
		}
		total += match + 4
	}
	return total
}

// Inflater decompresses the frames of one message within one budget.
type Inflater struct {
	left  int64 // bytes that may still come out
	limit int64 // of all, for messages
}

// NewInflater returns an Inflater whose frames have at most limit decompressed bytes together.
func NewInflater(limit int64) Inflater { return Inflater{left: limit, limit: limit} }

func (d *Inflater) fail(name, format string, args ...any) error {
	return fmt.Errorf("%w %s: %s", Err, name, fmt.Sprintf(format, args...))
}

// grant checks an announced length against the maximum expansion and the budget.
func (d *Inflater) grant(name string, size uint64, have int, ratio uint64) error {
	if size > uint64(have)*ratio+64 {
		return d.fail(name, "%d bytes cannot become %d", have, size)
	}
	if size > uint64(d.left) {
		return d.fail(name, "decompressed message is larger than %d bytes: raise DecodeOptions.MaxDecompressed if "+
			"that is intended", d.limit)
	}
	return nil
}

// Decompress returns the payload of one frame.
func (d *Inflater) Decompress(name string, b []byte) (out []byte, err error) {
	switch name {
	case LZ4:
		out, err = d.lz4(b)
	case Zstd:
		out, err = d.zstd(b)
	case Snappy:
		out, err = d.snappy(b)
	case Zlib:
		out, err = d.zlib(b)
	default:
		return nil, d.fail(fmt.Sprintf("%.40q", name), "unknown compression")
	}
	if err != nil {
		return nil, err
	}
	d.left -= int64(len(out))
	return out, nil
}

func (d *Inflater) lz4(b []byte) ([]byte, error) {
	if len(b) < 4 {
		return nil, d.fail(LZ4, "%d bytes have no length in front", len(b))
	}
	size := uint64(binary.LittleEndian.Uint32(b))
	if err := d.grant(LZ4, size, len(b), lz4Ratio); err != nil {
		return nil, err
	}
	if size > atOnce(len(b)) {
		// The lengths in a block show whether a large announced length is correct.
		if n := lz4Length(b[4:], size); n != size {
			return nil, d.fail(LZ4, "%d bytes come out instead of %d", n, size)
		}
	}
	out := make([]byte, size)
	n, err := lz4.UncompressBlock(b[4:], out)
	if err != nil {
		return nil, d.fail(LZ4, "%v", err)
	}
	if uint64(n) != size {
		return nil, d.fail(LZ4, "%d bytes came out instead of %d", n, size)
	}
	return out, nil
}

func (d *Inflater) snappy(b []byte) ([]byte, error) {
	n, err := snappy.DecodedLen(b)
	if err != nil {
		return nil, d.fail(Snappy, "%v", err)
	}
	if err := d.grant(Snappy, uint64(n), len(b), snappyRatio); err != nil {
		return nil, err
	}
	out, err := snappy.Decode(nil, b)
	if err != nil {
		return nil, d.fail(Snappy, "%v", err)
	}
	return out, nil
}

// zstdDecoder is shared: DecodeAll may be called concurrently. It writes no more than the capacity of its argument.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true),
		zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxMemory(1<<33))
})

func (d *Inflater) zstd(b []byte) ([]byte, error) {
	var h zstd.Header
	if err := h.Decode(b); err != nil {
		return nil, d.fail(Zstd, "%v", err)
	}
	if !h.HasFCS {
		return nil, d.fail(Zstd, "frame without a length") // an error in Python, too
	}
	if err := d.grant(Zstd, h.FrameContentSize, len(b), zstdRatio); err != nil {
		return nil, err
	}
	if h.FrameContentSize > max(atOnce(len(b)), zstdAtOnce) {
		return d.zstdGrowing(b, int(h.FrameContentSize))
	}
	dec, err := zstdDecoder()
	if err != nil {
		return nil, d.fail(Zstd, "%v", err)
	}
	out, err := dec.DecodeAll(b, make([]byte, 0, h.FrameContentSize))
	if err != nil {
		return nil, d.fail(Zstd, "%v", err)
	}
	return out, nil
}

// zstdAtOnce is the length of frames that are always decompressed at once, which is five times as fast: Dask splits
// larger ones.
const zstdAtOnce = 64 << 20

// zstdWindow bounds the window of frames that announce much: zstd's own levels need no more.
const zstdWindow = 128 << 20

// zstdGrowing decompresses a frame into memory that grows with the output.
func (d *Inflater) zstdGrowing(b []byte, size int) ([]byte, error) {
	r, err := zstd.NewReader(bytes.NewReader(b), zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true),
		zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderMaxMemory(1<<33))
	if err != nil {
		return nil, d.fail(Zstd, "%v", err)
	}
	defer r.Close()
	out := make([]byte, 0, min(size, int(atOnce(len(b)))))
	for {
		n, err := io.ReadFull(r, out[len(out):cap(out)])
		out = out[:len(out)+n]
		switch {
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return nil, d.fail(Zstd, "%d bytes came out instead of %d", len(out), size)
		case err != nil:
			return nil, d.fail(Zstd, "%v", err)
		case len(out) == size:
			if n, err := r.Read(make([]byte, 1)); n > 0 || err != io.EOF {
				return nil, d.fail(Zstd, "more than %d bytes come out", size)
			}
			return out, nil
		}
		grown := make([]byte, len(out), min(size, 4*len(out)))
		copy(grown, out)
		out = grown
	}
}

func (d *Inflater) zlib(b []byte) ([]byte, error) {
	r, err := zlib.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, d.fail(Zlib, "%v", err)
	}
	var out bytes.Buffer // grows with the output
	n, err := out.ReadFrom(io.LimitReader(r, d.left+1))
	if err != nil {
		return nil, d.fail(Zlib, "%v", err)
	}
	if n > d.left {
		return nil, d.grant(Zlib, uint64(n), int(n), 1)
	}
	return out.Bytes(), nil
}
