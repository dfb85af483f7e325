package join

import (
	"errors"
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/frame/internal/vec"
)

// Prober joins batches of the left side with a Table. It is not safe for concurrent use.
type Prober struct {
	t    *Table
	o    Options
	left *arrow.Schema
	out  *arrow.Schema

	right     arrow.RecordBatch // columns of the table for the result
	condition arrow.RecordBatch // columns of the table for the condition
	matched   rowSet            // rows of the table in some pair, if the kind needs it

	keys, scratch []uint64 // of a chunk
	first, count  []int32  // of a chunk
	found         []int32  // rows of a chunk whose hash was found
	foundRight    []int32
	marks         []bool

	pairLeft, pairRight []int32 // rows of the result that were not emitted yet
	candLeft, candRight []int32 // pairs to be checked by the condition
	hits                []bool  // rows of a chunk with a match

	allRows, hitRows int // of the first chunks: looked up and found
}

// Probe returns a Prober for batches of the left side, which have a schema.
func (t *Table) Probe(left *arrow.Schema, o Options) (_ *Prober, err error) {
	if err := checkOptions(t, left, o); err != nil {
		return nil, fmt.Errorf("join: %w", err)
	}
	if o.MaxRows <= 0 {
		o.MaxRows = defaultRows
	}
	p := &Prober{t: t, o: o, left: left, out: o.Schema}
	if p.out == nil {
		p.out = outputSchema(left, t.schema, o)
	}
	if p.right, err = t.batch(o.Right); err != nil {
		return nil, err
	}
	if o.Condition != nil {
		if p.condition, err = t.batch(o.Condition.Right); err != nil {
			p.right.Release()
			return nil, err
		}
	}
	if o.Kind.keepsRight() {
		p.matched = newRowSet(t.rows)
	}
	p.keys, p.scratch = make([]uint64, chunkRows), make([]uint64, 2*chunkRows)
	p.first, p.count = make([]int32, chunkRows), make([]int32, chunkRows)
	p.pairLeft = make([]int32, 0, o.MaxRows)
	p.pairRight = make([]int32, 0, o.MaxRows)
	if t.hashed != nil {
		p.found, p.foundRight = make([]int32, chunkRows), make([]int32, chunkRows)
	}
	if p.checks() {
		p.candLeft, p.candRight = make([]int32, 0, o.MaxRows), make([]int32, 0, o.MaxRows)
		p.hits = make([]bool, chunkRows)
	}
	p.marks = make([]bool, max(chunkRows, cap(p.candLeft)))
	return p, nil
}

// checks reports whether pairs of rows found by the index are checked one by one.
func (p *Prober) checks() bool {
	return p.o.Condition != nil || p.t.hashed != nil && p.t.hashed.mixed
}

func checkOptions(t *Table, left *arrow.Schema, o Options) error {
	switch {
	case int(o.Kind) >= len(kindNames):
		return fmt.Errorf("%v is no kind of join", o.Kind)
	case o.Kind == Cross && len(t.keys) > 0:
		return errors.New("cross join with keys; use an inner join")
	case len(o.Keys) != len(t.keys):
		return fmt.Errorf("%d keys on the left side and %d on the right", len(o.Keys), len(t.keys))
	case o.Kind.selects() && len(o.Right) > 0:
		return fmt.Errorf("%v join with columns of the right side", o.Kind)
	case o.NullAware && (o.Kind != Anti || len(o.Keys) != 1 || o.Condition != nil):
		return errors.New("NullAware is for anti joins with one key and without condition")
	case o.Condition != nil && o.Condition.Eval == nil:
		return errors.New("condition without Eval")
	}
	for i, k := range o.Keys {
		if k < 0 || k >= left.NumFields() {
			return fmt.Errorf("key %d is column %d of %d of the left side", i, k, left.NumFields())
		}
		l, r := left.Field(k), t.schema.Field(t.keys[i])
		if err := comparable(l.Type, r.Type); err != nil {
			return fmt.Errorf("columns %q and %q: %w", l.Name, r.Name, err)
		}
	}
	lists := []struct {
		columns []int
		schema  *arrow.Schema
		side    string
	}{{o.Left, left, "left"}, {o.Right, t.schema, "right"}}
	if o.Condition != nil {
		lists = append(lists, lists...)
		lists[2].columns, lists[3].columns = o.Condition.Left, o.Condition.Right
	}
	for _, l := range lists {
		for _, c := range l.columns {
			if c < 0 || c >= l.schema.NumFields() {
				return fmt.Errorf("column %d of %d of the %s side", c, l.schema.NumFields(), l.side)
			}
		}
	}
	return checkSchema(t, left, o)
}

