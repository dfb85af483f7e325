package tall

import (
	"errors"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/frame"
	"go.millstream.dev/internal/device/kernels/tsqr"
)

// Names returns the names of all columns, except those of without.
func Names(s *arrow.Schema, without ...string) []string {
	var out []string
	for _, f := range s.Fields() {
		if !slices.Contains(without, f.Name) {
			out = append(out, f.Name)
		}
	}
	return out
}

// Narrow reports whether all columns are float32, and returns an error if one is missing or has no numbers.
func Narrow(s *arrow.Schema, names []string) (bool, error) {
	if len(names) == 0 {
		return false, &frame.Error{Kind: frame.ErrSchema, Partition: -1, Reason: "no columns"}
	}
	if len(names) > tsqr.MaxColumns {
		return false, &frame.Error{Kind: frame.ErrSchema, Partition: -1,
			Reason: fmt.Sprintf("%d columns; use at most %d", len(names), tsqr.MaxColumns)}
	}
	all := true
	for _, name := range names {
		at := s.FieldIndices(name)
		if len(at) != 1 {
			return false, &frame.Error{Kind: frame.ErrSchema, Partition: -1,
				Reason: fmt.Sprintf("%d columns named %q, want one", len(at), name)}
		}
		t := s.Field(at[0]).Type
		if !arrow.IsInteger(t.ID()) && t.ID() != arrow.FLOAT32 && t.ID() != arrow.FLOAT64 {
			return false, &frame.Error{Kind: frame.ErrSchema, Partition: -1,
				Reason: fmt.Sprintf("column %q has type %v, want numbers; select columns with Options.Columns", name,
					t)}
		}
		all = all && t.ID() == arrow.FLOAT32
	}
	return all, nil
}

// partOf returns the named columns of a batch, which must have no nulls, as a part.
func partOf(b arrow.RecordBatch, names []string, index int) (tsqr.Part, error) {
	p := tsqr.Part{Index: index, Rows: int(b.NumRows())}
	if _, err := Narrow(b.Schema(), names); err != nil {
		return p, err
	}
	for _, name := range names {
		c := b.Column(b.Schema().FieldIndices(name)[0])
		if n := c.NullN(); n > 0 {
			return p, nullsError(index, name, n)
		}
		column, err := columnOf(c)
		if err != nil {
			return p, &frame.Error{Kind: frame.ErrSchema, Partition: index, Reason: fmt.Sprintf("column %q", name),
				Err: err}
		}
		p.Columns = append(p.Columns, column)
	}
	return p, nil
}

func nullsError(partition int, name string, n int) error {
	return &frame.Error{Kind: frame.ErrSchema, Partition: partition,
		Reason: fmt.Sprintf("column %q has %d nulls, want a number in every row; filter them out with "+
			"frame.Col(%q).NotNull()", name, n, name)}
}

// columnOf returns the numbers of an array, in its memory.
func columnOf(c arrow.Array) (tsqr.Column, error) {
	switch a := c.(type) {
	case *array.Float64:
		return tsqr.Slice[float64](a.Float64Values()), nil
	case *array.Float32:
		return tsqr.Slice[float32](a.Float32Values()), nil
	case *array.Int64:
		return tsqr.Slice[int64](a.Int64Values()), nil
	case *array.Int32:
		return tsqr.Slice[int32](a.Int32Values()), nil
	case *array.Int16:
		return tsqr.Slice[int16](a.Int16Values()), nil
	case *array.Int8:
		return tsqr.Slice[int8](a.Int8Values()), nil
	case *array.Uint64:
		return tsqr.Slice[uint64](a.Uint64Values()), nil
	case *array.Uint32:
		return tsqr.Slice[uint32](a.Uint32Values()), nil
	case *array.Uint16:
		return tsqr.Slice[uint16](a.Uint16Values()), nil
	case *array.Uint8:
		return tsqr.Slice[uint8](a.Uint8Values()), nil
	}
	return nil, fmt.Errorf("type %v, want numbers", c.DataType())
}

// withNames replaces the numbers of columns in an error by their names.
func withNames(err error, names []string) error {
	if e, ok := errors.AsType[*tsqr.NotFiniteError](err); ok && e.Column < len(names) {
		return &frame.Error{Kind: frame.ErrSchema, Partition: e.Partition,
			Reason: fmt.Sprintf("column %q has a value that is not finite (NaN or infinite)", names[e.Column])}
	}
	return err
}
