package join

import (
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
)

// packer makes one word of the words of a key: each less the least of the table, times a stride. Only words of the
// table's ranges have a packed form; with one column, all have.
type packer struct {
	columns []packedColumn
	most    uint64 // greatest packed key of the table
}

type packedColumn struct {
	wordColumn
	least  uint64
	span   uint64 // greatest less least
	stride uint64
}

// noKey is the packed form of keys with words outside of the table's ranges, if there is more than one column.
const noKey = ^uint64(0)

// newPacker returns the packer for the keys of batches, each a list of columns. It returns false if the product of the
// ranges does not fit into a word.
func newPacker(columns []wordColumn, batches [][]arrow.Array) (*packer, bool) {
	p := &packer{columns: make([]packedColumn, len(columns))}
	stride := uint64(1)
	for i, c := range columns {
		least, span := rangeOf(c, batches)
		p.columns[i] = packedColumn{c, least, span, stride}
		if len(columns) == 1 {
			p.most = span
			break
		}
		size := span + 1
		hi, lo := bits.Mul64(stride, size)
		if size == 0 || hi != 0 || lo == noKey {
			return nil, false
		}
		stride = lo
		p.most = stride - 1
	}
	return p, true
}

// rangeOf returns the least word of a column and by how much the greatest exceeds it. Nulls do not count.
func rangeOf(c wordColumn, batches [][]arrow.Array) (least, span uint64) {
	least, most := ^uint64(0), uint64(0)
	var buf [chunkRows]uint64
	for _, b := range batches {
		a := b[c.key]
		nulls := a.NullN() > 0
		for lo := 0; lo < a.Len(); lo += chunkRows {
			words := buf[:min(chunkRows, a.Len()-lo)]
			fillWords(a, c.part, lo, words)
			if nulls {
				n := 0
				for i, w := range words {
					words[n] = w
					if a.IsValid(lo + i) {
						n++
					}
				}
				words = words[:n]
			}
			for _, w := range words {
				least, most = min(least, w), max(most, w)
			}
		}
	}
	if least > most {
		return 0, 0
	}
	return least, most - least
}

// pack writes the packed keys of rows from lo. Those of rows with null keys are undefined. scratch has two words for
// each row.
func (p *packer) pack(key []arrow.Array, lo int, out, scratch []uint64) {
	first := p.columns[0]
	fillWords(key[first.key], first.part, lo, out)
	if len(p.columns) == 1 {
		for i, w := range out {
			out[i] = w - first.least
		}
		return
	}
	words, bad := scratch[:len(out)], scratch[len(out):][:len(out)]
	for i, w := range out {
		d := w - first.least
		_, bad[i] = bits.Sub64(first.span, d, 0)
		out[i] = d
	}
	for _, c := range p.columns[1:] {
		fillWords(key[c.key], c.part, lo, words)
		for i, w := range words {
			d := w - c.least
			_, over := bits.Sub64(c.span, d, 0)
			bad[i] |= over
			out[i] += d * c.stride
		}
	}
	for i, b := range bad {
		out[i] |= -b
	}
}
