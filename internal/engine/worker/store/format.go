package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"sync"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/compress"
	"go.millstream.dev/wire"
)

// A spill file, all numbers little-endian:
//
//	head   "MSPL", u16 version, u16 codec, u32 key, u32 header, u32 frames, u64 bytes of all
//	       frames, u32 checksum of these 28 bytes
//	names  key, header, for each frame u64 its length (highest bit: flagged as device
//	       memory), u32 checksum
//	blocks of each frame, up to 1 MiB: u32 length, u32 length here (highest bit: compressed),
//	       the bytes, u32 checksum of all three
//
// Checksums are CRC-32C. Nothing follows the last block.
const (
	magic     = "MSPL"
	version   = 1
	headSize  = 32
	blockSize = 1 << 20
	flag32    = 1 << 31
	flag64    = 1 << 63
)

type codec uint16

const (
	codecNone codec = iota
	codecLZ4
	codecZstd
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// ErrCorrupt is returned for a spill file that has been modified or truncated.
var ErrCorrupt = errors.New("worker/store: spill file is damaged")

func corrupt(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrCorrupt, fmt.Sprintf(format, args...))
}

// codecOf returns the codec for a value of distributed.worker.memory.spill-compression. Only this worker reads the
// files, so lz4 replaces snappy and zlib.
func codecOf(name string) (codec, error) {
	name, err := compress.Parse(name)
	switch {
	case err != nil:
		return 0, fmt.Errorf("worker/store: distributed.worker.memory.spill-compression: %w", err)
	case name == "":
		return codecNone, nil
	case name == compress.Zstd:
		return codecZstd, nil
	}
	return codecLZ4, nil
}

// The zstd coders are large. They are created on first use.
var (
	zstdEncoder = sync.OnceValues(func() (*zstd.Encoder, error) {
		return zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedFastest))
	})
	zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
		return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(blockSize))
	})
)

// buffers hold compressed blocks, with their lengths and checksum.
var buffers = sync.Pool{New: func() any {
	b := make([]byte, 8+max(lz4.CompressBlockBound(blockSize), blockSize)+4)
	return &b
}}

var compressors = sync.Pool{New: func() any { return new(lz4.Compressor) }}

// writeTo writes a value. It returns an error for frames on a GPU.
func writeTo(w io.Writer, key task.Key, v *wire.Serialized, c codec) (int64, error) {
	var total uint64
	names := make([]byte, 0, len(key)+len(v.Header)+8*len(v.Frames)+4)
	names = append(append(names, key...), v.Header...)
	for _, f := range v.Frames {
		if f.OnDevice() {
			return 0, errOnDevice
		}
		n := uint64(f.Len())
		total += n
		if f.CUDA() {
			n |= flag64
		}
		names = binary.LittleEndian.AppendUint64(names, n)
	}
	if len(key) > math.MaxInt32 || len(v.Header) > math.MaxInt32 || len(v.Frames) > math.MaxInt32 {
		return 0, errors.New("key, header or number of frames is too large")
	}
	head := make([]byte, 0, headSize)
	head = append(head, magic...)
	head = binary.LittleEndian.AppendUint16(head, version)
	head = binary.LittleEndian.AppendUint16(head, uint16(c))
	head = binary.LittleEndian.AppendUint32(head, uint32(len(key)))
	head = binary.LittleEndian.AppendUint32(head, uint32(len(v.Header)))
	head = binary.LittleEndian.AppendUint32(head, uint32(len(v.Frames)))
	head = binary.LittleEndian.AppendUint64(head, total)
	bw := &blockWriter{w: w, codec: c}
	if c == codecLZ4 {
		bw.lz4 = compressors.Get().(*lz4.Compressor)
		defer compressors.Put(bw.lz4)
	}
	bw.write(binary.LittleEndian.AppendUint32(head, crc32.Checksum(head, castagnoli)))
	bw.write(binary.LittleEndian.AppendUint32(names, crc32.Checksum(names, castagnoli)))
	for _, f := range v.Frames {
		bw.frame(f.Bytes())
	}
	return bw.n, bw.err
}

