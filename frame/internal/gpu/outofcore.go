package gpu

import (
	"context"
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame/internal/join"
	"go.millstream.dev/mem"
)

// Source returns the next part of a side of a join, which the join releases, or nil after the last one.
type Source func(ctx context.Context) (*Table, error)

// JoinLarge is Join of tables that do not fit into device memory. It divides both sides into n partitions by their
// keys, which it keeps in pinned host memory, joins one partition after the other, and passes their results to emit,
// which releases them. On the device there is at most one part of a source and its partitions, or the right side of a
// partition, its hash table, a part of the left side and its result. A partition that does not fit is an error that
// matches mem.ErrOutOfMemory: use more partitions, or smaller parts.
func (e *Engine) JoinLarge(ctx context.Context, left, right Source, n int, o JoinOptions,
	emit func(*Table) error) (err error) {
	l, err := e.spill(ctx, left, o.LeftKeys, n)
	defer l.release()
	if err != nil {
		return fmt.Errorf("gpu: left side of the join: %w", err)
	}
	r, err := e.spill(ctx, right, o.RightKeys, n)
	defer r.release()
	if err != nil {
		return fmt.Errorf("gpu: right side of the join: %w", err)
	}
	if l.schema == nil || r.schema == nil {
		return errors.New("gpu: join: a side without parts; a source returns at least one, which may be empty")
	}
	for p := range n {
		if err := e.joinPart(ctx, l, r, p, o, emit); err != nil {
			return fmt.Errorf("gpu: partition %d of %d of the join: %w", p, n, err)
		}
	}
	return nil
}

// spilled are the partitions of a side, each in pieces.
type spilled struct {
	schema *arrow.Schema
	parts  [][]*Table // in host memory
}

func (s *spilled) release() {
	for _, p := range s.parts {
		releaseAll(p)
	}
	s.parts = nil
}

func releaseAll(tables []*Table) {
	for _, t := range tables {
		t.Release()
	}
}

// spill divides a side. What it returns is valid, and to be released, also after an error.
func (e *Engine) spill(ctx context.Context, next Source, keys []int, n int) (*spilled, error) {
	s := &spilled{parts: make([][]*Table, max(n, 0))}
	for {
		t, err := next(ctx)
		if err != nil || t == nil {
			return s, err
		}
		s.schema = t.Schema
		parts, err := e.Partition(ctx, t, keys, n)
		t.Release()
		if err != nil {
			return s, err
		}
		for i, p := range parts {
			if p.Rows == 0 {
				continue
			}
			host, err := e.copyTable(ctx, p, e.cfg.Pinned)
			if err != nil {
				releaseAll(parts)
				return s, err
			}
			s.parts[i] = append(s.parts[i], host)
		}
		releaseAll(parts)
		// The copies hold the memory of the part until they are done.
		if err := e.Wait(ctx); err != nil {
			return s, err
		}
	}
}

// copyTable copies a table to memory of a resource.
func (e *Engine) copyTable(ctx context.Context, t *Table, to mem.Resource) (*Table, error) {
	out := &Table{Schema: t.Schema, Rows: t.Rows, Columns: make([]Column, len(t.Columns))}
	for i, c := range t.Columns {
		out.Columns[i].Type = c.Type
		for _, b := range []struct {
			from *mem.Buffer
			to   **mem.Buffer
		}{{c.Data, &out.Columns[i].Data}, {c.Valid, &out.Columns[i].Valid}} {
			if b.from == nil {
				continue
			}
			var err error
			if *b.to, err = to.Alloc(ctx, b.from.Len()); err != nil {
				err = fmt.Errorf("%d bytes of %v memory: %w", b.from.Len(), to.Kind(), err)
			} else {
				err = e.copyPart(*b.to, 0, b.from, b.from.Len())
			}
			if err != nil {
				out.Release()
				return nil, err
			}
		}
	}
	return out, nil
}

// concat returns pieces in host memory as one table on the device.
func (e *Engine) concat(ctx context.Context, s *arrow.Schema, pieces []*Table) (*Table, error) {
	rows := 0
	for _, p := range pieces {
		rows += p.Rows
	}
	out, err := e.newTable(ctx, "join", s, rows, func(i int) bool {
		for _, p := range pieces {
			if p.Columns[i].Valid != nil {
				return true
			}
		}
		return false
	})
	if err != nil {
		return nil, err
	}
	for i, c := range out.Columns {
		if c.Valid != nil && rows > 0 {
			if _, err := e.cfg.Stream.Fill(c.Valid, 1); err != nil {
				out.Release()
				return nil, err
			}
		}
		at, w := 0, c.kind().width()
		for _, p := range pieces {
			err := e.copyPart(c.Data, at*w, p.Columns[i].Data, p.Rows*w)
			if v := p.Columns[i].Valid; err == nil && v != nil {
				err = e.copyPart(c.Valid, at, v, p.Rows)
			}
			if err != nil {
				out.Release()
				return nil, err
			}
			at += p.Rows
		}
	}
	return out, nil
}

func (e *Engine) joinPart(ctx context.Context, l, r *spilled, p int, o JoinOptions, emit func(*Table) error) error {
	rest := o.Kind == join.Right || o.Kind == join.Full
	if len(l.parts[p]) == 0 && !rest {
		return nil
	}
	right, err := e.concat(ctx, r.schema, r.parts[p])
	if err != nil {
		return err
	}
	defer right.Release()
	releaseAll(r.parts[p]) // the copies hold the memory
	r.parts[p] = nil
	x, err := e.build(ctx, right, o.RightKeys, rest)
	if err != nil {
		return err
	}
	defer x.release()
	for i := 0; i < len(l.parts[p]) || rest && i == len(l.parts[p]); i++ {
		pieces := l.parts[p][i:min(i+1, len(l.parts[p]))] // none: the rows of the right side without a match
		if err := e.joinPiece(ctx, x, l.schema, pieces, i == len(l.parts[p]), o, emit); err != nil {
			return err
		}
	}
	return nil
}

// joinPiece emits the result of a piece of the left side.
func (e *Engine) joinPiece(ctx context.Context, x *index, s *arrow.Schema, pieces []*Table, rest bool, o JoinOptions,
	emit func(*Table) error) error {
	left, err := e.concat(ctx, s, pieces)
	if err != nil {
		return err
	}
	defer left.Release()
	pairs, err := e.probe(ctx, x, left, o)
	if err != nil {
		return err
	}
	defer pairs.release()
	if rest {
		if err := e.appendRest(ctx, x, pairs); err != nil {
			return err
		}
	}
	out, err := e.joined(ctx, left, x.t, pairs, o)
	if err != nil {
		return err
	}
	if err := emit(out); err != nil {
		return err
	}
	return e.Wait(ctx)
}
