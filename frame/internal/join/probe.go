package join

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/frame/internal/vec"
)

// probe is a Prober at work on a batch.
type probe struct {
	*Prober
	emit      Emit
	key       []arrow.Array
	nulls     bool              // some keys are null
	batch     arrow.RecordBatch // columns for the result
	condition arrow.RecordBatch // columns for the condition
}

// find looks up n rows from lo and sets first and count of the prober.
func (c *probe) find(lo, n int) error {
	t := c.t
	first, count := c.first[:n], c.count[:n]
	if t.all {
		for i := range first {
			first[i], count[i] = 0, int32(t.rows)
			if t.rows == 0 {
				first[i] = -1
			}
		}
		return nil
	}
	keys := c.keys[:n]
	if t.packer != nil {
		t.packer.pack(c.key, lo, keys, c.scratch)
	} else {
		slices := sliceAll(c.key, lo, lo+n)
		err := t.hashed.hash(slices, keys)
		vec.Release(slices)
		if err != nil {
			return fmt.Errorf("join: %w", err)
		}
	}
	// The first rows are looked up as if few were found.
	t.index.lookup(keys, first, count, c.hitRows <= c.allRows/2)
	if c.allRows < 1<<16 {
		c.allRows += n
		for _, f := range first {
			c.hitRows += int(uint32(^f) >> 31)
		}
	}
	if c.nulls {
		for _, k := range c.key {
			eachNull(k, lo, lo+n, func(row int) { first[row-lo] = -1 })
		}
	}
	if t.hashed != nil && !t.hashed.mixed {
		c.compare(lo, n)
	}
	return nil
}

// compare removes the rows whose key has the hash of a key of the table but is another.
func (c *probe) compare(lo, n int) {
	found := 0
	for i, f := range c.first[:n] {
		if f < 0 {
			continue
		}
		if c.t.list != nil {
			f = c.t.list[f]
		}
		c.found[found], c.foundRight[found] = int32(i), f
		found++
	}
	marks := c.marks[:found]
	for i := range marks {
		marks[i] = true
	}
	c.t.hashed.equal(c.key, lo, n, c.found[:found], c.foundRight[:found], marks, c.scratch)
	for i, same := range marks {
		if !same {
			c.first[c.found[i]] = -1
		}
	}
}

// pairs adds the result of n rows from lo, which were looked up.
func (c *probe) pairs(lo, n int) error {
	switch {
	case c.checks():
		return c.checkedPairs(lo, n)
	case c.o.NullAware:
		return c.notIn(lo, n)
	case c.o.Kind.selects():
		for i, f := range c.first[:n] {
			if (f >= 0) == (c.o.Kind == Semi) {
				if err := c.push(int32(lo+i), -1); err != nil {
					return err
				}
			}
		}
		return nil
	case c.t.list == nil && !c.t.all:
		return c.uniquePairs(lo, n)
	}
	return c.listPairs(lo, n)
}

// canBeNotIn reports whether NOT IN is true for a row without a match: it is unknown if its key or one of the table is
// null.
func (c *probe) canBeNotIn(row int) bool {
	return !c.t.nullKey && (c.t.rows == 0 || c.key[0].IsValid(row))
}

// notIn selects the rows for which NOT IN is true.
func (c *probe) notIn(lo, n int) error {
	for i, f := range c.first[:n] {
		if f < 0 && c.canBeNotIn(lo+i) {
			if err := c.push(int32(lo+i), -1); err != nil {
				return err
			}
		}
	}
	return nil
}

