package order

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/vec"
)

// Merge merges runs, each a list of batches sorted by the keys, into batches of at most maxRows rows; 0 is 65,536. Of
// rows with equal keys, those of the earlier run are first.
func Merge(s *arrow.Schema, runs [][]arrow.RecordBatch, keys []SortKey, maxRows int, emit Emit) (err error) {
	defer recoverError(&err)
	if err := checkKeys(s, keys); err != nil {
		return err
	}
	if maxRows <= 0 {
		maxRows = defaultRows
	}
	m := &merger{schema: s, keys: keys}
	for i, batches := range runs {
		r := &run{number: i, batches: batches}
		for _, b := range batches {
			if err := checkTypes(s, b); err != nil {
				return err
			}
			if err := checkRows(b.NumRows()); err != nil {
				return err
			}
		}
		if r.next(keys) {
			m.heap = append(m.heap, r)
		}
	}
	for i := len(m.heap)/2 - 1; i >= 0; i-- {
		m.down(i)
	}
	for len(m.heap) > 0 {
		if err := m.emit(maxRows, emit); err != nil {
			return err
		}
	}
	return nil
}

// run is a sorted list of batches at a row.
type run struct {
	number  int
	batches []arrow.RecordBatch // the first is at work
	keyed   *keyed
	row     int // of the first batch
	from    int // first row of the first batch in the output at work
	index   int // of the first batch among the parts of the output, or -1
}

// next begins the first batch that has rows, and returns false if there is none.
func (r *run) next(keys []SortKey) bool {
	for len(r.batches) > 0 && r.batches[0].NumRows() == 0 {
		r.batches = r.batches[1:]
	}
	if len(r.batches) == 0 {
		return false
	}
	r.keyed, r.row, r.from, r.index = newKeyed(r.batches[0], keys, true), 0, 0, -1
	return true
}

// merger has the runs that are not finished in a heap, the one with the least row on top.
type merger struct {
	schema *arrow.Schema
	keys   []SortKey
	heap   []*run
}

func (m *merger) less(a, b *run) bool {
	x, y := a.keyed.coarse[a.row], b.keyed.coarse[b.row]
	if x != y {
		return x < y
	}
	if c := a.keyed.compare(a.row, b.keyed, b.row); c != 0 {
		return c < 0
	}
	return a.number < b.number
}

// down moves a run of the heap to its place below.
func (m *merger) down(i int) {
	for {
		least := 2*i + 1
		if least >= len(m.heap) {
			return
		}
		if other := least + 1; other < len(m.heap) && m.less(m.heap[other], m.heap[least]) {
			least = other
		}
		if !m.less(m.heap[least], m.heap[i]) {
			return
		}
		m.heap[i], m.heap[least] = m.heap[least], m.heap[i]
		i = least
	}
}

// part is the rows of a batch in an output.
type part struct {
	batch    arrow.RecordBatch
	from, to int
	start    int32 // position of the first in the concatenation of all parts
}

// emit merges the next rows, at most n. Every part of the output is a range of rows of a batch, so that memory for
// the output only is needed.
func (m *merger) emit(n int, emit Emit) error {
	for _, r := range m.heap {
		r.index, r.from = -1, r.row
	}
	var parts []part
	type place struct {
		part int32
		row  int32 // in the part
	}
	places := make([]place, 0, n)
	for len(places) < n && len(m.heap) > 0 {
		r := m.heap[0]
		if r.index < 0 {
			r.index = len(parts)
			parts = append(parts, part{batch: r.batches[0], from: r.row})
		}
		places = append(places, place{int32(r.index), int32(r.row - r.from)})
		r.row++
		parts[r.index].to = r.row
		if r.row == int(r.batches[0].NumRows()) {
			r.batches = r.batches[1:]
			if !r.next(m.keys) {
				m.heap[0] = m.heap[len(m.heap)-1]
				m.heap = m.heap[:len(m.heap)-1]
			}
		}
		m.down(0)
	}
	slices := make([]arrow.RecordBatch, len(parts))
	start := int32(0)
	for i := range parts {
		p := &parts[i]
		p.start = start
		start += int32(p.to - p.from)
		slices[i] = p.batch.NewSlice(int64(p.from), int64(p.to))
	}
	defer vec.ReleaseBatches(slices)
	if len(slices) == 1 {
		slices[0].Retain()
		return emit(slices[0])
	}
	whole, err := vec.Concat(m.schema, slices)
	if err != nil {
		return fmt.Errorf("order: %w", err)
	}
	defer whole.Release()
	rows := make([]int32, len(places))
	for i, p := range places {
		rows[i] = parts[p.part].start + p.row
	}
	out, err := vec.Take(whole, rows)
	if err != nil {
		return fmt.Errorf("order: %w", err)
	}
	return emit(out)
}
