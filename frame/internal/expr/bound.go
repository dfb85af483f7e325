package expr

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	batches "go.millstream.dev/frame/internal/vec"
)

// heap allocates results.
var heap = memory.NewGoAllocator()

// Bound is an expression with the columns and types of a schema. It may be used by several goroutines at once.
type Bound struct {
	expr   Expr
	schema *arrow.Schema
	root   *node
	code   any // source or predicate of root; nil for a column, and for types that are only copied
}

// Bind resolves an expression against a schema. It returns a *TypeError that names column and types if it does not fit.
func Bind(e Expr, s *arrow.Schema) (*Bound, error) {
	root, err := (&binder{s}).bind(e, 0)
	if err != nil {
		return nil, err
	}
	return newBound(e, s, root)
}

func newBound(e Expr, s *arrow.Schema, root *node) (*Bound, error) {
	b := &Bound{expr: e, schema: s, root: root}
	if root.op == OpColumn && root.class() != boolean || formOf(root.t) == noForm && root.isNull() {
		return b, nil
	}
	var err error
	b.code, err = compileAny(root)
	return b, err
}

// BindCondition is Bind for a condition: the type must be bool.
func BindCondition(e Expr, s *arrow.Schema) (*Bound, error) {
	b, err := Bind(e, s)
	switch {
	case err != nil:
		return nil, err
	case b.root.class() == null:
		return newBound(e, s, nullOf(boolType, e))
	case b.root.class() != boolean:
		return nil, typeErrorf("condition %v is %v, not bool", e, b.root.t)
	}
	return b, nil
}

// Type returns the type of the result.
func (b *Bound) Type() arrow.DataType { return b.root.t }

// Field returns the name and type of the result. It is nullable, unless it is a column that is not.
func (b *Bound) Field() arrow.Field {
	if b.root.op == OpColumn {
		f := b.schema.Field(b.root.column)
		f.Name = Label(b.expr)
		return f
	}
	return arrow.Field{Name: Label(b.expr), Type: b.root.t, Nullable: true}
}

// Constant returns the value of an expression that uses no column as a constant: nil, bool, int64, uint64, float64,
// string, or the text of a decimal. ok is false for other expressions. Dates and times are in units of their type.
func (b *Bound) Constant() (value any, ok bool) {
	if !b.root.isLiteral() {
		return nil, false
	}
	if d, isDecimal := b.root.value.(int128); isDecimal {
		return showValue(d, b.root.t), true
	}
	return b.root.value, true
}

// Eval returns the values of the expression for the rows of a batch. The caller releases the result.
func (b *Bound) Eval(batch arrow.RecordBatch) (_ arrow.Array, err error) {
	if b.root.op == OpColumn {
		c := batch.Column(b.root.column)
		c.Retain()
		return c, nil
	}
	rows := int(batch.NumRows())
	if b.code == nil {
		return array.MakeArrayOfNull(heap, b.root.t, rows), nil
	}
	defer recoverError(&err)
	s := newSink(b.root, b.code, rows)
	if err := chunks(batch, s.chunk); err != nil {
		return nil, err
	}
	return s.array()
}

// chunks calls f for every chunk of the rows of a batch.
func chunks(batch arrow.RecordBatch, f func(x *exec) error) error {
	x := newExec(batch)
	defer x.done()
	rows := int(batch.NumRows())
	for from := 0; from < rows; from += chunkRows {
		x.chunk(from, min(chunkRows, rows-from))
		if err := f(x); err != nil {
			return err
		}
	}
	return nil
}

// mask returns the rows of a batch for which the condition is true, and their number.
func (b *Bound) mask(batch arrow.RecordBatch) (words []uint64, n int, err error) {
	p, ok := b.code.(predicate)
	if !ok {
		return nil, 0, typeErrorf("%v is %v, not bool", b.expr, b.root.t)
	}
	defer recoverError(&err)
	words = make([]uint64, wordsFor(int(batch.NumRows())))
	err = chunks(batch, func(x *exec) error {
		v, err := p.test(x)
		if err != nil {
			return err
		}
		rows := truths(x, v)
		copy(words[x.from/64:], rows)
		n += count(rows, x.n)
		return nil
	})
	return words, n, err
}

// Rows returns the numbers of the rows of a batch for which the condition is true, in ascending order.
func (b *Bound) Rows(batch arrow.RecordBatch) ([]int32, error) {
	words, n, err := b.mask(batch)
	if err != nil {
		return nil, err
	}
	rows := make([]int32, n)
	indices(rows, words, int(batch.NumRows()), 0)
	return rows, nil
}

// Filter returns the rows of a batch for which the condition is true. The caller releases the result.
func (b *Bound) Filter(batch arrow.RecordBatch) (_ arrow.RecordBatch, err error) {
	words, n, err := b.mask(batch)
	if err != nil {
		return nil, err
	}
	if n == int(batch.NumRows()) {
		batch.Retain()
		return batch, nil
	}
	defer recoverError(&err)
	rows := make([]int32, n)
	indices(rows, words, int(batch.NumRows()), 0)
	return batches.Take(batch, rows)
}

// recoverError converts a panic of the Arrow library or of an access to invalid data to an error.
func recoverError(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("expr: invalid Arrow data: %v", r)
	}
}