// uniquePairs adds the pairs if a key has at most one row in the table.
func (c *probe) uniquePairs(lo, n int) error {
	keep := c.o.Kind.keepsLeft()
	for from := 0; from < n; {
		if len(c.pairLeft) == c.o.MaxRows {
			if err := c.flush(); err != nil {
				return err
			}
		}
		at := len(c.pairLeft)
		first := c.first[from:min(n, from+c.o.MaxRows-at)]
		left, right := c.pairLeft[at:at+len(first)], c.pairRight[at:at+len(first)]
		if keep {
			for i, f := range first {
				left[i], right[i] = int32(lo+from+i), f
			}
			at += len(first)
		} else {
			k := 0
			for i, f := range first {
				left[k], right[k] = int32(lo+from+i), f
				k += int(uint32(^f) >> 31) // 1 unless it is -1
			}
			at += k
		}
		c.pairLeft, c.pairRight = c.pairLeft[:at], c.pairRight[:at]
		from += len(first)
	}
	return nil
}

// listPairs adds the pairs if a key may have several rows in the table.
func (c *probe) listPairs(lo, n int) error {
	keep := c.o.Kind.keepsLeft()
	for i, f := range c.first[:n] {
		if f < 0 {
			if keep {
				if err := c.push(int32(lo+i), -1); err != nil {
					return err
				}
			}
			continue
		}
		for end := f + c.count[i]; f < end; {
			at := len(c.pairLeft)
			if at == c.o.MaxRows {
				if err := c.flush(); err != nil {
					return err
				}
				at = 0
			}
			k := min(int(end-f), c.o.MaxRows-at)
			c.pairLeft, c.pairRight = c.pairLeft[:at+k], c.pairRight[:at+k]
			c.t.rowsAt(f, c.pairRight[at:])
			for j := at; j < at+k; j++ {
				c.pairLeft[j] = int32(lo + i)
			}
			f += int32(k)
		}
	}
	return nil
}

// rowsAt writes the rows of the table from a position of the list of rows.
func (t *Table) rowsAt(at int32, out []int32) {
	switch {
	case t.all:
		for i := range out {
			out[i] = at + int32(i)
		}
	case t.list == nil:
		out[0] = at
	default:
		copy(out, t.list[at:])
	}
}

// push adds a row to the result.
func (c *probe) push(left, right int32) error {
	if len(c.pairLeft) == c.o.MaxRows {
		if err := c.flush(); err != nil {
			return err
		}
	}
	c.pairLeft, c.pairRight = append(c.pairLeft, left), append(c.pairRight, right)
	return nil
}

// flush emits the rows of the result that were added.
func (c *probe) flush() error {
	left, right := c.pairLeft, c.pairRight
	c.pairLeft, c.pairRight = left[:0], right[:0]
	if len(left) == 0 {
		return nil
	}
	if c.matched != nil {
		for _, r := range right {
			if r >= 0 {
				c.matched.add(int(r))
			}
		}
	}
	columns := make([]arrow.Array, 0, c.out.NumFields())
	defer func() { vec.Release(columns) }()
	var err error
	if columns, err = takeColumns(columns, c.batch, left); err != nil {
		return err
	}
	if !c.o.Kind.selects() {
		if columns, err = takeColumns(columns, c.right, right); err != nil {
			return err
		}
	}
	return c.emit(array.NewRecordBatch(c.out, columns, int64(len(left))))
}

// takeColumns appends the columns of rows by number. Consecutive rows are a slice and are not copied.
func takeColumns(columns []arrow.Array, b arrow.RecordBatch, rows []int32) ([]arrow.Array, error) {
	if b.NumCols() == 0 {
		return columns, nil
	}
	var taken arrow.RecordBatch
	if consecutive(rows) {
		taken = b.NewSlice(int64(rows[0]), int64(rows[0])+int64(len(rows)))
	} else {
		var err error
		if taken, err = vec.Take(b, rows); err != nil {
			return columns, fmt.Errorf("join: %w", err)
		}
	}
	defer taken.Release()
	for _, c := range taken.Columns() {
		c.Retain()
		columns = append(columns, c)
	}
	return columns, nil
}

func consecutive(rows []int32) bool {
	if rows[0] < 0 || int(rows[len(rows)-1]-rows[0]) != len(rows)-1 {
		return false
	}
	for i, r := range rows {
		if r != rows[0]+int32(i) {
			return false
		}
	}
	return true
}
