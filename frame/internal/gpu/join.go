package gpu

import (
	"context"
	"fmt"
	"math/bits"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/cuda"
	"go.millstream.dev/frame/internal/join"
	"go.millstream.dev/mem"
)

// JoinOptions are those of Join. Columns are numbers.
type JoinOptions struct {
	Kind                join.Kind // all but Cross
	LeftKeys, RightKeys []int     // as many, of the same types
	// Left and Right are the columns of the two sides in the result, in this order. Semi and Anti have no Right.
	Left, Right []int
	Schema      *arrow.Schema // of the result; default: the fields of the columns
}

// Join returns the join of two tables, in no particular order of rows. The hash table is that of the right side.
func (e *Engine) Join(ctx context.Context, left, right *Table, o JoinOptions) (*Table, error) {
	x, err := e.build(ctx, right, o.RightKeys, o.Kind == join.Right || o.Kind == join.Full)
	if err != nil {
		return nil, err
	}
	defer x.release()
	pairs, err := e.probe(ctx, x, left, o)
	if err != nil {
		return nil, err
	}
	defer pairs.release()
	if x.hit != nil {
		if err := e.appendRest(ctx, x, pairs); err != nil {
			return nil, err
		}
	}
	return e.joined(ctx, left, right, pairs, o)
}

// index is the hash table of the right side.
type index struct {
	t    *Table
	keys []int
	call joinArg
	h    held
	hit  *mem.Buffer // nil if not needed
}

func (x *index) release() { x.h.release() }

// uses declares the memory of the table for a kernel.
func (x *index) uses(args []cuda.Arg) []cuda.Arg {
	for _, b := range x.h {
		args = append(args, cuda.AlsoOut(b))
	}
	return usesKeys(x.t, x.keys, args)
}

// build returns the hash table of rows; matches adds room to record which of them have matched.
func (e *Engine) build(ctx context.Context, t *Table, keys []int, matches bool) (_ *index, err error) {
	x := &index{t: t, keys: keys}
	defer func() {
		if err != nil {
			x.release()
		}
	}()
	if x.call.build, err = keyColumns("join", t, keys, func(int) bool { return false }); err != nil {
		return nil, err
	}
	slots := 1 << bits.Len(uint(t.Rows+t.Rows/2+1)) // at most two thirds of them are taken
	call := &x.call
	call.buildRows, call.mask = uint64(t.Rows), uint64(slots-1)
	for _, b := range []struct {
		at    *uint64
		bytes int
	}{{&call.slots, 16 * (slots + 1)}, {&call.slotOf, 4 * t.Rows}, {&call.list, 4 * t.Rows}} {
		m, err := x.h.keep(e.alloc(ctx, "join", b.bytes))
		if err != nil {
			return nil, err
		}
		*b.at = uint64(m.Addr())
	}
	used, err := x.h.keep(e.zeroed(ctx, "join", 8))
	if err != nil {
		return nil, err
	}
	call.used = uint64(used.Addr())
	if matches {
		if x.hit, err = x.h.keep(e.zeroed(ctx, "join", slots+1)); err != nil {
			return nil, err
		}
		call.hit = uint64(x.hit.Addr())
	}
	arg := cuda.Struct(bytesOf(call))
	for _, k := range []struct {
		name  string
		items int
	}{{"join_clear", slots + 1}, {"join_insert", t.Rows}, {"join_ranges", slots + 1}, {"join_fill", t.Rows}} {
		if err := e.launch("table_join", k.name, k.items, x.uses([]cuda.Arg{arg})...); err != nil {
			return nil, err
		}
	}
	return x, nil
}

// pairs are the numbers of the rows of both sides of a result.
type pairs struct {
	left, right *mem.Buffer // right: nil if not needed
	n           int
}

func (p *pairs) release() {
	for _, b := range []*mem.Buffer{p.left, p.right} {
		if b != nil {
			b.Release()
		}
	}
	p.left, p.right = nil, nil
}

// alloc makes room for n pairs.
func (p *pairs) alloc(ctx context.Context, e *Engine, n int, right bool) (err error) {
	if p.left, err = e.alloc(ctx, "join", 4*n); err == nil && right {
		p.right, err = e.alloc(ctx, "join", 4*n)
	}
	if err != nil {
		p.release()
	}
	return err
}

