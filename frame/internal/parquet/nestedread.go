package parquet

import (
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

const (
	// softLevels is the number of values of a leaf after which a batch of nested values ends, with a whole row.
	softLevels = 1 << 20
	// maxRowLevels bounds the values of one row: a few bytes of run lengths may claim any number of them.
	maxRowLevels = 1 << 24
	// maxRowBytes bounds the texts of one row.
	maxRowBytes = 1 << 30
)

// leafReader reads the levels and values of a leaf of a nested column.
type leafReader struct {
	columnReader
	rep, def []uint32 // levels that are decoded and not taken
	scratch  [2][chunkRows]uint32
	text     []byte
	ends     []int32
}

// segment is some rows of a leaf: levels, and the values that are present.
type segment struct {
	rep, def []uint8
	starts   []int // of the rows in the levels
	present  []int // number of values before each row
	n        int   // values
	values   []byte
	offsets  []int32
	array    arrow.Array // the values
}

func newLeafReader(n *node, dt arrow.DataType) (*leafReader, error) {
	c, err := newColumnReader(n, dt)
	if err != nil {
		return nil, err
	}
	return &leafReader{columnReader: *c}, nil
}

func (l *leafReader) begin(f *File, g *rowGroup) {
	l.columnReader.begin(f, g)
	l.rep, l.def = nil, nil
}

// more decodes levels if there are none.
func (l *leafReader) more() error {
	if len(l.def) > 0 {
		return nil
	}
	if err := l.next(); err != nil {
		return err
	}
	k := min(l.left, chunkRows)
	l.rep, l.def = l.scratch[0][:k], l.scratch[1][:k]
	clear(l.rep)
	clear(l.def)
	if l.leaf.maxRep > 0 {
		if err := l.page.rep.read(l.rep); err != nil {
			return err
		}
	}
	if l.leaf.maxDef > 0 {
		if err := l.page.def.read(l.def); err != nil {
			return err
		}
	}
	l.left -= k
	return nil
}

// segment reads at most n rows and at least one. The chunk has n rows more.
func (l *leafReader) segment(n int) (*segment, error) {
	s := &segment{}
	if l.kind == kindBytes || l.kind == kindDecimalBytes {
		s.offsets = append(s.offsets, 0)
	}
	for {
		if err := l.more(); errors.Is(err, io.EOF) {
			if len(s.starts) < n {
				return nil, errors.New("column chunk has fewer values than its row group has rows")
			}
			break
		} else if err != nil {
			return nil, err
		}
		k, present, ended := 0, 0, false
		for ; k < len(l.rep); k++ {
			r, d := l.rep[k], l.def[k]
			if r > uint32(l.leaf.maxRep) || d > uint32(l.leaf.maxDef) || r > 0 && len(s.starts) == 0 {
				return nil, errLevels
			}
			if r == 0 {
				full := len(s.def) > softLevels || len(s.values) > batchBytes
				if ended = len(s.starts) == n || full && len(s.starts) > 0; ended {
					break
				}
				s.starts = append(s.starts, len(s.def))
				s.present = append(s.present, s.n+present)
			}
			s.rep, s.def = append(s.rep, uint8(r)), append(s.def, uint8(d))
			if d == uint32(l.leaf.maxDef) {
				present++
			}
		}
		if len(s.def)-s.starts[len(s.starts)-1] > maxRowLevels {
			return nil, fmt.Errorf("row with more than %d values", maxRowLevels)
		}
		l.rep, l.def = l.rep[k:], l.def[k:]
		if err := l.take(s, present); err != nil {
			return nil, err
		}
		if ended {
			break
		}
	}
	return s, l.finish(s)
}

// take appends n values of the page.
func (l *leafReader) take(s *segment, n int) error {
	switch l.kind {
	case kindFixed:
		at := len(s.values)
		s.values = grow(s.values, n*l.fixed.width)[:at+n*l.fixed.width]
		s.n += n
		return l.fixed.read(s.values[at:], n)
	case kindBool:
		for len(s.values) < bitmapBytes(s.n+n) {
			s.values = append(s.values, 0)
		}
		s.n += n
		return l.bools.read(s.values, s.n-n, n)
	}
	if l.ends == nil {
		l.ends = make([]int32, chunkRows)
	}
	for n > 0 {
		k := n
		for {
			text, ok, err := l.bytes.read(l.ends[:k], l.text[:0], k)
			if err != nil {
				return err
			}
			if l.text = text[:0]; ok {
				if len(s.values)+len(text) > maxRowBytes {
					return fmt.Errorf("row with more than %d bytes of text", maxRowBytes)
				}
				for _, e := range l.ends[:k] {
					s.offsets = append(s.offsets, int32(len(s.values))+e)
				}
				s.values = append(s.values, text...)
				break
			}
			k = max(1, k/8)
		}
		s.n += k
		n -= k
	}
	return nil
}

// finish makes the array of the values.
func (l *leafReader) finish(s *segment) (err error) {
	b := batch{rows: s.n, values: s.values, offsets: s.offsets}
	s.array, err = l.columnReader.array(&b)
	return err
}

// nestedReader reads a nested column.
type nestedReader struct {
	nest   *nest
	leaves []*leafReader
	// pending are rows that a leaf has more than others.
	pending []*segment
	at      map[*nest]int // number of a leaf
}

func newNestedReader(x *nest) (*nestedReader, error) {
	r := &nestedReader{nest: x, at: map[*nest]int{}}
	for i, l := range x.leaves() {
		c, err := newLeafReader(l.leaf, l.field.Type)
		if err != nil {
			return nil, err
		}
		r.leaves = append(r.leaves, c)
		r.at[l] = i
	}
	r.pending = make([]*segment, len(r.leaves))
	return r, nil
}

func (r *nestedReader) begin(f *File, g *rowGroup) {
	for i, l := range r.leaves {
		l.begin(f, g)
		r.pending[i] = nil
	}
}

// read returns the next rows, at most n and at least one.
func (r *nestedReader) read(n int) (arrow.Array, error) {
	for i, l := range r.leaves {
		if r.pending[i] == nil {
			var err error
			if r.pending[i], err = l.segment(n); err != nil {
				return nil, fmt.Errorf("%q: %w", l.leaf.path(), err)
			}
		}
		n = min(n, len(r.pending[i].starts))
	}
	now := make([]*segment, len(r.leaves))
	for i, s := range r.pending {
		now[i], r.pending[i] = s.cut(n)
	}
	a := assembly{r: r, segments: now}
	out, err := a.build(r.nest, slots{})
	if err != nil {
		return nil, err
	}
	if out.Len() != n {
		out.Release()
		return nil, errLevels
	}
	return out, nil
}

// cut divides a segment after n rows; the rest is nil if it has no rows.
func (s *segment) cut(n int) (first, rest *segment) {
	if n == len(s.starts) {
		return s, nil
	}
	at, values := s.starts[n], s.present[n]
	first = &segment{rep: s.rep[:at], def: s.def[:at], starts: s.starts[:n], present: s.present[:n], n: values,
		array: array.NewSlice(s.array, 0, int64(values))}
	rest = &segment{rep: s.rep[at:], def: s.def[at:], n: s.n - values,
		array: array.NewSlice(s.array, int64(values), int64(s.n))}
	for i := n; i < len(s.starts); i++ {
		rest.starts = append(rest.starts, s.starts[i]-at)
		rest.present = append(rest.present, s.present[i]-values)
	}
	s.array.Release()
	return first, rest
}
