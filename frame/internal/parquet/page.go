package parquet

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
)

const (
	// maxPage bounds the size of a page. Writers make pages of about a megabyte.
	maxPage = 256 << 20
	// maxHeader bounds the size of the header of a page, which may have statistics.
	maxHeader = 1 << 20
)

// pageReader reads the pages of a column chunk, one after the other.
type pageReader struct {
	chunk *columnChunk
	leaf  *node
	src   *bufio.Reader
	left  int64 // bytes of the chunk that are not read yet
	raw   []byte
	data  []byte // decoded page, with slack
}

// page is a data page. Its parts are valid until the next page is read.
type page struct {
	values     int // with nulls
	rep, def   rleReader
	data       []byte // encoded values; slack bytes more are readable
	encoding   int32
	dictionary bool
}

// newPageReader begins to read a chunk. It takes over the buffers of before, which may be nil.
func newPageReader(f *File, chunk *columnChunk, leaf *node, before *pageReader) *pageReader {
	p := &pageReader{chunk: chunk, leaf: leaf, left: chunk.compressed}
	section := io.NewSectionReader(f.r, chunk.start(), chunk.compressed)
	if before != nil {
		p.src, p.raw, p.data = before.src, before.raw, before.data
		p.src.Reset(section)
	} else {
		p.src = bufio.NewReaderSize(section, int(min(max(chunk.compressed, 1<<10), 1<<16)))
	}
	return p
}

// next reads the next data or dictionary page. It returns io.EOF at the end of the chunk.
func (p *pageReader) next() (*page, error) {
	for {
		if p.left == 0 {
			return nil, io.EOF
		}
		h, err := p.header()
		if err != nil {
			return nil, err
		}
		if h.compressed < 0 || int64(h.compressed) > p.left || h.uncompressed < 0 || h.uncompressed > maxPage ||
			h.values < 0 {
			return nil, fmt.Errorf("page of %d bytes (%d uncompressed) and %d values with %d bytes left in the chunk",
				h.compressed, h.uncompressed, h.values, p.left)
		}
		if n := int(h.compressed); cap(p.raw) < n+slack {
			p.raw = make([]byte, n+slack, (n+slack)*5/4)
		}
		p.raw = p.raw[:h.compressed]
		if _, err := io.ReadFull(p.src, p.raw); err != nil {
			return nil, err
		}
		p.left -= int64(h.compressed)
		if h.hasCRC && crc32.ChecksumIEEE(p.raw) != uint32(h.crc) {
			return nil, errors.New("page has a wrong checksum")
		}
		switch h.kind {
		case pageDict:
			if h.encoding != encPlain && h.encoding != encPlainDict {
				return nil, fmt.Errorf("dictionary with encoding %d", h.encoding)
			}
			b, err := p.decode(p.raw, int(h.uncompressed))
			return &page{values: int(h.values), data: b, dictionary: true}, err
		case pageData:
			return p.dataPage(h)
		case pageDataV2:
			return p.dataPageV2(h)
		}
	}
}

// header reads the header of a page.
func (p *pageReader) header() (pageHeader, error) {
	for size := 256; ; size *= 8 {
		b, err := p.src.Peek(min(size, p.src.Size()))
		if len(b) == 0 {
			return pageHeader{}, io.ErrUnexpectedEOF
		}
		h, n, bad := readPageHeader(b)
		if bad == nil {
			_, err := p.src.Discard(n)
			p.left -= int64(n)
			return h, err
		}
		if err != nil || size >= maxHeader {
			return pageHeader{}, fmt.Errorf("header of a page: %w", bad)
		}
		if size >= p.src.Size() { // a header that is longer than the buffer
			p.src = bufio.NewReaderSize(p.src, size*8)
		}
	}
}

// decode returns the uncompressed bytes of a page.
func (p *pageReader) decode(b []byte, n int) ([]byte, error) {
	if p.chunk.codec == codecNone {
		if len(b) != n {
			return nil, fmt.Errorf("page of %d bytes without compression, want %d", len(b), n)
		}
		return b, nil
	}
	out, err := decompress(p.chunk.codec, p.data, b, n)
	if err == nil {
		p.data = out
	}
	return out, err
}

func (p *pageReader) dataPage(h pageHeader) (*page, error) {
	b, err := p.decode(p.raw, int(h.uncompressed))
	if err != nil {
		return nil, err
	}
	out := &page{values: int(h.values), encoding: h.encoding}
	for _, level := range []struct {
		max      uint8
		encoding int32
		to       *rleReader
		what     string
	}{{p.leaf.maxRep, h.repEncoding, &out.rep, "repetition"}, {p.leaf.maxDef, h.defEncoding, &out.def, "definition"}} {
		if level.max == 0 {
			continue
		}
		if level.encoding != encRLE {
			return nil, fmt.Errorf("%s levels with encoding %d are not supported", level.what, level.encoding)
		}
		if len(b) < 4 {
			return nil, fmt.Errorf("page ends within its %s levels", level.what)
		}
		n := int64(binary.LittleEndian.Uint32(b))
		if n > int64(len(b)-4) {
			return nil, fmt.Errorf("%d bytes of %s levels in a page of %d", n, level.what, len(b))
		}
		level.to.reset(b[4:cap(b)], int(n), levelWidth(level.max))
		b = b[4+n:]
	}
	out.data = b
	return out, nil
}

func (p *pageReader) dataPageV2(h pageHeader) (*page, error) {
	levels := int64(h.repBytes) + int64(h.defBytes)
	if h.repBytes < 0 || h.defBytes < 0 || levels > int64(len(p.raw)) || levels > int64(h.uncompressed) ||
		h.nulls < 0 || h.nulls > h.values {
		return nil, fmt.Errorf("levels of %d and %d bytes in a page of %d", h.repBytes, h.defBytes, len(p.raw))
	}
	out := &page{values: int(h.values), encoding: h.encoding}
	raw := p.raw
	if p.leaf.maxRep > 0 {
		out.rep.reset(raw[:cap(raw)], int(h.repBytes), levelWidth(p.leaf.maxRep))
	}
	if p.leaf.maxDef > 0 {
		out.def.reset(raw[h.repBytes:cap(raw)], int(h.defBytes), levelWidth(p.leaf.maxDef))
	}
	var err error
	if out.data = raw[levels:]; !h.uncoded && (len(out.data) > 0 || int64(h.uncompressed) > levels) {
		out.data, err = p.decode(out.data, int(int64(h.uncompressed)-levels))
	}
	return out, err
}

// levelWidth returns the number of bits of levels up to a maximum.
func levelWidth(most uint8) uint { return uint(bits.Len8(most)) }
