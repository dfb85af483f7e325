package group

import (
	"errors"
	"fmt"
	"math"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/frame/internal/vec"
)

// Grouper groups batches. It is not safe for concurrent use.
type Grouper struct {
	in     *arrow.Schema // of the rows, in all modes
	input  *arrow.Schema // of the batches of Add
	output *arrow.Schema // of the batch of Finish
	key    []int         // columns of the input batches
	aggs   []Spec
	mode   Mode

	keys    *keys
	holders *holders
	pos     int64 // position of the next row
	done    bool
	ids     [block]uint32
}

// New returns a Grouper. The schema is that of the rows in all modes, and keys are numbers of its columns. Input of the
// modes Merge and Final has the schema StateSchema.
func New(in *arrow.Schema, keys []int, aggs []Spec, mode Mode) (*Grouper, error) {
	g := &Grouper{in: in, aggs: aggs, mode: mode}
	if mode > Final {
		return nil, fmt.Errorf("group: unknown mode %d", mode)
	}
	types := make([]arrow.DataType, len(keys))
	var fields []arrow.Field
	for i, k := range keys {
		if k < 0 || k >= in.NumFields() {
			return nil, fmt.Errorf("group: key column %d of %d", k, in.NumFields())
		}
		f := in.Field(k)
		types[i] = f.Type
		if !mode.rowInput() {
			types[i] = keyType(f.Type)
			g.key = append(g.key, i)
		} else {
			g.key = append(g.key, k)
		}
		fields = append(fields, arrow.Field{Name: f.Name, Type: keyType(f.Type), Nullable: true,
			Metadata: f.Metadata})
	}
	var err error
	if g.keys, err = newKeys(types); err != nil {
		return nil, fmt.Errorf("group: %w", err)
	}
	if g.holders, err = newHolders(in, aggs, mode, len(keys) == 0); err != nil {
		return nil, err
	}
	states := arrow.NewSchema(append(append([]arrow.Field(nil), fields...), g.holders.stateFields()...), nil)
	g.input, g.output = in, states
	if !mode.rowInput() {
		g.input = states
		g.holders.readStates(len(keys))
	}
	if !mode.stateOutput() {
		g.output = arrow.NewSchema(append(fields, g.holders.resultFields()...), nil)
	}
	return g, nil
}

// StateSchema returns the schema of states: the keys, then the states of aggregates.
func StateSchema(in *arrow.Schema, keys []int, aggs []Spec) (*arrow.Schema, error) {
	g, err := New(in, keys, aggs, Partial)
	if err != nil {
		return nil, err
	}
	return g.output, nil
}

// ResultSchema returns the schema of results: the keys, then a column for each aggregate. Dictionaries of keys are
// decoded.
func ResultSchema(in *arrow.Schema, keys []int, aggs []Spec) (*arrow.Schema, error) {
	g, err := New(in, keys, aggs, Complete)
	if err != nil {
		return nil, err
	}
	return g.output, nil
}

// Schema returns the schema of the batch that Finish returns.
func (g *Grouper) Schema() *arrow.Schema { return g.output }

// rowBits is the number of bits of a row number in a position.
const rowBits = 40

// SetPosition sets the position of the next row that is added, for First and Last: the number of a partition and the
// number of the row in it. Rows that follow count up. It starts with row 0 of partition 0.
func (g *Grouper) SetPosition(partition int, row int64) error {
	if partition < 0 || partition >= 1<<(63-rowBits) || row < 0 || row >= 1<<rowBits {
		return fmt.Errorf("group: position of row %d of partition %d is out of range", row, partition)
	}
	g.pos = int64(partition)<<rowBits | row
	return nil
}

