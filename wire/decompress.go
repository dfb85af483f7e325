package wire

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

// The most that one byte can become: what a frame promises beyond that is a lie, and is
// not allocated. An lz4 length byte stands for 255 bytes, a snappy copy of 3 bytes for 64,
// and 4 bytes of zstd for a block of 128 KiB.
const (
	lz4Ratio    = 255
	snappyRatio = 22
	zstdRatio   = 128 << 10 / 4
)

// ErrDecompress is the error, found by errors.Is, of frames that are compressed wrongly
// or become too large.
var ErrDecompress = errors.New("cannot decompress")

// inflater decompresses the frames of one message within one budget.
type inflater struct {
	left  int64 // bytes that may still come out
	limit int64 // of all, for messages
}

func (d *inflater) fail(name, format string, args ...any) error {
	return fmt.Errorf("wire: %w %s: %s", ErrDecompress, name, fmt.Sprintf(format, args...))
}

// grant checks a promised length against what the bytes can hold and against the budget.
func (d *inflater) grant(name string, size uint64, have int, ratio uint64) error {
	if size > uint64(have)*ratio+64 {
		return d.fail(name, "%d bytes cannot become %d", have, size)
	}
	if size > uint64(d.left) {
		return d.fail(name, "the message becomes larger than %d bytes: raise DecodeOptions.MaxDecompressed if that is right", d.limit)
	}
	return nil
}

// decompress returns the payload of one frame.
func (d *inflater) decompress(name string, b []byte) (out []byte, err error) {
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
		return nil, d.fail(fmt.Sprintf("%.40q", name), "there is no such compression")
	}
	if err != nil {
		return nil, err
	}
	d.left -= int64(len(out))
	return out, nil
}

func (d *inflater) lz4(b []byte) ([]byte, error) {
	if len(b) < 4 {
		return nil, d.fail(LZ4, "%d bytes have no length in front", len(b))
	}
	size := uint64(binary.LittleEndian.Uint32(b))
	if err := d.grant(LZ4, size, len(b), lz4Ratio); err != nil {
		return nil, err
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

func (d *inflater) snappy(b []byte) ([]byte, error) {
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

// zstdDecoder is shared: DecodeAll may be called by many. It writes no more than the
// capacity that it is given.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderLowmem(true),
		zstd.WithDecodeAllCapLimit(true), zstd.WithDecoderMaxMemory(1<<33))
})

func (d *inflater) zstd(b []byte) ([]byte, error) {
	var h zstd.Header
	if err := h.Decode(b); err != nil {
		return nil, d.fail(Zstd, "%v", err)
	}
	if !h.HasFCS {
		return nil, d.fail(Zstd, "the frame does not tell its length") // an error to Python, too
	}
	if err := d.grant(Zstd, h.FrameContentSize, len(b), zstdRatio); err != nil {
		return nil, err
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

func (d *inflater) zlib(b []byte) ([]byte, error) {
	r, err := zlib.NewReader(bytes.NewReader(b))
	if err != nil {
		return nil, d.fail(Zlib, "%v", err)
	}
	var out bytes.Buffer // grows with what comes out, not by a promise
	n, err := out.ReadFrom(io.LimitReader(r, d.left+1))
	if err != nil {
		return nil, d.fail(Zlib, "%v", err)
	}
	if n > d.left {
		return nil, d.grant(Zlib, uint64(n), int(n), 1)
	}
	return out.Bytes(), nil
}
