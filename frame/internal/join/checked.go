package join

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/vec"
)

// checkedPairs adds the result of rows whose pairs are checked: by the condition, and by their keys if two keys of the
// table have the same hash.
func (c *probe) checkedPairs(lo, n int) error {
	hits := c.hits[:n]
	clear(hits)
	kind := c.o.Kind
	done := 0                    // rows before it are complete in the result, if the kind keeps rows of the left side
	keep := func(to int) error { // completes rows
		for ; kind.keepsLeft() && done < to; done++ {
			if !hits[done] {
				if err := c.push(int32(lo+done), -1); err != nil {
					return err
				}
			}
		}
		return nil
	}
	for row, at := 0, int32(0); row < n; {
		row, at = c.candidates(row, at, n)
		if err := c.check(lo, n); err != nil {
			return err
		}
		for i, l := range c.candLeft {
			if err := keep(int(l)); err != nil {
				return err
			}
			hits[l] = true
			if !kind.selects() {
				if err := c.push(l+int32(lo), c.candRight[i]); err != nil {
					return err
				}
			}
		}
		if err := keep(row); err != nil {
			return err
		}
	}
	if !kind.selects() {
		return nil
	}
	for i, hit := range hits {
		if hit == (kind == Semi) && (!c.o.NullAware || c.canBeNotIn(lo+i)) {
			if err := c.push(int32(lo+i), -1); err != nil {
				return err
			}
		}
	}
	return nil
}

// candidates sets the next pairs to be checked, from a row and a position among its pairs, and returns where to
// continue.
func (c *probe) candidates(row int, at int32, n int) (int, int32) {
	c.candLeft, c.candRight = c.candLeft[:0], c.candRight[:0]
	for ; row < n; row, at = row+1, 0 {
		f := c.first[row]
		// A row with a match needs no other in a semi or anti join.
		if f < 0 || c.o.Kind.selects() && c.hits[row] {
			continue
		}
		count := int32(1)
		if c.t.list != nil || c.t.all {
			count = c.count[row]
		}
		used := len(c.candLeft)
		k := min(int(count-at), c.o.MaxRows-used)
		if k == 0 {
			return row, at
		}
		c.candLeft, c.candRight = c.candLeft[:used+k], c.candRight[:used+k]
		c.t.rowsAt(f+at, c.candRight[used:])
		for j := used; j < used+k; j++ {
			c.candLeft[j] = int32(row)
		}
		if at += int32(k); at < count {
			return row, at
		}
	}
	return row, at
}

// check removes the candidates that do not match.
func (c *probe) check(lo, n int) error {
	if h := c.t.hashed; h != nil && h.mixed {
		marks := c.marks[:len(c.candLeft)]
		for i := range marks {
			marks[i] = true
		}
		h.equal(c.key, lo, n, c.candLeft, c.candRight, marks, c.scratch)
		c.keepCandidates(func(i int) bool { return marks[i] })
	}
	if c.o.Condition == nil || len(c.candLeft) == 0 {
		return nil
	}
	rows := make([]int32, len(c.candLeft))
	for i, l := range c.candLeft {
		rows[i] = l + int32(lo)
	}
	left, err := takeBatch(c.condition, rows)
	if err != nil {
		return err
	}
	defer left.Release()
	right, err := takeBatch(c.Prober.condition, c.candRight)
	if err != nil {
		return err
	}
	defer right.Release()
	mask, err := c.o.Condition.Eval(left, right)
	if err != nil {
		return fmt.Errorf("join: condition: %w", err)
	}
	defer mask.Release()
	if mask.Len() != len(rows) {
		return fmt.Errorf("join: condition returned %d values for %d pairs", mask.Len(), len(rows))
	}
	nulls := mask.NullN() > 0
	c.keepCandidates(func(i int) bool { return mask.Value(i) && !(nulls && mask.IsNull(i)) })
	return nil
}

// keepCandidates removes the candidates for which keep returns false.
func (c *probe) keepCandidates(keep func(i int) bool) {
	k := 0
	for i, l := range c.candLeft {
		if keep(i) {
			c.candLeft[k], c.candRight[k] = l, c.candRight[i]
			k++
		}
	}
	c.candLeft, c.candRight = c.candLeft[:k], c.candRight[:k]
}

// takeBatch returns rows of a batch by number, which the caller releases.
func takeBatch(b arrow.RecordBatch, rows []int32) (arrow.RecordBatch, error) {
	if consecutive(rows) {
		return b.NewSlice(int64(rows[0]), int64(rows[0])+int64(len(rows))), nil
	}
	taken, err := vec.Take(b, rows)
	if err != nil {
		return nil, fmt.Errorf("join: %w", err)
	}
	return taken, nil
}