// checkSchema compares the schema that the caller wants with the columns.
func checkSchema(t *Table, left *arrow.Schema, o Options) error {
	if o.Schema == nil {
		return nil
	}
	if n := len(o.Left) + len(o.Right); o.Schema.NumFields() != n {
		return fmt.Errorf("schema with %d fields for %d columns", o.Schema.NumFields(), n)
	}
	for i, f := range o.Schema.Fields() {
		from := left
		c := 0
		if i < len(o.Left) {
			c = o.Left[i]
		} else {
			from, c = t.schema, o.Right[i-len(o.Left)]
		}
		if !arrow.TypeEqual(f.Type, from.Field(c).Type) {
			return fmt.Errorf("field %q has type %v, but its column %v", f.Name, f.Type, from.Field(c).Type)
		}
	}
	return nil
}

func outputSchema(left, right *arrow.Schema, o Options) *arrow.Schema {
	fields := make([]arrow.Field, 0, len(o.Left)+len(o.Right))
	for _, c := range o.Left {
		f := left.Field(c)
		f.Nullable = f.Nullable || o.Kind.keepsRight()
		fields = append(fields, f)
	}
	for _, c := range o.Right {
		f := right.Field(c)
		f.Nullable = f.Nullable || o.Kind.keepsLeft()
		fields = append(fields, f)
	}
	return arrow.NewSchema(fields, nil)
}

// Schema returns the schema of the result.
func (p *Prober) Schema() *arrow.Schema { return p.out }

// Release frees what the prober holds of the table.
func (p *Prober) Release() {
	if p.right != nil {
		p.right.Release()
		p.right = nil
	}
	if p.condition != nil {
		p.condition.Release()
		p.condition = nil
	}
}

// Add joins the rows of a batch and emits all of their result.
func (p *Prober) Add(b arrow.RecordBatch, emit Emit) (err error) {
	defer recoverError(&err)
	if err := checkBatch(b, p.left); err != nil {
		return fmt.Errorf("join: batch of the left side: %w", err)
	}
	if p.right == nil {
		return errors.New("join: prober was released")
	}
	c := &probe{Prober: p, emit: emit, key: columnsOf(b, p.o.Keys), batch: selectColumns(b, p.left, p.o.Left)}
	defer c.batch.Release()
	c.nulls = hasNulls(c.key)
	if p.o.Condition != nil {
		c.condition = selectColumns(b, p.left, p.o.Condition.Left)
		defer c.condition.Release()
	}
	p.pairLeft, p.pairRight = p.pairLeft[:0], p.pairRight[:0]
	for lo := 0; lo < int(b.NumRows()); lo += chunkRows {
		n := min(chunkRows, int(b.NumRows())-lo)
		if err := c.find(lo, n); err != nil {
			return err
		}
		if err := c.pairs(lo, n); err != nil {
			return err
		}
	}
	return c.flush()
}

// selectColumns returns a batch of columns by number, which the caller releases.
func selectColumns(b arrow.RecordBatch, s *arrow.Schema, numbers []int) arrow.RecordBatch {
	fields := make([]arrow.Field, len(numbers))
	for i, n := range numbers {
		fields[i] = s.Field(n)
	}
	return array.NewRecordBatch(arrow.NewSchema(fields, nil), columnsOf(b, numbers), b.NumRows())
}

// Finish emits the rows of the table without a match, if the kind has them. It is called once, after all batches.
func (p *Prober) Finish(emit Emit) (err error) {
	defer recoverError(&err)
	if p.matched == nil {
		return nil
	}
	if p.right == nil {
		return errors.New("join: prober was released")
	}
	nulls := vec.Empty(p.left)
	defer nulls.Release()
	c := &probe{Prober: p, emit: emit, batch: selectColumns(nulls, p.left, p.o.Left)}
	defer c.batch.Release()
	p.pairLeft, p.pairRight = p.pairLeft[:0], p.pairRight[:0]
	for row := range p.t.rows {
		if !p.matched.has(row) {
			if err := c.push(-1, int32(row)); err != nil {
				return err
			}
		}
	}
	return c.flush()
}
