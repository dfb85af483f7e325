package parquet

import (
	"encoding/binary"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow/bitutil"
)

// boolReader decodes bools from the pages of a chunk.
type boolReader struct {
	data []byte
	bit  int
	rle  bool
	runs rleReader
	ix   []uint32
}

// begin takes a data page.
func (d *boolReader) begin(p *page) error {
	d.rle = p.encoding == encRLE
	switch p.encoding {
	case encPlain:
		d.data, d.bit = p.data, 0
	case encRLE:
		if len(p.data) < 4 {
			d.runs.reset(nil, 0, 0)
			return nil
		}
		n := int64(binary.LittleEndian.Uint32(p.data))
		if n > int64(len(p.data)-4) {
			return errShort
		}
		d.runs.reset(p.data[4:cap(p.data)], int(n), 1)
	default:
		return fmt.Errorf("encoding %d of bools is not supported", p.encoding)
	}
	return nil
}

// read writes n bits from position at on.
func (d *boolReader) read(out []byte, at, n int) error {
	if !d.rle {
		if len(d.data)*8-d.bit < n {
			return errShort
		}
		bitutil.CopyBitmap(d.data, d.bit, n, out, at)
		d.bit += n
		return nil
	}
	if d.ix == nil {
		d.ix = make([]uint32, indexes)
	}
	for n > 0 {
		ix := d.ix[:min(indexes, n)]
		if err := d.runs.read(ix); err != nil {
			return err
		}
		for i, v := range ix {
			bitutil.SetBitTo(out, at+i, v != 0)
		}
		at += len(ix)
		n -= len(ix)
	}
	return nil
}
