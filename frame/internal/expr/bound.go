package expr

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
)

// Bound is an expression with the columns and types of a schema. It may be used by several goroutines at once.
type Bound struct {
	expr   Expr
	schema *arrow.Schema
	root   *node
}

// Bind resolves an expression against a schema. It returns a *TypeError that names column and types if it does not fit.
func Bind(e Expr, s *arrow.Schema) (*Bound, error) {
	root, err := (&binder{s}).bind(e, 0)
	if err != nil {
		return nil, err
	}
	return &Bound{expr: e, schema: s, root: root}, nil
}

// BindCondition is Bind for a condition: the type must be bool.
func BindCondition(e Expr, s *arrow.Schema) (*Bound, error) {
	b, err := Bind(e, s)
	if err == nil && b.root.isNull() {
		b.root = nullOf(boolType, e)
	}
	if err == nil && b.root.class() != boolean {
		return nil, typeErrorf("condition %v is %v, not bool", e, b.root.t)
	}
	return b, err
}

// Type returns the type of the result.
func (b *Bound) Type() arrow.DataType { return b.root.t }

// Field returns the name and type of the result. It is nullable.
func (b *Bound) Field() arrow.Field {
	if b.root.op == OpColumn {
		f := b.schema.Field(b.root.column)
		f.Name = Label(b.expr)
		return f
	}
	return arrow.Field{Name: Label(b.expr), Type: b.root.t, Nullable: true}
}

// Eval returns the values of the expression for the rows of a batch. The caller releases the result.
func (b *Bound) Eval(batch arrow.RecordBatch) (arrow.Array, error) {
	if b.root.op == OpColumn {
		c := batch.Column(b.root.column)
		c.Retain()
		return c, nil
	}
	eval, err := compile(b.root)
	if err != nil {
		return nil, err
	}
	truths := make([]truth, batch.NumRows())
	eval(batch, truths)
	out := array.NewBooleanBuilder(heap)
	defer out.Release()
	out.Reserve(len(truths))
	for _, t := range truths {
		if t == unknown {
			out.AppendNull()
		} else {
			out.Append(t == yes)
		}
	}
	return out.NewArray(), nil
}

// Rows returns the numbers of the rows of a batch for which the condition is true, in ascending order.
func (b *Bound) Rows(batch arrow.RecordBatch) ([]int32, error) {
	eval, err := compile(b.root)
	if err != nil {
		return nil, err
	}
	truths := make([]truth, batch.NumRows())
	eval(batch, truths)
	var rows []int32
	for i, t := range truths {
		if t == yes {
			rows = append(rows, int32(i))
		}
	}
	return rows, nil
}

// Filter returns the rows of a batch for which the condition is true. The caller releases the result.
func (b *Bound) Filter(batch arrow.RecordBatch) (_ arrow.RecordBatch, err error) {
	defer recoverError(&err)
	rows, err := b.Rows(batch)
	if err != nil {
		return nil, err
	}
	if len(rows) == int(batch.NumRows()) {
		batch.Retain()
		return batch, nil
	}
	return Take(batch, rows)
}

// recoverError converts a panic of the Arrow library, which it raises for invalid data, to an error.
func recoverError(err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("expr: invalid Arrow data: %v", r)
	}
}
