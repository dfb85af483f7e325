package order

import (
	"bytes"
	"fmt"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/frame/internal/vec"
)

// Sort returns the rows of batches, which have the schema, in one sorted batch. The caller releases it.
func Sort(s *arrow.Schema, batches []arrow.RecordBatch, keys []SortKey) (arrow.RecordBatch, error) {
	whole, rows, err := sortAll(s, batches, keys)
	if err != nil {
		return nil, err
	}
	defer whole.Release()
	if rows == nil {
		whole.Retain()
		return whole, nil
	}
	out, err := vec.Take(whole, rows)
	if err != nil {
		return nil, fmt.Errorf("order: %w", err)
	}
	return out, nil
}

// SortTo is Sort into batches of at most maxRows rows; 0 is 65,536.
func SortTo(s *arrow.Schema, batches []arrow.RecordBatch, keys []SortKey, maxRows int, emit Emit) error {
	if maxRows <= 0 {
		maxRows = defaultRows
	}
	whole, rows, err := sortAll(s, batches, keys)
	if err != nil {
		return err
	}
	defer whole.Release()
	n := int(whole.NumRows())
	for lo := 0; lo < n; lo += maxRows {
		hi := min(lo+maxRows, n)
		var out arrow.RecordBatch
		if rows == nil {
			out = whole.NewSlice(int64(lo), int64(hi))
		} else if out, err = vec.Take(whole, rows[lo:hi]); err != nil {
			return fmt.Errorf("order: %w", err)
		}
		if err := emit(out); err != nil {
			return err
		}
	}
	return nil
}

// sortAll returns all rows in one batch and their order, or nil if they are sorted.
func sortAll(s *arrow.Schema, batches []arrow.RecordBatch, keys []SortKey) (arrow.RecordBatch, []int32, error) {
	whole, err := vec.Concat(s, batches)
	if err != nil {
		return nil, nil, fmt.Errorf("order: %w", err)
	}
	rows, err := Permutation(whole, keys)
	if err != nil {
		whole.Release()
		return nil, nil, err
	}
	return whole, rows, nil
}

// Permutation returns the numbers of the rows of a batch in the order of the keys, or nil if the batch is sorted.
func Permutation(b arrow.RecordBatch, keys []SortKey) (rows []int32, err error) {
	defer recoverError(&err)
	if err := checkKeys(b.Schema(), keys); err != nil {
		return nil, err
	}
	if err := checkRows(b.NumRows()); err != nil {
		return nil, err
	}
	s := &sorter{levels: newLevels(b, keys), n: int(b.NumRows())}
	if s.n < 2 || len(s.levels) == 0 {
		return nil, nil
	}
	return s.sort(), nil
}

// sorter sorts the numbers of rows, level by level: rows that are equal on one level are a run, which is sorted by the
// next.
type sorter struct {
	levels []*level
	n      int
	rows   []int32

	items, tmp []item // of the run of level 1 at work, whose first row is at base
	base       int
}

func (s *sorter) sort() []int32 {
	if s.levels[0].text != nil {
		s.rows = make([]int32, s.n)
		for i := range s.rows {
			s.rows[i] = int32(i)
		}
		s.scratch(0, s.n)
		s.sortRun(0, s.n, 0, 0)
		return s.rows
	}
	first := s.levels[0]
	words := make([]uint64, s.n)
	first.fill(words)
	if ascending(words) {
		if len(s.levels) == 1 {
			return nil
		}
		s.rows = make([]int32, s.n)
		for i := range s.rows {
			s.rows[i] = int32(i)
		}
		s.sortTies(words)
		return s.rows
	}
	s.rows = make([]int32, s.n)
	low, keyBits := bits.Len(uint(s.n-1)), bits.Len64(first.most)
	if low+keyBits <= 64 {
		for i, w := range words {
			words[i] = w<<low | uint64(i)
		}
		words = sortPacked(words, make([]uint64, s.n), low, keyBits)
		mask := uint64(1)<<low - 1
		for i, w := range words {
			s.rows[i] = int32(w & mask)
			words[i] = w >> low
		}
	} else {
		s.scratch(0, s.n)
		for i, w := range words {
			s.items[i] = item{w, int32(i)}
		}
		sortItems(s.items, s.tmp)
		for i, x := range s.items {
			s.rows[i], words[i] = x.row, x.word
		}
	}
	if len(s.levels) > 1 {
		s.sortTies(words)
	}
	return s.rows
}

