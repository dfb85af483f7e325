package parquet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// slack is the number of readable bytes after the data of a page, so that decoders may load whole words.
const slack = 16

// zstdDecoder decodes blocks; it is safe for concurrent use. Its output is bounded by the capacity of the buffer.
var zstdDecoder = sync.OnceValues(func() (*zstd.Decoder, error) {
	return zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(maxPage),
		zstd.WithDecodeAllCapLimit(true))
})

// decompress decodes src, whose decoded size is n, into a buffer that it may reuse. The result has slack bytes after
// it.
func decompress(codec int32, dst, src []byte, n int) ([]byte, error) {
	if codec != codecNone && n > 0 && len(src) == 0 {
		return nil, errors.New("no compressed data")
	}
	if cap(dst) < n+slack {
		if err := checkRatio(codec, src, n); err != nil {
			return nil, err
		}
		dst = make([]byte, n+slack)
	}
	dst = dst[:n]
	var got int
	var err error
	switch codec {
	case codecNone:
		got = copy(dst, src)
		if len(src) != n {
			got = len(src)
		}
	case codecSnappy:
		var out []byte
		if got, err = snappy.DecodedLen(src); err == nil && got == n {
			out, err = snappy.Decode(dst, src)
			got = len(out)
		}
	case codecGzip:
		got, err = gunzip(dst, src)
	case codecZstd:
		var d *zstd.Decoder
		if d, err = zstdDecoder(); err == nil {
			var out []byte
			out, err = d.DecodeAll(src, dst[:0:n])
			got = len(out)
		}
	case codecLZ4Raw:
		got, err = lz4.UncompressBlock(src, dst)
	case codecLZ4:
		got, err = unframeLZ4(dst, src)
	case codecBrotli:
		return nil, errors.New("codec brotli is not supported; write the file with zstd or snappy")
	default:
		return nil, fmt.Errorf("codec %d is not supported", codec)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot decompress: %w", err)
	}
	if got != n {
		return nil, fmt.Errorf("page of %d bytes after decompression, want %d", got, n)
	}
	return dst[:n], nil
}

// checkRatio returns an error for a claimed size that the data cannot have, before memory is allocated for it.
func checkRatio(codec int32, src []byte, n int) error {
	most := int64(maxPage)
	switch codec {
	case codecNone:
		most = int64(len(src))
	case codecSnappy:
		most = 64 + int64(len(src))*32 // at most 64 bytes for 3
	case codecGzip, codecLZ4, codecLZ4Raw:
		most = 1024 + int64(len(src))*1100
	}
	if int64(n) > most {
		return fmt.Errorf("page of %d bytes claims %d bytes after decompression", len(src), n)
	}
	return nil
}

var gzipReaders sync.Pool

func gunzip(dst, src []byte) (int, error) {
	z, _ := gzipReaders.Get().(*gzip.Reader)
	var err error
	if z == nil {
		z, err = gzip.NewReader(bytes.NewReader(src))
	} else {
		err = z.Reset(bytes.NewReader(src))
	}
	if err != nil {
		return 0, err
	}
	defer gzipReaders.Put(z)
	n, err := io.ReadFull(z, dst)
	if err != nil {
		return n, err
	}
	var more [1]byte
	if k, err := z.Read(more[:]); k > 0 {
		return n + k, nil
	} else if err != nil && !errors.Is(err, io.EOF) {
		return n, err
	}
	return n, nil
}

// unframeLZ4 decodes the codec LZ4, which is that of Hadoop: blocks with two lengths each; some writers left them out.
func unframeLZ4(dst, src []byte) (int, error) {
	at, out := 0, 0
	for at+8 <= len(src) {
		n, m := int(binary.BigEndian.Uint32(src[at:])), int(binary.BigEndian.Uint32(src[at+4:]))
		if m > len(src)-at-8 || n > len(dst)-out {
			break
		}
		k, err := lz4.UncompressBlock(src[at+8:at+8+m], dst[out:out+n])
		if err != nil || k != n {
			break
		}
		at, out = at+8+m, out+n
	}
	if at == len(src) {
		return out, nil
	}
	return lz4.UncompressBlock(src, dst)
}

var zstdEncoder = sync.OnceValues(func() (*zstd.Encoder, error) {
	return zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
		zstd.WithEncoderCRC(false))
})

// compress returns src in a codec, in a buffer that it may reuse. Without a codec it returns src.
func compress(codec int32, dst, src []byte) ([]byte, error) {
	switch codec {
	case codecNone:
		return src, nil
	case codecSnappy:
		return snappy.Encode(dst[:cap(dst)], src), nil
	case codecZstd:
		e, err := zstdEncoder()
		if err != nil {
			return nil, err
		}
		return e.EncodeAll(src, dst[:0]), nil
	case codecGzip:
		out := bytes.NewBuffer(dst[:0])
		z := gzip.NewWriter(out)
		if _, err := z.Write(src); err != nil {
			return nil, err
		}
		err := z.Close()
		return out.Bytes(), err
	case codecLZ4Raw:
		if n := lz4.CompressBlockBound(len(src)); cap(dst) < n {
			dst = make([]byte, n)
		}
		var c lz4.Compressor
		n, err := c.CompressBlock(src, dst[:cap(dst)])
		if err == nil && n == 0 { // not compressible: one block of literals
			return literals(dst[:0], src), nil
		}
		return dst[:n], err
	}
	return nil, fmt.Errorf("codec %d is not supported", codec)
}

// literals returns a block of LZ4 that has src as it is.
func literals(dst, src []byte) []byte {
	n := len(src)
	if n < 15 {
		return append(append(dst, byte(n)<<4), src...)
	}
	dst = append(dst, 15<<4)
	for n -= 15; n >= 255; n -= 255 {
		dst = append(dst, 255)
	}
	return append(append(dst, byte(n)), src...)
}
