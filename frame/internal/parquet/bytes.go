package parquet

import (
	"encoding/binary"
	"fmt"
	"math"
)

const (
	// chunkRows is the number of texts that are decoded at a time.
	chunkRows = 1024
	// batchBytes is the size of the texts of a batch after which it ends, if it has a row.
	batchBytes = 64 << 20
	// short is the length of texts that are copied as a whole, with what follows them.
	short = 16
)

// bytesReader decodes texts of any length from the pages of a chunk.
type bytesReader struct {
	encoding int32
	data     []byte // values that are left
	// The dictionary: value i is at dictData[dictEnds[i]:dictEnds[i+1]]; short bytes after the end are readable.
	dictEnds []uint32
	dictData []byte
	index    rleReader
	ix       []uint32
	lengths  []int32 // of DELTA_LENGTH_BYTE_ARRAY, and of the suffixes of DELTA_BYTE_ARRAY
	prefixes []int32
	last     []byte // value before, for DELTA_BYTE_ARRAY
	delta    deltaReader
}

// dictionary takes the values of a dictionary page.
func (d *bytesReader) dictionary(p *page) error {
	if p.values > len(p.data)/4 {
		return errShort
	}
	d.dictEnds = append(make([]uint32, 0, p.values+1), 0)
	d.dictData = make([]byte, 0, len(p.data)-4*p.values+short)
	b := p.data
	for range p.values {
		if len(b) < 4 {
			return errShort
		}
		n := binary.LittleEndian.Uint32(b)
		if uint64(n) > uint64(len(b)-4) {
			return errShort
		}
		d.dictData = append(d.dictData, b[4:4+n]...)
		d.dictEnds = append(d.dictEnds, uint32(len(d.dictData)))
		b = b[4+n:]
	}
	return nil
}

// begin takes a data page.
func (d *bytesReader) begin(p *page) (err error) {
	d.encoding = p.encoding
	switch p.encoding {
	case encPlain:
		d.data = p.data
	case encPlainDict, encRLEDict:
		return beginIndexes(&d.index, p)
	case encDeltaLength:
		d.lengths, d.data, err = d.delta.lengths(p.data, p.values)
	case encDeltaBytes:
		var rest []byte
		if d.prefixes, rest, err = d.delta.lengths(p.data, p.values); err != nil {
			return err
		}
		d.lengths, d.data, err = d.delta.lengths(rest, p.values)
		if err == nil && len(d.lengths) != len(d.prefixes) {
			err = errDelta
		}
		d.last = d.last[:0]
	default:
		return fmt.Errorf("encoding %d of texts is not supported", p.encoding)
	}
	return err
}

// read appends n ≤ chunkRows values to data and their ends to offsets, which has space for them. It returns false,
// with nothing read, if data would become too long; texts of one chunk of a dictionary may be much longer than it.
func (d *bytesReader) read(offsets []int32, data []byte, n int) ([]byte, bool, error) {
	switch d.encoding {
	case encPlain:
		return d.readPlain(offsets, data, n)
	case encPlainDict, encRLEDict:
		return d.gather(offsets, data, n)
	case encDeltaLength:
		return d.readLengths(offsets, data, n)
	}
	return d.readDelta(offsets, data, n)
}

func (d *bytesReader) readPlain(offsets []int32, data []byte, n int) ([]byte, bool, error) {
	b := d.data
	for i := range offsets[:n] {
		if len(b) < 4 {
			return data, true, errShort
		}
		k := uint64(binary.LittleEndian.Uint32(b))
		if k > uint64(len(b)-4) {
			return data, true, errShort
		}
		data = append(data, b[4:4+k]...)
		offsets[i] = int32(len(data)) // a page has at most maxPage bytes
		b = b[4+k:]
	}
	d.data = b
	return data, true, nil
}

func (d *bytesReader) gather(offsets []int32, data []byte, n int) ([]byte, bool, error) {
	if d.ix == nil {
		d.ix = make([]uint32, chunkRows)
	}
	before := d.index
	ix := d.ix[:n]
	if err := d.index.read(ix); err != nil {
		return data, true, err
	}
	ends := d.dictEnds
	if len(ends) == 0 {
		return data, true, errDictionary
	}
	total, longest := len(data), uint32(0)
	offsets = offsets[:n]
	for i, x := range ix {
		if uint(x)+1 >= uint(len(ends)) {
			return data, true, errDictionary
		}
		k := ends[x+1] - ends[x]
		longest = max(longest, k)
		total += int(k)
		offsets[i] = int32(min(total, math.MaxInt32))
	}
	if total > batchBytes && (len(data) > 0 || n > 1) {
		d.index = before
		return data, false, nil
	}
	at := len(data)
	data = grow(data, total-at+short)[:total]
	src := d.dictData[:cap(d.dictData)]
	if longest <= short {
		dst := data[:total+short]
		for _, x := range ix {
			from, to := ends[x], ends[x+1]
			*(*[short]byte)(dst[at:]) = *(*[short]byte)(src[from:])
			at += int(to - from)
		}
		return data, true, nil
	}
	for _, x := range ix {
		at += copy(data[at:], src[ends[x]:ends[x+1]])
	}
	return data, true, nil
}

func (d *bytesReader) readLengths(offsets []int32, data []byte, n int) ([]byte, bool, error) {
	if len(d.lengths) < n {
		return data, true, errShort
	}
	at, total := len(data), int64(0)
	for i, k := range d.lengths[:n] {
		if total += int64(k); total > int64(len(d.data)) {
			return data, true, errShort
		}
		offsets[i] = int32(at + int(total))
	}
	data = append(data, d.data[:total]...)
	d.lengths, d.data = d.lengths[n:], d.data[total:]
	return data, true, nil
}

func (d *bytesReader) readDelta(offsets []int32, data []byte, n int) ([]byte, bool, error) {
	if len(d.lengths) < n {
		return data, true, errShort
	}
	total := len(data)
	for i := range n { // values may be much longer than the page
		total += int(d.prefixes[i]) + int(d.lengths[i])
	}
	if total > batchBytes && (len(data) > 0 || n > 1) {
		return data, false, nil
	}
	for i := range n {
		prefix, k := int(d.prefixes[i]), int(d.lengths[i])
		if prefix > len(d.last) || k > len(d.data) || prefix+k > maxPage {
			return data, true, errDelta
		}
		d.last = append(d.last[:prefix], d.data[:k]...)
		d.data = d.data[k:]
		data = append(data, d.last...)
		offsets[i] = int32(len(data))
	}
	d.prefixes, d.lengths = d.prefixes[n:], d.lengths[n:]
	return data, true, nil
}

// grow returns b with space for n more bytes.
func grow(b []byte, n int) []byte {
	if cap(b)-len(b) >= n {
		return b
	}
	out := make([]byte, len(b), max(2*cap(b), len(b)+n))
	copy(out, b)
	return out
}