func ascending(words []uint64) bool {
	for i := 1; i < len(words); i++ {
		if words[i] < words[i-1] {
			return false
		}
	}
	return true
}

// sortTies sorts the runs of equal words of the first level.
func (s *sorter) sortTies(words []uint64) {
	for from := 0; from < s.n; {
		to := from + 1
		for to < s.n && words[to] == words[from] {
			to++
		}
		if to-from > 1 {
			s.scratch(from, to)
			s.sortRun(from, to, 1, 0)
		}
		from = to
	}
}

// scratch prepares the items for a run of rows.
func (s *sorter) scratch(from, to int) {
	if n := to - from; n > len(s.items) {
		n = min(s.n, max(n, 2*len(s.items)))
		s.items, s.tmp = make([]item, n), make([]item, n)
	}
	s.base = from
}

// sortRun sorts the rows at positions from to to, which are equal before a level and, if that is text, in its first
// depth bytes.
func (s *sorter) sortRun(from, to, at, depth int) {
	for ; to-from > 1 && at < len(s.levels); at, depth = at+1, 0 {
		l := s.levels[at]
		rows, items := s.rows[from:to], s.items[from-s.base:to-s.base]
		differ := s.load(l, rows, items, depth)
		if l.text != nil {
			for differ == 0 && l.more(items[0].word) {
				// All begin alike: continue after all that they have in common.
				depth = l.text.common(rows, depth+textStep)
				differ = s.load(l, rows, items, depth)
			}
		}
		if differ == 0 {
			continue
		}
		sortItems(items, s.tmp[from-s.base:to-s.base])
		for i, x := range items {
			rows[i] = x.row
		}
		if at+1 == len(s.levels) && l.text == nil {
			return
		}
		for lo := 0; lo < len(items); {
			hi, w := lo+1, items[lo].word
			for hi < len(items) && items[hi].word == w {
				hi++
			}
			switch {
			case hi-lo == 1:
			case l.text != nil && l.more(w):
				s.sortRun(from+lo, from+hi, at, depth+textStep)
			default:
				s.sortRun(from+lo, from+hi, at+1, 0)
			}
			lo = hi
		}
		return
	}
}

// more reports whether texts with a word go on after it.
func (l *level) more(word uint64) bool {
	if l.desc {
		word = ^word
	}
	return word&0xff > textStep
}

// load sets the items to the words of rows, and returns the bits in which they differ.
func (s *sorter) load(l *level, rows []int32, items []item, depth int) (differ uint64) {
	if l.text == nil {
		if l.words == nil {
			l.words = make([]uint64, s.n)
			l.fill(l.words)
		}
		for i, r := range rows {
			items[i] = item{l.words[r], r}
			differ |= items[i].word ^ items[0].word
		}
		return differ
	}
	var flip uint64
	if l.desc {
		flip = ^flip
	}
	for i, r := range rows {
		items[i] = item{flip, r}
		if l.valid == nil || bitSet(l.valid, l.offset+int(r)) {
			items[i].word ^= l.text.word(r, depth)
		}
		differ |= items[i].word ^ items[0].word
	}
	return differ
}

// common returns how many bytes all texts of rows begin with in common, of which the first depth are known.
func (t *texts) common(rows []int32, depth int) int {
	first := t.value(rows[0])
	n := len(first)
	for _, r := range rows[1:] {
		v := t.value(r)
		n = min(n, len(v))
		if bytes.Equal(v[depth:n], first[depth:n]) {
			continue
		}
		i := depth
		for i < n && v[i] == first[i] {
			i++
		}
		if n = i; n == depth {
			break
		}
	}
	return n
}

func sliceOf(a arrow.Array, lo, hi int) arrow.Array { return array.NewSlice(a, int64(lo), int64(hi)) }
