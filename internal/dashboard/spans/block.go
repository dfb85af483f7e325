package spans

import (
	"encoding/binary"
	"hash/crc32"
	"slices"
)

const (
	// blockSpans is the number of spans of a full block.
	blockSpans = 1 << 14
	// maxBlockKeys is the size of the keys, in bytes, of a full block.
	maxBlockKeys = 4 << 20
	// maxSpans bounds the spans of a block that is read.
	maxSpans = 1 << 16
)

// A block has a header of fixed size, then three sections: totals, the outline, and the other columns.
const (
	blockMagic  = 0x314b4c42 // "BLK1"
	headerSize  = 80
	maxSections = 64 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header describes a block.
type header struct {
	id                uint64 // unique in a history, see index.nextID
	class             uint8
	count             int
	minStart, maxStop int64
	minRow, maxRow    uint32
	sizes, sums       [sections]uint32
}

const (
	totalsSection = iota
	outlineSection
	detailSection
	sections
)

func (h *header) append(dst []byte) []byte {
	begin := len(dst)
	le := binary.LittleEndian
	dst = le.AppendUint32(dst, blockMagic)
	dst = le.AppendUint32(dst, uint32(h.class))
	dst = le.AppendUint64(dst, h.id)
	dst = le.AppendUint32(dst, uint32(h.count))
	dst = le.AppendUint32(dst, h.minRow)
	dst = le.AppendUint32(dst, h.maxRow)
	dst = le.AppendUint64(dst, uint64(h.minStart))
	dst = le.AppendUint64(dst, uint64(h.maxStop))
	for i := range h.sizes {
		dst = le.AppendUint32(dst, h.sizes[i])
		dst = le.AppendUint32(dst, h.sums[i])
	}
	dst = append(dst, make([]byte, headerSize-4-(len(dst)-begin))...)
	return le.AppendUint32(dst, crc32.Checksum(dst[begin:], castagnoli))
}

// parseHeader reads a header of headerSize bytes.
func parseHeader(p []byte) (h header, ok bool) {
	le := binary.LittleEndian
	if len(p) < headerSize || le.Uint32(p) != blockMagic ||
		crc32.Checksum(p[:headerSize-4], castagnoli) != le.Uint32(p[headerSize-4:]) {
		return h, false
	}
	h.class = uint8(le.Uint32(p[4:]))
	h.id = le.Uint64(p[8:])
	h.count = int(le.Uint32(p[16:]))
	h.minRow, h.maxRow = le.Uint32(p[20:]), le.Uint32(p[24:])
	h.minStart, h.maxStop = int64(le.Uint64(p[28:])), int64(le.Uint64(p[36:]))
	for i := range h.sizes {
		h.sizes[i], h.sums[i] = le.Uint32(p[44+8*i:]), le.Uint32(p[48+8*i:])
	}
	ok = h.class < classes && h.count > 0 && h.count <= maxSpans && h.minRow <= h.maxRow && h.maxRow < maxRows &&
		h.minStart >= 0 && h.minStart < h.maxStop && h.maxStop <= maxTime && h.size() <= maxSections
	return h, ok
}

// size returns the size of the block with its header.
func (h *header) size() int64 {
	n := int64(headerSize)
	for _, size := range h.sizes {
		n += int64(size)
	}
	return n
}

// section returns the begin and the end of a section in the block.
func (h *header) section(i int) (from, to int64) {
	from = headerSize
	for _, size := range h.sizes[:i] {
		from += int64(size)
	}
	return from, from + int64(h.sizes[i])
}

// blockEncoder encodes blocks; it keeps its memory.
type blockEncoder struct {
	encoder
	keys    keyEncoder
	counts  []uint32
	deltas  []int64
	numbers []int64
	ids     []uint32
}

// encode returns the block of columns that are sorted by row. It is valid until the next call.
func (e *blockEncoder) encode(id uint64, class uint8, c *columns, o *outline) (header, []byte) {
	h := header{id: id, class: class, count: c.len(), minStart: c.minStart, maxStop: c.maxStop,
		minRow: o.rows[0], maxRow: o.rows[len(o.rows)-1]}
	e.out = append(e.out[:0], make([]byte, headerSize)...)
	for i, f := range [sections]func(*columns, *outline){e.totals, e.outline, e.detail} {
		begin := len(e.out)
		f(c, o)
		h.sizes[i] = uint32(len(e.out) - begin)
		h.sums[i] = crc32.Checksum(e.out[begin:], castagnoli)
	}
	h.append(e.out[:0])
	return h, e.out
}

func (e *blockEncoder) totals(c *columns, _ *outline) {
	t := c.totals()
	t.encode(&e.encoder)
}

func (e *blockEncoder) outline(c *columns, o *outline) {
	e.uvarint(uint64(len(o.rows)))
	e.ids, e.counts = append(e.ids[:0], o.rows...), append(e.counts[:0], o.ends...)
	for i := len(o.rows) - 1; i > 0; i-- {
		e.ids[i] -= o.rows[i-1]
		e.counts[i] -= o.ends[i-1]
	}
	column(&e.encoder, e.ids)
	column(&e.encoder, e.counts)
	// A span of a row begins soon after the one before has ended.
	e.deltas = slices.Grow(e.deltas[:0], len(o.start))[:len(o.start)]
	i := 0
	for _, end := range o.ends {
		before := c.minStart
		for ; i < int(end); i++ {
			d := o.start[i] - before
			e.deltas[i] = d<<1 ^ d>>63
			before = o.start[i] + o.length[i]
		}
	}
	column(&e.encoder, e.deltas)
	column(&e.encoder, o.length)
	e.byteString(o.category)
}

func (e *blockEncoder) detail(c *columns, o *outline) {
	e.byteString(c.flags)
	column(&e.encoder, c.bytes)
	e.plane = slices.Grow(e.plane[:0], c.len())[:c.len()]
	e.numbers, e.ids, e.counts = e.numbers[:0], e.ids[:0], e.counts[:0]
	for i, peer := range c.peer {
		e.plane[i] = 0
		if peer > 0 || c.count[i] > 0 {
			e.plane[i] = 1
			e.ids = append(e.ids, peer)
			e.counts = append(e.counts, c.transport[i])
			e.numbers = append(e.numbers, c.count[i])
		}
	}
	e.byteString(e.plane)
	column(&e.encoder, e.ids)
	column(&e.encoder, e.counts)
	column(&e.encoder, e.numbers)
	e.keys.reset()
	for i := range c.row {
		e.keys.add(c.key(i))
	}
	e.keys.encode(&e.encoder)
}

// check reports whether a section is as it was written.
func (h *header) check(section int, p []byte) bool {
	return len(p) == int(h.sizes[section]) && crc32.Checksum(p, castagnoli) == h.sums[section]
}

// decodeOutline reads the section of the outline.
func (h *header) decodeOutline(p []byte) (*outline, error) {
	d := &decoder{in: p}
	n := int(d.uvarint(uint64(h.count)))
	o := &outline{rows: readColumn[uint32](d, n, maxRows), ends: readColumn[uint32](d, n, uint64(h.count))}
	var row, end uint64
	for i := range n {
		row, end = row+uint64(o.rows[i]), end+uint64(o.ends[i])
		if row > uint64(h.maxRow) || end > uint64(h.count) || o.ends[i] == 0 || i > 0 && o.rows[i] == 0 ||
			i == 0 && row != uint64(h.minRow) {
			return nil, errCorrupt
		}
		o.rows[i], o.ends[i] = uint32(row), uint32(end)
	}
	o.start = readColumn[int64](d, h.count, 1<<50)
	o.length = readColumn[int64](d, h.count, maxTime)
	o.category = d.byteString(h.count)
	if d.err != nil || int(end) != h.count || len(d.in) > 0 {
		return nil, errCorrupt
	}
	i := 0
	for _, end := range o.ends {
		before := h.minStart
		for ; i < int(end); i++ {
			v := o.start[i]
			start := before + (v>>1 ^ -(v & 1))
			stop := start + o.length[i]
			if start < h.minStart || stop > h.maxStop || stop <= start || classOf(stop-start) != int(h.class) {
				return nil, errCorrupt
			}
			o.start[i], before = start, stop
		}
	}
	return o, nil
}

// decodeDetail reads the section of the other columns.
func (h *header) decodeDetail(p []byte, o *outline) (*columns, error) {
	d := &decoder{in: p}
	c := &columns{start: o.start, length: o.length, category: o.category, minStart: h.minStart, maxStop: h.maxStop}
	c.row = make([]uint32, 0, h.count)
	for k, row := range o.rows {
		for range int(o.ends[k]) - len(c.row) {
			c.row = append(c.row, row)
		}
	}
	c.flags = d.byteString(h.count)
	c.bytes = readColumn[int64](d, h.count, 1<<63-1)
	has := d.byteString(h.count)
	n := 0
	for _, b := range has {
		n += int(b & 1)
	}
	peer := readColumn[uint32](d, n, maxWorkers+1)
	transport := readColumn[uint32](d, n, 1<<32-1)
	count := readColumn[int64](d, n, 1<<63-1)
	decodeKeys(d, h.count, c)
	if d.err != nil || len(d.in) > 0 {
		return nil, errCorrupt
	}
	c.peer, c.transport, c.count = make([]uint32, h.count), make([]uint32, h.count), make([]int64, h.count)
	j := 0
	for i, b := range has {
		if b&1 != 0 {
			c.peer[i], c.transport[i], c.count[i] = peer[j], transport[j], count[j]
			j++
		}
	}
	return c, nil
}

// block is a sealed block.
type block struct {
	header
	totals  totals
	data    []byte   // of a history in memory
	segment *segment // of a history on disk
	offset  int64    // in the segment
}

// read returns a section of the block.
func (b *block) read(section int) ([]byte, error) {
	from, to := b.section(section)
	var p []byte
	if b.segment == nil {
		p = b.data[from:to]
	} else {
		p = make([]byte, to-from)
		if _, err := b.segment.file.ReadAt(p, b.offset+from); err != nil {
			return nil, err
		}
	}
	if !b.check(section, p) {
		return nil, errCorrupt
	}
	return p, nil
}

// outline reads the outline of the block.
func (b *block) outline() (*outline, error) {
	p, err := b.read(outlineSection)
	if err != nil {
		return nil, err
	}
	return b.decodeOutline(p)
}

// columns reads all columns of the block.
func (b *block) columns(o *outline) (*columns, error) {
	p, err := b.read(detailSection)
	if err != nil {
		return nil, err
	}
	return b.decodeDetail(p, o)
}