// blockWriter writes frames as blocks and keeps the first error.
type blockWriter struct {
	w     io.Writer
	codec codec
	lz4   *lz4.Compressor // reused because its table is large
	n     int64
	err   error
	skip  int // number of blocks to write uncompressed
}

func (w *blockWriter) write(b []byte) {
	if w.err == nil {
		var n int
		n, w.err = w.w.Write(b)
		w.n += int64(n)
	}
}

func (w *blockWriter) frame(b []byte) {
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	for len(b) > 0 && w.err == nil {
		raw := b[:min(len(b), blockSize)]
		b = b[len(raw):]
		packed, ok := w.compress(raw, (*buf)[8:])
		sum := crc32.New(castagnoli)
		binary.LittleEndian.PutUint32(*buf, uint32(len(raw)))
		if ok {
			n := 8 + len(packed)
			binary.LittleEndian.PutUint32((*buf)[4:], uint32(len(packed))|flag32)
			_, _ = sum.Write((*buf)[:n])
			w.write(binary.LittleEndian.AppendUint32((*buf)[:n], sum.Sum32()))
			continue
		}
		binary.LittleEndian.PutUint32((*buf)[4:], uint32(len(raw)))
		_, _ = sum.Write((*buf)[:8])
		_, _ = sum.Write(raw)
		w.write((*buf)[:8])
		w.write(raw)
		w.write(binary.LittleEndian.AppendUint32((*buf)[:0], sum.Sum32()))
	}
}

// tries is the number of blocks written uncompressed after one that did not compress well.
const tries = 15

// compress compresses a block into dst, if that saves a tenth.
func (w *blockWriter) compress(raw, dst []byte) ([]byte, bool) {
	if w.codec == codecNone || len(raw) < 512 {
		return nil, false
	}
	if w.skip > 0 {
		w.skip--
		return nil, false
	}
	most := len(raw) - len(raw)/10
	var out []byte
	switch w.codec {
	case codecLZ4:
		n, err := w.lz4.CompressBlock(raw, dst[:lz4.CompressBlockBound(len(raw))])
		if err == nil {
			out = dst[:n]
		}
	case codecZstd:
		if e, err := zstdEncoder(); err == nil {
			out = e.EncodeAll(raw, dst[:0])
			if len(out) > 0 && len(out) < most && &out[0] != &dst[0] {
				copy(dst, out)
				out = dst[:len(out)]
			}
		}
	}
	if len(out) == 0 || len(out) >= most {
		w.skip = tries
		return nil, false
	}
	return out, true
}

