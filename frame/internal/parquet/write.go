package parquet

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Codec is a compression.
type Codec string

// The codecs for writing.
const (
	Snappy       Codec = "snappy"
	Zstd         Codec = "zstd"
	Gzip         Codec = "gzip"
	LZ4          Codec = "lz4"
	Uncompressed Codec = "none"
)

// codecs has the numbers of the codecs.
var codecs = map[Codec]int32{Snappy: codecSnappy, Zstd: codecZstd, Gzip: codecGzip, LZ4: codecLZ4Raw,
	Uncompressed: codecNone}

// WriteOptions specifies how files are written. The zero value is useful.
type WriteOptions struct {
	// Codec is the compression (default Snappy).
	Codec Codec
	// GroupBytes bounds the size of a row group in memory (default 128 MiB). It has at least one row.
	GroupBytes int64
	// GroupRows bounds the rows of a row group (default 1048576).
	GroupRows int64
	// NoDictionary turns dictionaries off.
	NoDictionary bool
}

// Check returns an error for options that have no meaning.
func (o WriteOptions) Check() error {
	if _, ok := codecs[o.Codec]; !ok && o.Codec != "" {
		return fmt.Errorf("unknown Parquet codec %q; use snappy, zstd, gzip, lz4 or none", o.Codec)
	}
	return nil
}

// Writer writes a file. Every batch becomes one or more row groups.
type Writer struct {
	w      io.Writer
	at     int64
	schema *arrow.Schema
	opts   WriteOptions
	codec  int32
	leaves []writeLeaf
	groups []rowGroup
	rows   int64
	err    error
}

// NewWriter writes the beginning of a file. It returns an error for columns of types that Parquet does not have.
func NewWriter(w io.Writer, schema *arrow.Schema, opts WriteOptions) (*Writer, error) {
	if err := opts.Check(); err != nil {
		return nil, err
	}
	if opts.Codec == "" {
		opts.Codec = Snappy
	}
	if opts.GroupBytes <= 0 {
		opts.GroupBytes = 128 << 20
	}
	if opts.GroupRows <= 0 {
		opts.GroupRows = 1 << 20
	}
	out := &Writer{w: w, schema: schema, opts: opts, codec: codecs[opts.Codec]}
	for _, f := range schema.Fields() {
		l, err := newWriteLeaf(f)
		if err != nil {
			return nil, err
		}
		out.leaves = append(out.leaves, l)
	}
	return out, out.put([]byte(magic))
}

func (w *Writer) put(b []byte) error {
	if w.err == nil {
		var n int
		n, w.err = w.w.Write(b)
		w.at += int64(n)
	}
	return w.err
}

