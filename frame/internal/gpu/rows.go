package gpu

import (
	"context"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
)

// rowList is a list of numbers of rows on the device, 32 bits each; noRow stands for a row of nulls.
type rowList struct {
	numbers *mem.Buffer
	n       int
}

// gather returns the rows of a table in the order of a list; nulls adds room for nulls to all columns.
func (e *Engine) gather(ctx context.Context, what string, t *Table, l rowList, nulls bool) (_ *Table, err error) {
	out, err := e.newTable(ctx, what, t.Schema, l.n, func(i int) bool { return nulls || t.Columns[i].Valid != nil })
	if err != nil {
		return nil, err
	}
	for i, c := range t.Columns {
		if err := e.gatherColumn(c, l, out.Columns[i]); err != nil {
			out.Release()
			return nil, err
		}
	}
	return out, nil
}

func (e *Engine) gatherColumn(c Column, l rowList, to Column) error {
	args := []cuda.Arg{cuda.In(c.Data), optionalIn(c.Valid), cuda.In(l.numbers), cuda.Val(uint64(l.n)),
		cuda.Out(to.Data), optionalOut(to.Valid)}
	return e.launch("table_rows", fmt.Sprintf("rows_gather_%d", c.kind().width()), l.n, args...)
}

func optionalIn(b *mem.Buffer) cuda.Arg {
	if b == nil {
		return cuda.Val(uint64(0))
	}
	return cuda.In(b)
}

func optionalOut(b *mem.Buffer) cuda.Arg {
	if b == nil {
		return cuda.Val(uint64(0))
	}
	return cuda.Out(b)
}

// Compare is an operator of Filter.
type Compare uint32

// Operators, with nulls and NaN as in package expr: a null is never true, NaN is above all numbers.
const (
	Eq Compare = iota
	Ne
	Lt
	Le
	Gt
	Ge
)

// Condition compares a column with a constant: Int for integers, dates, times and booleans (the bits of a uint64),
// Float for floats.
type Condition struct {
	Column int
	Op     Compare
	Int    int64
	Float  float64
}

// Filter returns the rows for which all conditions are true, in their order.
func (e *Engine) Filter(ctx context.Context, t *Table, conditions ...Condition) (*Table, error) {
	mask, err := e.alloc(ctx, "filter", max(t.Rows, 1))
	if err != nil {
		return nil, err
	}
	defer mask.Release()
	if _, err := e.cfg.Stream.Fill(mask, 1); err != nil {
		return nil, err
	}
	for _, c := range conditions {
		if c.Column < 0 || c.Column >= len(t.Columns) {
			return nil, fmt.Errorf("gpu: filter: no column %d in a table of %d", c.Column, len(t.Columns))
		}
		col := t.Columns[c.Column]
		constant := cuda.Val(c.Int)
		if col.kind().float() {
			constant = cuda.Val(c.Float)
		}
		a := col.arg()
		args := []cuda.Arg{cuda.Struct(bytesOf(&a)), cuda.Val(uint64(t.Rows)), cuda.Val(uint32(c.Op)), constant,
			cuda.Val(uint32(1)), cuda.Out(mask)}
		if err := e.launch("table_rows", "rows_compare", t.Rows, col.uses(args)...); err != nil {
			return nil, err
		}
	}
	l, err := e.selected(ctx, mask, t.Rows)
	if err != nil {
		return nil, err
	}
	defer l.numbers.Release()
	return e.gather(ctx, "filter", t, l, false)
}

// selected returns the numbers of the rows of a mask.
func (e *Engine) selected(ctx context.Context, mask *mem.Buffer, rows int) (rowList, error) {
	tiles := (rows + tileRows - 1) / tileRows
	counts, err := e.zeroed(ctx, "filter", 8*(tiles+1))
	if err != nil {
		return rowList{}, err
	}
	defer counts.Release()
	n := cuda.Val(uint64(rows))
	if err := e.launch("table_rows", "rows_count", tiles*threads, cuda.In(mask), n, cuda.Out(counts)); err != nil {
		return rowList{}, err
	}
	if err := e.launchAll("table_rows", "rows_scan", 1, cuda.Out(counts), cuda.Val(uint64(tiles))); err != nil {
		return rowList{}, err
	}
	last := counts.Slice(8*tiles, 8)
	last.SetReady(counts.Ready())
	total, err := e.fetch(ctx, last, 1)
	last.Release()
	if err != nil {
		return rowList{}, err
	}
	l := rowList{n: int(total[0])}
	if l.numbers, err = e.alloc(ctx, "filter", 4*l.n); err != nil {
		return rowList{}, err
	}
	if l.n > 0 {
		err = e.launch("table_rows", "rows_select", tiles*threads, cuda.In(mask), n, cuda.In(counts),
			cuda.Out(l.numbers))
	}
	if err != nil {
		l.numbers.Release()
		return rowList{}, err
	}
	return l, nil
}

// Random describes a column of random numbers.
type Random struct {
	Seed uint64
	// Values are Low plus a number below Range; 0 is all of 64 bits. Counted makes the number that of the row.
	Low     int64
	Range   uint64
	Counted bool
	// Spread hashes the number, which gives different values for different numbers.
	Spread bool
}

// Random returns a table of random columns of int32, int64 or float64, rows first to first+rows-1 of an endless one.
func (e *Engine) Random(ctx context.Context, s *arrow.Schema, first, rows int, columns []Random) (*Table, error) {
	if len(columns) != s.NumFields() {
		return nil, fmt.Errorf("gpu: random: %d columns for a schema of %d", len(columns), s.NumFields())
	}
	t, err := e.newTable(ctx, "random", s, rows, func(int) bool { return false })
	if err != nil {
		return nil, err
	}
	for i, c := range columns {
		flag := map[bool]uint32{true: 1}
		if err := e.launch("table_rows", "rows_random", rows, cuda.Out(t.Columns[i].Data),
			cuda.Val(uint32(t.Columns[i].kind())), cuda.Val(flag[c.Spread]), cuda.Val(flag[c.Counted]),
			cuda.Val(uint64(first)), cuda.Val(uint64(rows)), cuda.Val(c.Seed), cuda.Val(c.Low),
			cuda.Val(c.Range)); err != nil {
			t.Release()
			return nil, err
		}
	}
	return t, nil
}

// Sum returns a number that depends on the rows of a table, but not on their order.
func (e *Engine) Sum(ctx context.Context, t *Table) (uint64, error) {
	all := make([]int, len(t.Columns))
	for i := range all {
		all[i] = i
	}
	k, err := keyColumns("sum", t, all, func(int) bool { return true })
	if err != nil {
		return 0, err
	}
	sum, err := e.zeroed(ctx, "sum", 8)
	if err != nil {
		return 0, err
	}
	defer sum.Release()
	args := []cuda.Arg{cuda.Struct(bytesOf(&k)), cuda.Val(uint64(t.Rows)), cuda.Out(sum)}
	if err := e.launch("table_rows", "rows_sum", t.Rows, usesKeys(t, all, args)...); err != nil {
		return 0, err
	}
	words, err := e.fetch(ctx, sum, 1)
	if err != nil {
		return 0, err
	}
	return words[0], nil
}
