package order

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/vec"
)

// Top keeps the first rows, in the order of keys, of the batches that are added. Of rows with equal keys, those added
// first are first.
type Top struct {
	schema *arrow.Schema
	keys   []SortKey
	n      int

	held []arrow.RecordBatch // rows that may be among the first
	rows int                 // in held
	// last is row n-1 of the rows up to the last cut. Rows that are not before it need not be held.
	last    *keyed
	lastRow int
}

// NewTop returns a Top of n rows for batches with a schema.
func NewTop(s *arrow.Schema, keys []SortKey, n int) (*Top, error) {
	if n < 0 {
		return nil, fmt.Errorf("order: the first %d rows; use a number that is not negative", n)
	}
	if err := checkKeys(s, keys); err != nil {
		return nil, err
	}
	return &Top{schema: s, keys: keys, n: n}, nil
}

// Add adds the rows of a batch. It copies those that it needs.
func (t *Top) Add(b arrow.RecordBatch) (err error) {
	defer recoverError(&err)
	if err := checkTypes(t.schema, b); err != nil {
		return err
	}
	if err := checkRows(b.NumRows()); err != nil {
		return err
	}
	if t.n == 0 || b.NumRows() == 0 {
		return nil
	}
	if len(t.keys) == 0 { // the first rows that were added
		if b = b.NewSlice(0, min(b.NumRows(), int64(t.n-t.rows))); b.NumRows() > 0 {
			t.hold(b)
		} else {
			b.Release()
		}
		return nil
	}
	rows := t.candidates(b)
	if len(rows) == 0 {
		return nil
	}
	taken, err := vec.Take(b, rows)
	if err != nil {
		return fmt.Errorf("order: %w", err)
	}
	t.hold(taken)
	// With many rows held for each one that stays, cuts cost little for each row.
	if t.rows < 2*t.n+defaultRows/4 {
		return nil
	}
	return t.cut()
}

func (t *Top) hold(b arrow.RecordBatch) {
	t.held = append(t.held, b)
	t.rows += int(b.NumRows())
}

// candidates returns the rows of a batch that are before the last of the first rows so far.
func (t *Top) candidates(b arrow.RecordBatch) []int32 {
	n := int(b.NumRows())
	rows := make([]int32, 0, n)
	if t.last == nil {
		for i := range n {
			rows = append(rows, int32(i))
		}
		return rows
	}
	k := newKeyed(b, t.keys, true)
	limit := t.last.coarse[t.lastRow]
	onlyKey := k.exact && t.last.exact && len(t.keys) == 1
	for i, w := range k.coarse {
		if w < limit || w == limit && !onlyKey && k.compare(i, t.last, t.lastRow) < 0 {
			rows = append(rows, int32(i))
		}
	}
	return rows
}

// cut sorts the rows that are held and drops those that are not among the first.
func (t *Top) cut() error {
	whole, rows, err := sortAll(t.schema, t.held, t.keys)
	if err != nil {
		return err
	}
	defer whole.Release()
	n := min(t.n, int(whole.NumRows()))
	var first arrow.RecordBatch
	if rows == nil {
		first = whole.NewSlice(0, int64(n))
	} else if first, err = vec.Take(whole, rows[:n]); err != nil {
		return fmt.Errorf("order: %w", err)
	}
	vec.ReleaseBatches(t.held)
	t.held, t.rows = []arrow.RecordBatch{first}, n
	if n == t.n && n > 0 && len(t.keys) > 0 {
		at := first.NewSlice(int64(n-1), int64(n))
		defer at.Release()
		t.last, t.lastRow = newKeyed(at, t.keys, true), 0
	}
	return nil
}

// Finish returns the first rows in order, at most as many as the Top has, and resets it. The caller releases them.
func (t *Top) Finish() (_ arrow.RecordBatch, err error) {
	defer recoverError(&err)
	if err := t.cut(); err != nil {
		return nil, err
	}
	out := t.held[0]
	t.held, t.rows, t.last = nil, 0, nil
	return out, nil
}

// Release drops the rows that are held.
func (t *Top) Release() {
	vec.ReleaseBatches(t.held)
	t.held, t.rows, t.last = nil, 0, nil
}
