package order

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/vec"
)

// keyed has the keys of a batch in a form that can be compared with those of other batches.
type keyed struct {
	parts []keyPart
	// coarse has the order of the first key, but may be equal for keys that are not.
	coarse []uint64
	exact  bool // equal words of coarse are equal first keys
}

// keyPart is a key.
type keyPart struct {
	key    SortKey
	words  [2][]uint64 // of values of fixed width; the second of wide ones
	text   *texts
	valid  []byte // bitmap, from the bit offset, or nil
	offset int
}

// newKeyed returns the keys of a batch. coarse is needed for comparisons with many others.
func newKeyed(b arrow.RecordBatch, keys []SortKey, coarse bool) *keyed {
	k := &keyed{parts: make([]keyPart, len(keys))}
	n := int(b.NumRows())
	for i, key := range keys {
		p := &k.parts[i]
		a := b.Column(key.Col)
		p.key = key
		p.valid, p.offset = vec.Validity(a)
		form := formOf(a.DataType())
		if form == textForm {
			p.text = newTexts(a)
			continue
		}
		for part := range p.words {
			if part == 0 || form == wideForm {
				p.words[part] = make([]uint64, n)
				fillWords(a, part, p.words[part])
			}
		}
	}
	if coarse {
		k.setCoarse(n)
	}
	return k
}

func (k *keyed) setCoarse(n int) {
	if len(k.parts) == 0 {
		k.coarse = make([]uint64, n)
		return
	}
	p := &k.parts[0]
	if p.text == nil && p.valid == nil && !p.key.Desc {
		k.coarse, k.exact = p.words[0], p.words[1] == nil
		return
	}
	k.coarse = make([]uint64, n)
	k.exact = p.text == nil && p.valid == nil && p.words[1] == nil
	for i := range k.coarse {
		switch {
		case p.null(i):
			if !p.key.NullsFirst {
				k.coarse[i] = ^uint64(0)
			}
			continue
		case p.text == nil:
			k.coarse[i] = p.words[0][i]
		default:
			k.coarse[i] = p.text.prefix(int32(i))
		}
		if p.key.Desc {
			k.coarse[i] = ^k.coarse[i]
		}
	}
}

// prefix returns the first eight bytes of a value, zeros if it is shorter.
func (t *texts) prefix(row int32) uint64 {
	var b [8]byte
	copy(b[:], t.value(row))
	return binary.BigEndian.Uint64(b[:])
}

func (p *keyPart) null(row int) bool { return p.valid != nil && !bitSet(p.valid, p.offset+row) }

// compare compares a row with a row of another batch: it returns -1, 0 or 1.
func (k *keyed) compare(row int, other *keyed, otherRow int) int {
	for i := range k.parts {
		if c := k.parts[i].compare(row, &other.parts[i], otherRow); c != 0 {
			return c
		}
	}
	return 0
}

func (p *keyPart) compare(row int, other *keyPart, otherRow int) int {
	if a, b := p.null(row), other.null(otherRow); a || b {
		switch {
		case a && b:
			return 0
		case a == p.key.NullsFirst:
			return -1
		}
		return 1
	}
	c := 0
	if p.text != nil {
		c = bytes.Compare(p.text.value(int32(row)), other.text.value(int32(otherRow)))
	} else if c = compareWords(p.words[0][row], other.words[0][otherRow]); c == 0 && p.words[1] != nil {
		c = compareWords(p.words[1][row], other.words[1][otherRow])
	}
	if p.key.Desc {
		return -c
	}
	return c
}

func compareWords(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// checkTypes returns an error if a batch does not have the columns of a schema.
func checkTypes(s *arrow.Schema, b arrow.RecordBatch) error {
	if int(b.NumCols()) != s.NumFields() {
		return fmt.Errorf("order: batch of %d columns, not %d", b.NumCols(), s.NumFields())
	}
	for i, f := range s.Fields() {
		if t := b.Column(i).DataType(); !arrow.TypeEqual(t, f.Type) {
			return fmt.Errorf("order: column %q of a batch has type %v, not %v", f.Name, t, f.Type)
		}
	}
	return nil
}