// Write writes a batch as row groups of about equal size.
func (w *Writer) Write(b arrow.RecordBatch) error {
	if w.err != nil {
		return w.err
	}
	rows := b.NumRows()
	if rows == 0 {
		return nil
	}
	groups := max((rows+w.opts.GroupRows-1)/w.opts.GroupRows, (batchSize(b)+w.opts.GroupBytes-1)/w.opts.GroupBytes, 1)
	size := (rows + groups - 1) / groups
	for at := int64(0); at < rows; at += size {
		part := b.NewSlice(at, min(rows, at+size))
		err := w.writeGroup(part)
		part.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// batchSize returns the approximate size of a batch in memory.
func batchSize(b arrow.RecordBatch) int64 {
	var n int64
	for _, c := range b.Columns() {
		switch a := c.(type) {
		case *array.String:
			n += int64(len(a.ValueBytes()) + 4*a.Len())
		case *array.Binary:
			n += int64(len(a.ValueBytes()) + 4*a.Len())
		default:
			n += int64(c.Data().SizeInBytes())
		}
	}
	return n
}

func (w *Writer) writeGroup(b arrow.RecordBatch) error {
	g := rowGroup{rows: b.NumRows(), columns: make([]columnChunk, len(w.leaves))}
	for i := range w.leaves {
		l := &w.leaves[i]
		chunk, pages, err := l.encode(b.Column(i), w.codec, w.opts.NoDictionary)
		if err != nil {
			return fmt.Errorf("column %q: %w", l.name, err)
		}
		chunk.dataOffset += w.at
		if chunk.dictOffset >= 0 {
			chunk.dictOffset = w.at
		} else {
			chunk.dictOffset = 0
		}
		if err := w.put(pages); err != nil {
			return err
		}
		g.columns[i] = chunk
		g.bytes += chunk.uncompressed
	}
	w.groups = append(w.groups, g)
	w.rows += g.rows
	return nil
}

// Close writes the footer.
func (w *Writer) Close() error {
	if w.err != nil {
		return w.err
	}
	text, err := encodeArrowSchema(w.schema)
	if err != nil {
		return err
	}
	b := w.footer(base64.StdEncoding.EncodeToString(text))
	if len(b) > maxFooter {
		return errors.New("metadata is too long; write larger row groups")
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(b)))
	if err := w.put(append(b, magic...)); err != nil {
		return err
	}
	w.err = errors.New("writer is closed")
	return nil
}

// writeLeaf is a column of a file that is written.
type writeLeaf struct {
	name     string
	dt       arrow.DataType
	physical int32
	length   int32 // of a fixed-size value
	logical  logical
	nullable bool
}

// newWriteLeaf returns the form of a field in a file.
func newWriteLeaf(f arrow.Field) (writeLeaf, error) {
	dt := f.Type
	if d, ok := dt.(*arrow.DictionaryType); ok {
		dt = d.ValueType
	}
	l := writeLeaf{name: f.Name, dt: dt, nullable: f.Nullable}
	integer := func(bits int8, signed bool) logical { return logical{kind: logicalInteger, bits: bits, signed: signed} }
	switch t := dt.(type) {
	case *arrow.BooleanType:
		l.physical = typeBool
	case *arrow.Int8Type:
		l.physical, l.logical = typeInt32, integer(8, true)
	case *arrow.Int16Type:
		l.physical, l.logical = typeInt32, integer(16, true)
	case *arrow.Int32Type:
		l.physical = typeInt32
	case *arrow.Int64Type, *arrow.DurationType:
		l.physical = typeInt64
	case *arrow.Uint8Type:
		l.physical, l.logical = typeInt32, integer(8, false)
	case *arrow.Uint16Type:
		l.physical, l.logical = typeInt32, integer(16, false)
	case *arrow.Uint32Type:
		l.physical, l.logical = typeInt32, integer(32, false)
	case *arrow.Uint64Type:
		l.physical, l.logical = typeInt64, integer(64, false)
	case *arrow.Float16Type:
		l.physical, l.length, l.logical = typeFixed, 2, logical{kind: logicalFloat16}
	case *arrow.Float32Type:
		l.physical = typeFloat
	case *arrow.Float64Type:
		l.physical = typeDouble
	case *arrow.StringType, *arrow.LargeStringType:
		l.physical, l.logical = typeBytes, logical{kind: logicalString}
	case *arrow.BinaryType, *arrow.LargeBinaryType:
		l.physical = typeBytes
	case *arrow.FixedSizeBinaryType:
		l.physical, l.length = typeFixed, int32(t.ByteWidth)
		if t.ByteWidth < 1 || t.ByteWidth > 1<<20 {
			return l, fmt.Errorf("column %q: type %v is not supported in Parquet files", f.Name, f.Type)
		}
	case *arrow.Date32Type:
		l.physical, l.logical = typeInt32, logical{kind: logicalDate}
	case *arrow.Time32Type:
		l.physical, l.logical = typeInt32, logical{kind: logicalTime, unit: 1}
	case *arrow.Time64Type:
		l.physical, l.logical = typeInt64, logical{kind: logicalTime, unit: 2}
		if t.Unit == arrow.Nanosecond {
			l.logical.unit = 3
		}
	case *arrow.TimestampType:
		l.physical, l.logical = typeInt64, logical{kind: logicalTimestamp, utc: t.TimeZone != "", unit: 1}
		switch t.Unit {
		case arrow.Microsecond:
			l.logical.unit = 2
		case arrow.Nanosecond:
			l.logical.unit = 3
		}
	case *arrow.Decimal128Type:
		l.decimal(t.Precision, t.Scale, 16)
	case *arrow.Decimal256Type:
		l.decimal(t.Precision, t.Scale, 32)
	default:
		return l, fmt.Errorf("column %q: type %v is not supported in Parquet files", f.Name, f.Type)
	}
	return l, nil
}

// decimal chooses the smallest physical type for decimals.
func (l *writeLeaf) decimal(precision, scale int32, width int32) {
	l.logical = logical{kind: logicalDecimal, precision: precision, scale: scale}
	switch {
	case precision <= 9:
		l.physical = typeInt32
	case precision <= 18:
		l.physical = typeInt64
	default:
		l.physical, l.length = typeFixed, width
	}
}

// seconds is the number of units of a file in one of Arrow: Parquet has no timestamps and times in seconds.
func (l *writeLeaf) seconds() int64 {
	switch t := l.dt.(type) {
	case *arrow.TimestampType:
		if t.Unit == arrow.Second {
			return 1000
		}
	case *arrow.Time32Type:
		if t.Unit == arrow.Second {
			return 1000
		}
	}
	return 1
}

// times multiplies integers, with a check.
func times(v, by int64) (int64, error) {
	if v > math.MaxInt64/by || v < math.MinInt64/by {
		return 0, fmt.Errorf("%d seconds do not fit in a number of milliseconds", v)
	}
	return v * by, nil
}