// Add groups the rows or states of a batch, of which it keeps no reference except for CollectList of rows.
func (g *Grouper) Add(b arrow.RecordBatch) (err error) {
	defer recoverError(&err)
	if g.done {
		return errors.New("group: Add after Finish")
	}
	if err := g.checkColumns(b); err != nil {
		return err
	}
	n := int(b.NumRows())
	if n == 0 {
		return nil
	}
	cols := make([]arrow.Array, len(g.key))
	for i, k := range g.key {
		cols[i] = b.Column(k)
	}
	if err := g.keys.bind(cols, n); err != nil {
		return err
	}
	if err := g.holders.bind(b, g.pos); err != nil {
		return err
	}
	for from := 0; from < n; from += block {
		ids := g.ids[:min(block, n-from)]
		if err := g.keys.find(from, ids); err != nil {
			return err
		}
		if err := g.holders.add(from, ids, g.keys.groups); err != nil {
			return err
		}
	}
	g.pos += int64(n)
	return g.holders.end()
}

// checkColumns returns an error if a batch does not have the columns that the Grouper reads.
func (g *Grouper) checkColumns(b arrow.RecordBatch) error {
	if b.NumRows() > math.MaxInt32 {
		return fmt.Errorf("group: batch of %d rows; use batches of at most %d", b.NumRows(), math.MaxInt32)
	}
	if int(b.NumCols()) != g.input.NumFields() {
		return fmt.Errorf("group: batch has %d columns, not %d", b.NumCols(), g.input.NumFields())
	}
	for i, f := range g.input.Fields() {
		if t := b.Column(i).DataType(); !arrow.TypeEqual(t, f.Type) {
			return fmt.Errorf("group: column %q has type %v, not %v", f.Name, t, f.Type)
		}
	}
	return nil
}

// Groups returns the number of groups so far.
func (g *Grouper) Groups() int { return g.keys.groups }

// Bytes returns the size of the memory of the Grouper, without that which Finish needs.
func (g *Grouper) Bytes() int64 { return g.keys.bytes() + g.holders.bytes() }

// Finish returns the groups in no particular order. The caller releases the batch. No more batches can be added.
func (g *Grouper) Finish() (_ arrow.RecordBatch, err error) {
	defer recoverError(&err)
	if g.done {
		return nil, errors.New("group: Finish was called before")
	}
	g.done = true
	columns, err := g.keys.columns()
	defer func() { vec.Release(columns) }()
	if err != nil {
		return nil, err
	}
	values, err := g.holders.output(g.keys.groups, g.mode)
	columns = append(columns, values...)
	if err != nil {
		return nil, err
	}
	return array.NewRecordBatch(g.output, columns, int64(g.keys.groups)), nil
}

// States returns the rows of a batch as states, each a group of its own, in order: what Partial returns if all keys are
// distinct, without a table. It is for input that has hardly fewer groups than rows. Mode and position are those of g,
// which must be Partial; the rows are not added to g.
func (g *Grouper) States(b arrow.RecordBatch) (_ arrow.RecordBatch, err error) {
	defer recoverError(&err)
	if g.mode != Partial || len(g.key) == 0 {
		return nil, errors.New("group: States needs mode Partial and keys")
	}
	if err := g.checkColumns(b); err != nil {
		return nil, err
	}
	h, err := newHolders(g.in, g.aggs, Partial, false)
	if err != nil {
		return nil, err
	}
	if err := h.bind(b, g.pos); err != nil {
		return nil, err
	}
	n := int(b.NumRows())
	ids := make([]uint32, block)
	for from := 0; from < n; from += block {
		part := ids[:min(block, n-from)]
		for i := range part {
			part[i] = uint32(from + i)
		}
		if err := h.add(from, part, from+len(part)); err != nil {
			return nil, err
		}
	}
	g.pos += int64(n)
	if err := h.end(); err != nil {
		return nil, err
	}
	var columns []arrow.Array
	defer func() { vec.Release(columns) }()
	for _, k := range g.key {
		c := b.Column(k)
		if d, ok := c.(*array.Dictionary); ok {
			if c, err = decodeDictionary(d); err != nil {
				return nil, err
			}
		} else {
			c.Retain()
		}
		columns = append(columns, c)
	}
	values, err := h.output(n, Partial)
	columns = append(columns, values...)
	if err != nil {
		return nil, err
	}
	return array.NewRecordBatch(g.output, columns, int64(n)), nil
}

// recoverError converts a panic of the Arrow library, or an index out of range, to an error: both are the effect of
// invalid data.
func recoverError(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("group: invalid data: %v", p)
	}
}