// readFrom reads a value from size bytes of a file. It must have the given key and at most limit bytes of frames.
func readFrom(r io.Reader, size int64, key task.Key, limit int64) (*wire.Serialized, error) {
	in := &blockReader{r: r, left: size}
	head := in.read(make([]byte, headSize))
	if in.err != nil {
		return nil, in.err
	}
	le := binary.LittleEndian
	if string(head[:4]) != magic {
		return nil, corrupt("magic is not %q", magic)
	}
	if v := le.Uint16(head[4:]); v != version {
		return nil, corrupt("version %d, this program reads %d", v, version)
	}
	if crc32.Checksum(head[:28], castagnoli) != le.Uint32(head[28:]) {
		return nil, corrupt("checksum of the head")
	}
	c := codec(le.Uint16(head[6:]))
	nkey, nheader, nframes := int64(le.Uint32(head[8:])), int64(le.Uint32(head[12:])), int64(le.Uint32(head[16:]))
	total := le.Uint64(head[20:])
	if c > codecZstd || total > uint64(limit) || nkey+nheader+8*nframes+4 > in.left {
		return nil, corrupt("codec %d, %d bytes in %d frames, limit %d, file size %d", c, total,
			nframes, limit, size)
	}
	names := in.read(make([]byte, nkey+nheader+8*nframes+4))
	if in.err != nil {
		return nil, in.err
	}
	names, sum := names[:len(names)-4], le.Uint32(names[len(names)-4:])
	if crc32.Checksum(names, castagnoli) != sum {
		return nil, corrupt("checksum of the names")
	}
	if string(names[:nkey]) != string(key) {
		return nil, corrupt("wrong key")
	}
	table := names[nkey+nheader:]
	v := &wire.Serialized{Header: names[nkey : nkey+nheader : nkey+nheader], Frames: make([]wire.Frame, nframes)}
	for i := range v.Frames {
		n := le.Uint64(table[8*i:])
		cuda := n&flag64 != 0
		if n &^= flag64; n > total {
			return nil, corrupt("frame %d has %d bytes of %d", i, n, total)
		}
		total -= n
		b := in.frame(int(n), c)
		if in.err != nil {
			return nil, in.err
		}
		if v.Frames[i] = wire.HeapFrame(b); cuda {
			v.Frames[i] = v.Frames[i].WithCUDA()
		}
	}
	if total != 0 || in.left != 0 {
		return nil, corrupt("%d extra bytes", max(int64(total), in.left))
	}
	return v, nil
}

// blockReader reads blocks and keeps the first error.
type blockReader struct {
	r    io.Reader
	left int64
	err  error
}

func (r *blockReader) read(b []byte) []byte {
	if r.err != nil {
		return b
	}
	if int64(len(b)) > r.left {
		r.err = corrupt("unexpected end")
		return b
	}
	n, err := io.ReadFull(r.r, b)
	r.left -= int64(n)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = corrupt("unexpected end")
	}
	r.err = err
	return b
}

// frame reads one frame. The allocation is bounded by what the remaining blocks can hold.
func (r *blockReader) frame(n int, c codec) []byte {
	if blocks := (int64(n) + blockSize - 1) / blockSize; blocks*12 > r.left {
		r.err = corrupt("%d bytes cannot hold a frame of %d", r.left, n)
		return nil
	}
	out := make([]byte, n)
	buf := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	le := binary.LittleEndian
	for at := 0; at < n && r.err == nil; {
		dst := out[at:min(n, at+blockSize)]
		head := r.read((*buf)[:8])
		if r.err != nil {
			break
		}
		raw, stored := le.Uint32(head), le.Uint32(head[4:])
		packed := stored&flag32 != 0
		stored &^= flag32
		if int(raw) != len(dst) || int(stored) > blockSize || !packed && stored != raw {
			r.err = corrupt("block of %d bytes has lengths %d and %d", len(dst), raw, stored)
			break
		}
		sum := crc32.Checksum(head, castagnoli)
		body := dst
		if packed {
			body = (*buf)[8 : 8+stored]
		}
		r.read(body)
		sum = crc32.Update(sum, castagnoli, body)
		tail := r.read(make([]byte, 4))
		if r.err == nil && le.Uint32(tail) != sum {
			r.err = corrupt("checksum of a block")
		}
		if r.err == nil && packed {
			r.err = decompress(dst, body, c)
		}
		at += len(dst)
	}
	return out
}

// decompress decompresses a block into dst.
func decompress(dst, packed []byte, c codec) error {
	switch c {
	case codecLZ4:
		if n, err := lz4.UncompressBlock(packed, dst); err != nil || n != len(dst) {
			return corrupt("lz4: %d of %d bytes: %v", n, len(dst), err)
		}
		return nil
	case codecZstd:
		d, err := zstdDecoder()
		if err != nil {
			return err
		}
		out, err := d.DecodeAll(packed, dst[:0:len(dst)])
		if err != nil || len(out) != len(dst) || &out[0] != &dst[0] {
			return corrupt("zstd: %d of %d bytes: %v", len(out), len(dst), err)
		}
		return nil
	}
	return corrupt("compressed block in a file without compression")
}
