package order

import (
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/vec"
)

// level is a step of the comparison of rows: a word of the values of one or several keys, or text.
type level struct {
	parts  []levelPart
	most   uint64 // greatest word
	text   *texts // or nil
	desc   bool   // of text
	valid  []byte // bitmap of text, from the bit offset, or nil
	offset int

	words []uint64 // of all rows, nil until needed
}

// levelPart is what a key adds to a word: its value less the least, or only whether it is null.
type levelPart struct {
	array arrow.Array
	key   SortKey
	part  int    // of wide values
	least uint64 // value
	span  uint64 // greatest value less the least
	nulls bool   // there are nulls, which have a word of their own
	only  bool   // only whether the value is null
}

// size returns how many words a part has, or 0 for all words of 64 bits.
func (p *levelPart) size() uint64 {
	n := p.span + 1
	if p.nulls && n != 0 {
		n++
	}
	return n
}

// newLevels returns the levels of the keys of a batch.
func newLevels(b arrow.RecordBatch, keys []SortKey) []*level {
	var levels []*level
	add := func(p levelPart) {
		size := p.size()
		if n := len(levels); n > 0 && levels[n-1].text == nil && size != 0 {
			l := levels[n-1]
			if hi, lo := bits.Mul64(l.most+1, size); hi == 0 && l.most+1 != 0 {
				l.parts, l.most = append(l.parts, p), lo-1
				return
			}
		}
		levels = append(levels, &level{parts: []levelPart{p}, most: size - 1})
	}
	for _, k := range keys {
		a := b.Column(k.Col)
		nulls := a.NullN() > 0
		onlyNull := levelPart{array: a, key: k, span: 0, nulls: true, only: true}
		switch formOf(a.DataType()) {
		case wordForm:
			p := levelPart{array: a, key: k, nulls: nulls}
			p.least, p.span = wordRange(a, 0)
			if nulls && p.span >= ^uint64(0)-1 {
				add(onlyNull)
				p.nulls = false
			}
			add(p)
		case wideForm:
			if nulls {
				add(onlyNull)
			}
			for part := range 2 {
				p := levelPart{array: a, key: k, part: part}
				p.least, p.span = wordRange(a, part)
				add(p)
			}
		case textForm:
			if nulls {
				add(onlyNull)
			}
			l := &level{text: newTexts(a), desc: k.Desc}
			l.valid, l.offset = vec.Validity(a)
			levels = append(levels, l)
		}
	}
	return levels
}

const blockRows = 2048

// wordRange returns the least word of a column and by how much the greatest exceeds it.
func wordRange(a arrow.Array, part int) (least, span uint64) {
	least, most := ^uint64(0), uint64(0)
	var buf [blockRows]uint64
	valid, off := vec.Validity(a)
	eachBlock(a, func(block arrow.Array, lo int) {
		words := buf[:block.Len()]
		fillWords(block, part, words)
		for i, w := range words {
			if valid == nil || bitSet(valid, off+lo+i) {
				least, most = min(least, w), max(most, w)
			}
		}
	})
	if least > most {
		return 0, 0
	}
	return least, most - least
}

func bitSet(bits []byte, i int) bool { return bits[uint(i)>>3]>>(uint(i)&7)&1 != 0 }

// fill writes the words of all rows for a level that is not of text.
func (l *level) fill(out []uint64) {
	for i := range l.parts {
		l.parts[i].fill(out, i == 0)
	}
}

// fill adds the words of a part to those of the parts before it.
func (p *levelPart) fill(out []uint64, first bool) {
	size, nullCode, shift := p.size(), uint64(0), uint64(0)
	if p.nulls {
		if nullCode = p.span + 1; p.key.NullsFirst {
			nullCode, shift = 0, 1
		}
	}
	var buf [blockRows]uint64
	valid, off := vec.Validity(p.array)
	eachBlock(p.array, func(block arrow.Array, lo int) {
		words := buf[:block.Len()]
		switch {
		case p.only:
			for i := range words {
				words[i] = shift
			}
		case p.key.Desc:
			fillWords(block, p.part, words)
			top := p.least + p.span + shift
			for i, w := range words {
				words[i] = top - w
			}
		default:
			fillWords(block, p.part, words)
			bottom := p.least - shift
			for i, w := range words {
				words[i] = w - bottom
			}
		}
		if valid != nil {
			for i := range words {
				if !bitSet(valid, off+lo+i) {
					words[i] = nullCode
				}
			}
		}
		to := out[lo:][:len(words)]
		if first {
			copy(to, words)
			return
		}
		for i, w := range words {
			to[i] = to[i]*size + w
		}
	})
}

// eachBlock calls f for consecutive parts of an array and the number of their first row.
func eachBlock(a arrow.Array, f func(block arrow.Array, lo int)) {
	for lo := 0; lo < a.Len(); lo += blockRows {
		block := sliceOf(a, lo, min(lo+blockRows, a.Len()))
		f(block, lo)
		block.Release()
	}
}
