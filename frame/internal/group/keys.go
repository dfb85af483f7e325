package group

import (
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
)

// directWidth is the greatest width of keys, in bits, that are looked up in an array instead of a hash table.
const directWidth = 21

// keys numbers distinct rows of key columns in the order in which they come. The codes of the columns of a row are
// packed into a word, which a table numbers. If they do not fit, the first columns are packed and numbered, and the
// number is packed with the next columns, and so on. When a code needs more bits than it has, the words of all groups
// are packed again.
type keys struct {
	cols   []keyColumn
	rows   int64 // seen so far, with those of the batch
	groups int
	solo   bool // the only column is dense, so its codes are the numbers

	stages []stage
	ready  bool // stages are set

	words [block]uint64
}

// stage packs some of the columns, and the number of the stage before in the lower 32 bits if there is one.
type stage struct {
	cols   []int
	shifts []uint
	width  uint
	table  *wordTable
}

func newKeys(types []arrow.DataType) (*keys, error) {
	k := &keys{}
	for _, t := range types {
		c, err := newKeyColumn(t)
		if err != nil {
			return nil, err
		}
		k.cols = append(k.cols, c)
	}
	if len(k.cols) == 0 {
		k.groups = 1
	}
	return k, nil
}

// bind sets the columns of the next batch.
func (k *keys) bind(cols []arrow.Array, rows int) error {
	for i, c := range k.cols {
		if err := c.bind(cols[i]); err != nil {
			return err
		}
	}
	k.rows += int64(rows)
	if k.ready && !k.solo && len(k.stages) == 1 {
		if s := &k.stages[0]; s.table.direct == nil && k.isDirect(s.width) {
			s.table.rebuild(s.table.keys, true, s.width)
		}
	}
	return nil
}

// isDirect reports whether an array of all words of a width is small or at least not larger than the input.
func (k *keys) isDirect(width uint) bool {
	return width <= 10 || width <= directWidth && int64(1)<<width <= 4*k.rows
}

// find writes the numbers of the rows of the batch from a number on, at most a block.
func (k *keys) find(from int, ids []uint32) error {
	if len(k.cols) == 0 {
		clear(ids)
		return nil
	}
	for {
		if k.ready && k.solo {
			k.cols[0].find(from, ids)
			k.groups = k.cols[0].count()
			break
		}
		if k.ready && k.pack(from, ids) {
			k.groups = len(k.stages[len(k.stages)-1].table.keys)
			break
		}
		k.relayout(from)
	}
	if k.groups >= math.MaxUint32-block {
		return fmt.Errorf("group: more than %d groups; use more partitions", k.groups)
	}
	return nil
}

// pack packs and numbers a block. It returns false if a code does not fit.
func (k *keys) pack(from int, ids []uint32) bool {
	words := k.words[:len(ids)]
	for i := range k.stages {
		s := &k.stages[i]
		if i == 0 {
			clear(words)
		} else {
			for j, id := range ids {
				words[j] = uint64(id)
			}
		}
		ok := true
		for j, c := range s.cols {
			ok = k.cols[c].encode(from, words, s.shifts[j]) && ok
		}
		if !ok {
			return false
		}
		s.table.find(words, ids)
	}
	return true
}

// relayout gives every column the bits that the rows of the batch from a number on need, and packs the groups again.
func (k *keys) relayout(from int) {
	codes := make([][]uint64, len(k.cols))
	for i := range codes {
		codes[i] = k.codes(i)
	}
	for _, c := range k.cols {
		c.fit(from)
	}
	for {
		for i, c := range k.cols {
			c.translate(codes[i])
		}
		if k.width() <= 64 {
			break
		}
		widest := -1
		for i, c := range k.cols {
			c.tighten()
			if !c.dense() && c.width() > 32 && (widest < 0 || c.width() > k.cols[widest].width()) {
				widest = i
			}
		}
		if k.width() <= 64 || widest < 0 {
			break
		}
		// Codes of a wide range become those of distinct values.
		k.cols[widest].intern()
	}
	k.ready = true
	if k.solo = len(k.cols) == 1 && k.cols[0].dense(); !k.solo {
		k.layout()
		k.repack(codes)
	}
}

func (k *keys) width() (sum uint) {
	for _, c := range k.cols {
		sum += c.width()
	}
	return sum
}

// layout distributes the columns over stages.
func (k *keys) layout() {
	k.stages = []stage{{table: newWordTable()}}
	for i, c := range k.cols {
		s := &k.stages[len(k.stages)-1]
		if s.width+c.width() > 64 {
			k.stages = append(k.stages, stage{table: newWordTable(), width: 32})
			s = &k.stages[len(k.stages)-1]
		}
		s.cols, s.shifts = append(s.cols, i), append(s.shifts, s.width)
		s.width += c.width()
	}
}

// repack fills the tables of the stages with the groups, whose codes are given by column.
func (k *keys) repack(codes [][]uint64) {
	words := make([]uint64, k.groups)
	ids := make([]uint32, block)
	for i := range k.stages {
		s := &k.stages[i]
		for j, c := range s.cols {
			for g, code := range codes[c] {
				words[g] |= code << (s.shifts[j] & 63)
			}
		}
		if i == len(k.stages)-1 {
			s.table.rebuild(words, i == 0 && k.isDirect(s.width), s.width)
			return
		}
		for from := 0; from < len(words); from += block {
			part := words[from:min(from+block, len(words))]
			s.table.find(part, ids)
			for j := range part {
				part[j] = uint64(ids[j])
			}
		}
	}
}

// codes returns the codes of a column for all groups.
func (k *keys) codes(column int) []uint64 {
	out := make([]uint64, k.groups)
	if k.groups == 0 || !k.ready {
		return out[:0]
	}
	if k.solo {
		for i := range out {
			out[i] = uint64(i)
		}
		return out
	}
	last := len(k.stages) - 1
	copy(out, k.stages[last].table.keys)
	for i := last; ; i-- {
		s := &k.stages[i]
		for j, c := range s.cols {
			if c == column {
				shift, mask := s.shifts[j], uint64(1)<<k.cols[c].width()-1
				for g, w := range out {
					out[g] = w >> (shift & 63) & mask
				}
				return out
			}
		}
		before := k.stages[i-1].table.keys
		for g, w := range out {
			out[g] = before[uint32(w)]
		}
	}
}

// columns returns the keys of all groups.
func (k *keys) columns() ([]arrow.Array, error) {
	out := make([]arrow.Array, len(k.cols))
	for i, c := range k.cols {
		var err error
		if out[i], err = c.decode(k.codes(i)); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (k *keys) bytes() (sum int64) {
	for _, c := range k.cols {
		sum += c.bytes()
	}
	for _, s := range k.stages {
		sum += s.table.bytes()
	}
	return sum
}