// probe returns the pairs of the rows of a table with an index.
func (e *Engine) probe(ctx context.Context, x *index, t *Table, o JoinOptions) (*pairs, error) {
	if len(o.LeftKeys) != len(x.keys) {
		return nil, fmt.Errorf("gpu: join: %d keys on the left, %d on the right", len(o.LeftKeys), len(x.keys))
	}
	var err error
	if x.call.probe, err = keyColumns("join", t, o.LeftKeys, func(int) bool { return false }); err != nil {
		return nil, err
	}
	for i, n := range o.LeftKeys {
		if a, b := t.Columns[n].Type, x.t.Columns[x.keys[i]].Type; !arrow.TypeEqual(a, b) {
			return nil, fmt.Errorf("gpu: join: key %d has type %v on the left and %v on the right; cast one of them", i,
				a, b)
		}
	}
	var mode uint32
	switch o.Kind {
	case join.Inner, join.Right:
		mode = 0
	case join.Left, join.Full:
		mode = 1
	case join.Semi:
		mode = 2
	case join.Anti:
		mode = 3
	default:
		return nil, fmt.Errorf("gpu: %v join does not run on the device", o.Kind)
	}
	emitted, err := e.alloc(ctx, "join", 8)
	if err != nil {
		return nil, err
	}
	defer emitted.Release()
	p := new(pairs)
	for room := t.Rows; ; room = p.n {
		if err := p.alloc(ctx, e, room, mode < 2); err != nil {
			return nil, err
		}
		if _, err := e.cfg.Stream.Fill(emitted, 0); err != nil {
			p.release()
			return nil, err
		}
		args := []cuda.Arg{cuda.Struct(bytesOf(&x.call)), cuda.Val(uint64(0)), cuda.Val(uint64(t.Rows)),
			cuda.Val(mode), cuda.Out(p.left), optionalOut(p.right), cuda.Val(uint64(room)), cuda.Out(emitted)}
		err := e.launch("table_join", "join_probe", t.Rows, usesKeys(t, o.LeftKeys, x.uses(args))...)
		var n []uint64
		if err == nil {
			n, err = e.fetch(ctx, emitted, 1)
		}
		if err == nil && n[0] > maxRows {
			err = fmt.Errorf("gpu: join: %d rows, at most %d in a table on the device; use more partitions", n[0],
				maxRows)
		}
		if err != nil {
			p.release()
			return nil, err
		}
		if p.n = int(n[0]); p.n <= room {
			return p, nil
		}
		p.release()
	}
}

// appendRest adds the rows of the right side without a match.
func (e *Engine) appendRest(ctx context.Context, x *index, p *pairs) error {
	rows := x.t.Rows
	mask, err := e.alloc(ctx, "join", rows)
	if err != nil {
		return err
	}
	defer mask.Release()
	if err := e.launch("table_join", "join_rest", rows, x.uses([]cuda.Arg{cuda.Struct(bytesOf(&x.call)),
		cuda.Out(mask)})...); err != nil {
		return err
	}
	rest, err := e.selected(ctx, mask, rows)
	if err != nil {
		return err
	}
	defer rest.numbers.Release()
	if rest.n == 0 {
		return nil
	}
	all := &pairs{n: p.n + rest.n}
	if err := all.alloc(ctx, e, all.n, true); err != nil {
		return err
	}
	if _, err = e.cfg.Stream.Fill(all.left, 0xff); err == nil { // no rows of the left side
		err = e.copyPart(all.left, 0, p.left, 4*p.n)
	}
	if err == nil {
		err = e.copyPart(all.right, 0, p.right, 4*p.n)
	}
	if err == nil {
		err = e.copyPart(all.right, 4*p.n, rest.numbers, 4*rest.n)
	}
	if err != nil {
		all.release()
		return err
	}
	p.release()
	*p = *all
	return nil
}

// copyPart copies n bytes to a place of a buffer.
func (e *Engine) copyPart(to *mem.Buffer, at int, from *mem.Buffer, n int) error {
	if n == 0 {
		return nil
	}
	d, s := to.Slice(at, n), from.Slice(0, n)
	defer d.Release()
	defer s.Release()
	done, err := e.cfg.Stream.Copy(d, s)
	if err == nil {
		to.SetReady(done)
	}
	return err
}

// joined gathers the columns of a result.
func (e *Engine) joined(ctx context.Context, left, right *Table, p *pairs, o JoinOptions) (*Table, error) {
	out := &Table{Schema: o.Schema, Rows: p.n}
	var fields []arrow.Field
	for _, side := range []struct {
		t       *Table
		columns []int
		numbers *mem.Buffer
		nulls   bool
	}{
		{left, o.Left, p.left, o.Kind == join.Right || o.Kind == join.Full},
		{right, o.Right, p.right, o.Kind == join.Left || o.Kind == join.Full},
	} {
		part := &Table{Rows: side.t.Rows}
		var own []arrow.Field
		for _, n := range side.columns {
			if n < 0 || n >= len(side.t.Columns) || side.numbers == nil {
				out.Release()
				return nil, fmt.Errorf("gpu: join: no column %d in the result of a %v join", n, o.Kind)
			}
			f := side.t.Schema.Field(n)
			f.Nullable = f.Nullable || side.nulls
			own = append(own, f)
			part.Columns = append(part.Columns, side.t.Columns[n])
		}
		if len(own) == 0 {
			continue
		}
		part.Schema = arrow.NewSchema(own, nil)
		t, err := e.gather(ctx, "join", part, rowList{side.numbers, p.n}, side.nulls)
		if err != nil {
			out.Release()
			return nil, err
		}
		out.Columns, fields = append(out.Columns, t.Columns...), append(fields, own...)
	}
	if out.Schema == nil {
		out.Schema = arrow.NewSchema(fields, nil)
	}
	return out, nil
}
