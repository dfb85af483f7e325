package parquet

import (
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// columnReader reads the values of one flat column of a row group.
type columnReader struct {
	leaf  *node
	dt    arrow.DataType
	pages *pageReader
	page  *page
	left  int  // values of the page
	seen  bool // a dictionary was read
	last  int  // bytes of the texts of the batch before
	kind  kind
	fixed fixedReader
	bytes bytesReader
	bools boolReader
}

// kind is the way in which the values of a column are decoded.
type kind int

const (
	kindFixed kind = iota
	kindBytes
	kindBool
	kindDecimalBytes // decimals of any length
)

// newColumnReader returns a reader for chunks of a leaf, whose values have a type in memory.
func newColumnReader(leaf *node, dt arrow.DataType) (*columnReader, error) {
	c := &columnReader{leaf: leaf, dt: dt}
	e := leaf.element
	width := 0
	if t, ok := dt.(arrow.FixedWidthDataType); ok {
		width = t.BitWidth() / 8
	}
	decimal := dt.ID() == arrow.DECIMAL128 || dt.ID() == arrow.DECIMAL256
	f := &c.fixed
	switch e.physical {
	case typeBool:
		c.kind = kindBool
	case typeInt32:
		f.physical, f.width = 4, width
		if decimal {
			f.convert = widen(4, width)
		} else if width < 4 {
			f.convert = narrow(width)
		}
	case typeInt64:
		f.physical, f.width = 8, width
		if decimal {
			f.convert = widen(8, width)
		}
	case typeInt96:
		f.physical, f.width, f.convert = 12, 8, int96Nanos
	case typeFloat:
		f.physical, f.width = 4, 4
	case typeDouble:
		f.physical, f.width = 8, 8
	case typeFixed:
		f.physical, f.width = int(e.length), int(e.length)
		if decimal {
			f.width, f.convert = width, reverse(int(e.length), width)
		}
	case typeBytes:
		if c.kind = kindBytes; decimal {
			c.kind = kindDecimalBytes
		}
	default:
		return nil, fmt.Errorf("physical type %d", e.physical)
	}
	return c, nil
}

// begin begins with the chunk of a row group.
func (c *columnReader) begin(f *File, g *rowGroup) {
	chunk := &g.columns[c.leaf.leaf]
	c.pages = newPageReader(f, chunk, c.leaf, c.pages)
	c.page, c.left, c.seen = nil, 0, false
}

// next makes sure that the page has values. It returns io.EOF at the end of the chunk.
func (c *columnReader) next() error {
	for c.left == 0 {
		p, err := c.pages.next()
		if err != nil {
			return err
		}
		if p.dictionary {
			if c.seen {
				return errors.New("two dictionaries in a column chunk")
			}
			c.seen = true
			if err := c.dictionary(p); err != nil {
				return fmt.Errorf("dictionary: %w", err)
			}
			continue
		}
		if err := c.take(p); err != nil {
			return err
		}
		c.page, c.left = p, p.values
	}
	return nil
}

func (c *columnReader) dictionary(p *page) error {
	switch c.kind {
	case kindFixed:
		return c.fixed.dictionary(p)
	case kindBytes, kindDecimalBytes:
		return c.bytes.dictionary(p)
	}
	return errors.New("dictionary of bools")
}

func (c *columnReader) take(p *page) error {
	if (p.encoding == encPlainDict || p.encoding == encRLEDict) && !c.seen {
		return errors.New("page with indexes without a dictionary")
	}
	switch c.kind {
	case kindFixed:
		return c.fixed.begin(p)
	case kindBool:
		return c.bools.begin(p)
	}
	return c.bytes.begin(p)
}

// read returns the next rows, at most n and at least one: fewer if texts are long. The chunk has n rows more.
func (c *columnReader) read(n int) (arrow.Array, error) {
	b := batch{rows: n}
	if c.leaf.maxDef > 0 {
		b.valid.bits = make([]byte, bitmapBytes(n))
	}
	var err error
	switch c.kind {
	case kindFixed:
		err = c.readFixed(&b)
	case kindBool:
		err = c.readBools(&b)
	default:
		err = c.readBytes(&b)
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("column chunk has fewer values than its row group has rows")
	}
	if err != nil {
		return nil, err
	}
	return c.array(&b)
}

// batch is a column of a batch in the making.
type batch struct {
	rows    int // wanted, then read
	valid   validity
	values  []byte
	offsets []int32
}

// levels takes the definition levels of k rows from row at on.
func (c *columnReader) levels(b *batch, at, k int) (present int, err error) {
	if c.leaf.maxDef == 0 {
		return k, nil
	}
	return b.valid.read(&c.page.def, at, k)
}

func (c *columnReader) readFixed(b *batch) error {
	w := c.fixed.width
	b.values = make([]byte, b.rows*w)
	for at := 0; at < b.rows; {
		if err := c.next(); err != nil {
			return err
		}
		k := min(c.left, b.rows-at)
		present, err := c.levels(b, at, k)
		if err != nil {
			return err
		}
		out := b.values[at*w : (at+k)*w]
		if err := c.fixed.read(out, present); err != nil {
			return err
		}
		if present < k {
			spreadWidth(out, w, k, present, b.valid.bits, at)
		}
		at += k
		c.left -= k
	}
	return nil
}

// spreadWidth is spread for values of any width.
func spreadWidth(out []byte, w, rows, present int, valid []byte, bit int) {
	switch w {
	case 1:
		spread(out, present, valid, bit)
	case 2:
		spread(cast[uint16](out), present, valid, bit)
	case 4:
		spread(cast[uint32](out), present, valid, bit)
	case 8:
		spread(cast[uint64](out), present, valid, bit)
	case 16:
		spread(cast[[16]byte](out), present, valid, bit)
	default:
		j := present - 1
		for i := rows - 1; i > j && j >= 0; i-- {
			if valid[(bit+i)>>3]>>((bit+i)&7)&1 != 0 {
				copy(out[i*w:(i+1)*w], out[j*w:(j+1)*w])
				j--
			}
		}
	}
}

func (c *columnReader) readBools(b *batch) error {
	b.values = make([]byte, bitmapBytes(b.rows))
	for at := 0; at < b.rows; {
		if err := c.next(); err != nil {
			return err
		}
		k := min(c.left, b.rows-at)
		present, err := c.levels(b, at, k)
		if err != nil {
			return err
		}
		if err := c.bools.read(b.values, at, present); err != nil {
			return err
		}
		if present < k {
			spreadBits(b.values, k, present, b.valid.bits, at)
		}
		at += k
		c.left -= k
	}
	return nil
}

// readBytes reads texts, a few at a time, until the batch has as many rows or bytes as it may have.
func (c *columnReader) readBytes(b *batch) error {
	b.offsets = make([]int32, b.rows+1)
	b.values = make([]byte, 0, min(c.last+c.last/8, batchBytes)+short)
	at, most := 0, chunkRows
	for at < b.rows {
		if err := c.next(); err != nil {
			return err
		}
		k := min(c.left, b.rows-at, most)
		levels, nulls := c.page.def, b.valid.nulls
		present, err := c.levels(b, at, k)
		if err != nil {
			return err
		}
		values, ok, err := c.bytes.read(b.offsets[at+1:at+k+1], b.values, present)
		if err != nil {
			return err
		}
		if !ok { // too long: fewer rows, or none if there are some
			c.page.def, b.valid.nulls = levels, nulls
			if k == 1 {
				break
			}
			most = max(1, k/8)
			clearBits(b.valid.bits, at, k)
			continue
		}
		b.values = values
		if present < k {
			spreadOffsets(b.offsets[at:at+k+1], present, b.valid.bits, at)
		}
		at += k
		c.left -= k
		if len(b.values) > batchBytes {
			break
		}
	}
	b.rows = at
	c.last = len(b.values)
	return nil
}

// clearBits sets n bits to 0.
func clearBits(b []byte, at, n int) {
	if b == nil {
		return
	}
	for i := at; i < at+n; i++ {
		b[i>>3] &^= 1 << (i & 7)
	}
}

// array returns a batch as an array.
func (c *columnReader) array(b *batch) (arrow.Array, error) {
	var valid *memory.Buffer
	if b.valid.nulls > 0 {
		valid = memory.NewBufferBytes(b.valid.bits)
	}
	if c.kind == kindDecimalBytes {
		if err := c.decimals(b); err != nil {
			return nil, err
		}
	}
	buffers := []*memory.Buffer{valid, memory.NewBufferBytes(b.values)}
	if c.kind == kindBytes {
		ends := memory.NewBufferBytes(asBytes(b.offsets[:b.rows+1]))
		buffers = []*memory.Buffer{valid, ends, memory.NewBufferBytes(b.values)}
	}
	data := array.NewData(c.dt, b.rows, buffers, nil, b.valid.nulls, 0)
	defer data.Release()
	return array.MakeFromData(data), nil
}

// decimals converts texts to decimals.
func (c *columnReader) decimals(b *batch) error {
	w := c.dt.(arrow.FixedWidthDataType).BitWidth() / 8
	out := make([]byte, b.rows*w)
	for i := range b.rows {
		if err := bigEndian(out[i*w:(i+1)*w], b.values[b.offsets[i]:b.offsets[i+1]]); err != nil {
			return err
		}
	}
	b.values = out
	return nil
}
