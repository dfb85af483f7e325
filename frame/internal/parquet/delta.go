package parquet

import (
	"encoding/binary"
	"errors"
	"fmt"
)

var errDelta = errors.New("invalid delta encoding")

// deltaReader decodes DELTA_BINARY_PACKED: blocks of differences, each of miniblocks with a width of their own.
type deltaReader struct {
	b       []byte
	at      int
	mini    int // values of a miniblock
	minis   int // miniblocks of a block
	left    int // values that are not read yet, with the first
	value   int64
	first   bool
	least   int64 // smallest difference of the block
	widths  []byte
	number  int // of the next miniblock
	pending []int64
	buffer  []int64
}

// reset begins with the data of a page.
func (d *deltaReader) reset(b []byte) error {
	*d = deltaReader{b: b, first: true, buffer: d.buffer}
	block, minis, total := d.uvarint(), d.uvarint(), d.uvarint()
	d.value = d.varint()
	if d.at < 0 || minis == 0 || minis > 1<<16 || block > 1<<24 || block%minis != 0 || block/minis%8 != 0 ||
		block == 0 || total > 1<<31 {
		return fmt.Errorf("%w: blocks of %d values in %d parts", errDelta, block, minis)
	}
	d.mini, d.minis, d.left = int(block/minis), int(minis), int(total)
	d.number = d.minis // before the first block
	return nil
}

// uvarint reads an unsigned integer. After an error at is negative.
func (d *deltaReader) uvarint() uint64 {
	if d.at < 0 {
		return 0
	}
	v, n := binary.Uvarint(d.b[d.at:])
	if n <= 0 {
		d.at = -1
		return 0
	}
	d.at += n
	return v
}

func (d *deltaReader) varint() int64 {
	v := d.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// next returns the next value.
func (d *deltaReader) next() (int64, error) {
	if d.left == 0 {
		return 0, errShort
	}
	d.left--
	if d.first {
		d.first = false
		return d.value, nil
	}
	if len(d.pending) == 0 {
		if err := d.miniblock(); err != nil {
			return 0, err
		}
	}
	d.value += d.pending[0]
	d.pending = d.pending[1:]
	return d.value, nil
}

// miniblock decodes the differences of the next miniblock.
func (d *deltaReader) miniblock() error {
	if d.number == d.minis {
		d.least = d.varint()
		if d.at < 0 || len(d.b)-d.at < d.minis {
			return errDelta
		}
		d.widths = d.b[d.at : d.at+d.minis]
		d.at += d.minis
		d.number = 0
	}
	width := int(d.widths[d.number])
	d.number++
	size := width * d.mini / 8
	if width > 64 || size > len(d.b)-d.at {
		return errDelta
	}
	if cap(d.buffer) < d.mini {
		d.buffer = make([]int64, d.mini)
	}
	d.pending = d.buffer[:min(d.mini, d.left+1)]
	src := d.b[d.at : d.at+size]
	d.at += size
	for i := range d.pending {
		d.pending[i] = d.least + int64(bitsAt(src, i*width, width))
	}
	return nil
}

// bitsAt returns width bits of b from a position on, the least significant first.
func bitsAt(b []byte, bit, width int) uint64 {
	var v uint64
	for got := 0; got < width; {
		c := uint64(b[(bit+got)>>3]) >> ((bit + got) & 7)
		v |= c << got
		got += 8 - (bit+got)&7
	}
	if width < 64 {
		v &= 1<<width - 1
	}
	return v
}

// read fills dst with integers of 4 or 8 bytes.
func (d *deltaReader) read(dst []byte, width int) error {
	for ; len(dst) >= width; dst = dst[width:] {
		v, err := d.next()
		if err != nil {
			return err
		}
		if width == 4 {
			binary.LittleEndian.PutUint32(dst, uint32(v))
		} else {
			binary.LittleEndian.PutUint64(dst, uint64(v))
		}
	}
	return nil
}

// lengths decodes all values, at most n, as lengths of texts. It returns the bytes after them.
func (d *deltaReader) lengths(b []byte, n int) ([]int32, []byte, error) {
	if err := d.reset(b); err != nil {
		return nil, nil, err
	}
	if d.left > n {
		return nil, nil, fmt.Errorf("%w: %d lengths of %d values", errDelta, d.left, n)
	}
	var out []int32
	for d.left > 0 {
		v, err := d.next()
		if err != nil {
			return nil, nil, err
		}
		if v < 0 || v > maxPage {
			return nil, nil, fmt.Errorf("%w: length %d", errDelta, v)
		}
		out = append(out, int32(v))
	}
	// Miniblocks of the last block that have no values have no bytes.
	return out, b[d.at:], nil
}
