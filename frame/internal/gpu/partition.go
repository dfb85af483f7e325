package gpu

import (
	"context"
	"fmt"

	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
)

// Partition divides the rows of a table into n partitions by the hash of their keys; rows with equal keys are in one,
// also of different tables. Rows have no particular order. The partitions are parts of one table: its memory is free
// when all of them are released.
func (e *Engine) Partition(ctx context.Context, t *Table, keys []int, n int) (_ []*Table, err error) {
	if n < 1 || n > maxParts {
		return nil, fmt.Errorf("gpu: partition: %d partitions, want 1 to %d", n, maxParts)
	}
	k, err := keyColumns("partition", t, keys, func(i int) bool { return t.Columns[keys[i]].Valid != nil })
	if err != nil {
		return nil, err
	}
	out, err := e.newTable(ctx, "partition", t.Schema, t.Rows, func(i int) bool { return t.Columns[i].Valid != nil })
	if err != nil {
		return nil, err
	}
	defer out.Release()
	counts, err := e.zeroed(ctx, "partition", 8*maxParts)
	if err != nil {
		return nil, err
	}
	defer counts.Release()
	arg := cuda.Struct(bytesOf(&k))
	args := []cuda.Arg{arg, cuda.Val(uint64(t.Rows)), cuda.Val(uint32(n)), cuda.Out(counts)}
	if err := e.launch("table_rows", "rows_part_count", t.Rows, usesKeys(t, keys, args)...); err != nil {
		return nil, err
	}
	sizes, err := e.fetch(ctx, counts, maxParts)
	if err != nil {
		return nil, err
	}
	starts := make([]uint64, maxParts)
	for i := 1; i < maxParts; i++ {
		starts[i] = starts[i-1] + sizes[i-1]
	}
	if err := e.put(ctx, counts, starts); err != nil {
		return nil, err
	}
	var m movesArg
	for i, c := range t.Columns {
		o := out.Columns[i]
		if err := m.add(c.Data, o.Data, c.kind().width()); err != nil {
			return nil, err
		}
		if c.Valid != nil {
			if err := m.add(c.Valid, o.Valid, 1); err != nil {
				return nil, err
			}
		}
	}
	args = []cuda.Arg{arg, cuda.Val(uint64(t.Rows)), cuda.Val(uint32(n)), cuda.Out(counts),
		cuda.Struct(bytesOf(&m))}
	args = usesKeys(t, keys, args)
	for i, c := range t.Columns {
		args = append(c.uses(args), cuda.AlsoOut(out.Columns[i].Data))
		if v := out.Columns[i].Valid; v != nil {
			args = append(args, cuda.AlsoOut(v))
		}
	}
	tiles := (t.Rows + tileRows - 1) / tileRows
	if err := e.launch("table_rows", "rows_part_scatter", tiles*threads, args...); err != nil {
		return nil, err
	}
	parts := make([]*Table, n)
	for i := range parts {
		parts[i] = out.slice(int(starts[i]), int(sizes[i]))
	}
	return parts, nil
}

// add adds a column of values or a validity. All move at once: the order of rows differs from run to run.
func (m *movesArg) add(from, to *mem.Buffer, width int) error {
	if m.count == maxMoves {
		return fmt.Errorf("gpu: partition: more than %d columns and validities", maxMoves)
	}
	m.from[m.count], m.to[m.count], m.width[m.count] = uint64(from.Addr()), uint64(to.Addr()), uint8(width)
	m.count++
	return nil
}
