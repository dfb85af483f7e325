// Package compress implements the compressions of frames in Dask's messages.
package compress

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Names of compressions, as in the handshake and in headers.
const (
	// LZ4 is a block after its length in 4 bytes, little-endian.
	LZ4 = "lz4"
	// Zstd is a frame that contains its length.
	Zstd = "zstd"
	// Snappy is a raw block.
	Snappy = "snappy"
	// Zlib is a zlib stream.
	Zlib = "zlib"
)

// Names returns the names of all compressions.
func Names() []string { return []string{LZ4, Zstd, Snappy, Zlib} }

// Parse returns the compression of a setting, "" for none: "auto" is LZ4, Dask's choice if it is installed. It is for
// distributed.comm.compression and for the offer of a peer.
func Parse(name string) (string, error) {
	switch name {
	case "", "false", "False", "none", "None":
		return "", nil
	case "auto":
		return LZ4, nil
	case LZ4, Zstd, Snappy, Zlib:
		return name, nil
	}
	return "", fmt.Errorf("unknown compression %.40q: use auto, lz4, zstd, snappy, zlib or false "+
		"(distributed.comm.compression)", name)
}

// Dask's parameters: smaller and larger payloads are not compressed, five samples decide whether it is worthwhile, and
// it is if at most 70 % is left.
const (
	minSize    = 10_000
	maxSize    = 1 << 31
	sampleSize = 10_000
	samples    = 5
	worthRatio = 0.7
)

// zstdLevel is Dask's default of distributed.comm.zstd.level.
const zstdLevel = 3

// Compressor compresses the frames of a message.
type Compressor struct {
	// Name is one of Names, "" for none.
	Name string
	// Level is the level of zstd (default 3).
	Level int
}

// Maybe compresses a payload if worthwhile, and returns the compression's name, or "" and the payload itself.
func (c Compressor) Maybe(payload []byte) (string, []byte, error) {
	if c.Name == "" || len(payload) < minSize || len(payload) > maxSize {
		return "", payload, nil
	}
	sample := byteSample(payload, sampleSize, samples)
	out, err := c.Compress(sample)
	if err != nil {
		return "", nil, err
	}
	if float64(len(out)) > worthRatio*float64(len(sample)) {
		return "", payload, nil
	}
	if out, err = c.Compress(payload); err != nil {
		return "", nil, err
	}
	if float64(len(out)) > worthRatio*float64(len(payload)) {
		return "", payload, nil
	}
	return c.Name, out, nil
}

// byteSample joins n pieces of b from random positions. A piece ends early where the next one starts within it, as in
// Dask.
func byteSample(b []byte, size, n int) []byte {
	last := len(b) - size
	out := make([]byte, 0, size*n)
	start := rand.IntN(last + 1)
	for range n - 1 {
		next := rand.IntN(last + 1)
		if end := min(start+size, next); end > start {
			out = append(out, b[start:end]...)
		}
		start = next
	}
	return append(out, b[start:start+size]...)
}

// Compress returns the compressed payload, whatever its length.
func (c Compressor) Compress(b []byte) ([]byte, error) {
	switch c.Name {
	case LZ4:
		out := make([]byte, 4+lz4.CompressBlockBound(len(b)))
		binary.LittleEndian.PutUint32(out, uint32(len(b)))
		n, err := lz4.CompressBlock(b, out[4:], nil)
		if err != nil {
			return nil, fmt.Errorf("wire: lz4: %w", err)
		}
		if n == 0 && len(b) > 0 { // incompressible: a block of literals would be longer
			return out, nil
		}
		return out[:4+n], nil
	case Zstd:
		e, err := zstdEncoder(c.Level)
		if err != nil {
			return nil, err
		}
		return e.EncodeAll(b, nil), nil
	case Snappy:
		return snappy.Encode(nil, b), nil
	case Zlib:
		var out bytes.Buffer
		w := zlib.NewWriter(&out)
		_, _ = w.Write(b) // a bytes.Buffer takes everything
		if err := w.Close(); err != nil {
			return nil, fmt.Errorf("wire: zlib: %w", err)
		}
		return out.Bytes(), nil
	}
	return nil, fmt.Errorf("wire: unknown compression %.40q", c.Name)
}

// zstdEncoders are shared by all messages: creating one costs more than most frames, and EncodeAll may be called
// concurrently.
var zstdEncoders struct {
	mu sync.Mutex
	m  map[zstd.EncoderLevel]*zstd.Encoder
}

func zstdEncoder(level int) (*zstd.Encoder, error) {
	if level == 0 {
		level = zstdLevel
	}
	l := zstd.EncoderLevelFromZstd(level)
	zstdEncoders.mu.Lock()
	defer zstdEncoders.mu.Unlock()
	if e := zstdEncoders.m[l]; e != nil {
		return e, nil
	}
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(l), zstd.WithEncoderConcurrency(2),
		zstd.WithLowerEncoderMem(true),
		zstd.WithAllLitEntropyCompression(true)) // numbers in few bits have no matches, and Dask compresses them
	if err != nil {
		return nil, fmt.Errorf("wire: zstd: %w", err)
	}
	if zstdEncoders.m == nil {
		zstdEncoders.m = make(map[zstd.EncoderLevel]*zstd.Encoder)
	}
	zstdEncoders.m[l] = e
	return e, nil
}
