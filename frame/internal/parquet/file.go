package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
)

const (
	magic          = "PAR1"
	magicEncrypted = "PARE"
	// maxFooter bounds the metadata of a file. Footers of ten thousand columns in a hundred row groups are smaller.
	maxFooter = 128 << 20
	// rowsPerByte bounds the rows of a file by its size: a column of one value has about a thousand rows for each byte.
	rowsPerByte = 1 << 16
)

// File is the metadata of a Parquet file.
type File struct {
	r      io.ReaderAt
	size   int64
	meta   *metadata
	schema *arrow.Schema
	fields []*node // columns of the schema
	leaves []*node
}

// RowGroup describes a row group.
type RowGroup struct {
	Rows int64
	// Bytes is the uncompressed size of the columns, FileBytes the compressed one.
	Bytes, FileBytes int64
}

// Open reads the metadata of a file of a size.
func Open(r io.ReaderAt, size int64) (*File, error) {
	b, err := readFooter(r, size)
	if err != nil {
		return nil, err
	}
	m, err := readMetadata(b)
	if err != nil {
		return nil, err
	}
	if m.encrypted {
		return nil, errors.New("encrypted columns are not supported")
	}
	f := &File{r: r, size: size, meta: m}
	if err := f.buildSchema(); err != nil {
		return nil, err
	}
	return f, f.check()
}

// readFooter returns the bytes of the metadata.
func readFooter(r io.ReaderAt, size int64) ([]byte, error) {
	var end [8]byte
	if size < int64(len(end))+4 {
		return nil, fmt.Errorf("file of %d bytes is not a Parquet file, or truncated", size)
	}
	if err := readAt(r, end[:], size-8); err != nil {
		return nil, err
	}
	switch string(end[4:]) {
	case magic:
	case magicEncrypted:
		return nil, errors.New("encrypted files are not supported")
	default:
		return nil, fmt.Errorf("file does not end with %q: not a Parquet file, or truncated", magic)
	}
	n := int64(binary.LittleEndian.Uint32(end[:]))
	if n > size-12 || n > maxFooter {
		return nil, fmt.Errorf("footer of %d bytes in a file of %d bytes: file is damaged", n, size)
	}
	b := make([]byte, n)
	return b, readAt(r, b, size-8-n)
}

func readAt(r io.ReaderAt, b []byte, at int64) error {
	n, err := r.ReadAt(b, at)
	if n == len(b) {
		return nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// check returns an error for metadata that contradicts itself or the size of the file.
func (f *File) check() error {
	var rows int64
	for i, g := range f.meta.groups {
		if g.rows < 0 || g.rows > f.size*rowsPerByte {
			return fmt.Errorf("row group %d: %d rows in a file of %d bytes", i, g.rows, f.size)
		}
		rows += g.rows // at most size/6 groups
		if len(g.columns) != len(f.leaves) {
			return fmt.Errorf("row group %d: %d columns, the schema has %d", i, len(g.columns), len(f.leaves))
		}
		for j := range g.columns {
			if err := f.checkChunk(&g.columns[j], f.leaves[j], g.rows); err != nil {
				return fmt.Errorf("row group %d, column %q: %w", i, f.leaves[j].path(), err)
			}
		}
	}
	if rows != f.meta.rows || rows < 0 {
		return fmt.Errorf("metadata has %d rows, the row groups have %d", f.meta.rows, rows)
	}
	return nil
}

func (f *File) checkChunk(c *columnChunk, n *node, rows int64) error {
	if c.path != "" {
		return fmt.Errorf("data in another file, %q, is not supported", c.path)
	}
	if c.physical != n.element.physical {
		return fmt.Errorf("chunk of type %d, the schema has %d", c.physical, n.element.physical)
	}
	from := c.start()
	if from < 4 || c.compressed < 0 || c.compressed > f.size || from > f.size-c.compressed || c.uncompressed < 0 {
		return fmt.Errorf("chunk of %d bytes at byte %d of a file of %d bytes", c.compressed, from, f.size)
	}
	if c.values < 0 || n.maxRep == 0 && c.values != rows || c.values > f.size*rowsPerByte {
		return fmt.Errorf("%d values in %d rows", c.values, rows)
	}
	return nil
}

// start returns the offset of the first page.
func (c *columnChunk) start() int64 {
	if c.dictOffset > 0 && c.dictOffset < c.dataOffset {
		return c.dictOffset
	}
	return c.dataOffset
}

// Schema returns the schema of the file.
func (f *File) Schema() *arrow.Schema { return f.schema }

// HasGroup reports whether the file has a row group with a number.
func (f *File) HasGroup(n int) bool { return n >= 0 && n < len(f.meta.groups) }

// NumRows returns the number of rows of the file.
func (f *File) NumRows() int64 { return f.meta.rows }

// RowGroups describes the row groups of the file.
func (f *File) RowGroups() []RowGroup {
	out := make([]RowGroup, len(f.meta.groups))
	for i, g := range f.meta.groups {
		out[i].Rows = g.rows
		for _, c := range g.columns {
			out[i].Bytes += c.uncompressed
			out[i].FileBytes += c.compressed
		}
	}
	return out
}

// ColumnBytes returns the uncompressed sizes of the columns of the schema.
func (f *File) ColumnBytes() []int64 {
	out := make([]int64, len(f.fields))
	for i, n := range f.fields {
		for _, g := range f.meta.groups {
			for _, l := range n.leafRange() {
				out[i] += g.columns[l].uncompressed
			}
		}
	}
	return out
}
