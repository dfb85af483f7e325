package kmeans

import (
	"fmt"
	"unsafe"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"go.millstream.dev/frame"
	"go.millstream.dev/internal/device/kernels/lloyd"
	"go.millstream.dev/internal/device/kernels/lloydfit"
)

// isFloat32 reports whether all columns are float32.
func isFloat32(s *arrow.Schema, names []string) (bool, error) {
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
				Reason: fmt.Sprintf("column %q has type %v, but k-means needs numbers; select columns with "+
					"Options.Columns", name, t)}
		}
		all = all && t.ID() == arrow.FLOAT32
	}
	return all, nil
}

// newPart returns a part of the named columns of a batch. They must have no nulls.
func newPart[T lloyd.Float](b arrow.RecordBatch, names []string, index int) (*lloydfit.Part[T], error) {
	columns := make([][]T, len(names))
	for i, name := range names {
		at := b.Schema().FieldIndices(name)
		if len(at) != 1 {
			return nil, &frame.Error{Kind: frame.ErrSchema, Partition: index,
				Reason: fmt.Sprintf("%d columns named %q, want one", len(at), name)}
		}
		c := b.Column(at[0])
		if n := c.NullN(); n > 0 {
			return nil, nullsError(index, name, n)
		}
		var err error
		if columns[i], err = numbers[T](c); err != nil {
			return nil, &frame.Error{Kind: frame.ErrSchema, Partition: index, Reason: fmt.Sprintf("column %q", name),
				Err: err}
		}
	}
	return lloydfit.NewPart(index, columns, make([]int32, b.NumRows())), nil
}

func nullsError(partition int, name string, n int) error {
	return &frame.Error{Kind: frame.ErrSchema, Partition: partition,
		Reason: fmt.Sprintf("column %q has %d nulls, but k-means needs a number in every row; filter them out "+
			"with frame.Col(%q).NotNull()", name, n, name)}
}

// numbers returns a column as a slice: its own memory, or a converted copy.
func numbers[T lloyd.Float](c arrow.Array) ([]T, error) {
	switch a := c.(type) {
	case *array.Float64:
		return floats[T](a.Float64Values()), nil
	case *array.Float32:
		return floats[T](a.Float32Values()), nil
	case *array.Int64:
		return convert[T](a.Int64Values()), nil
	case *array.Int32:
		return convert[T](a.Int32Values()), nil
	case *array.Int16:
		return convert[T](a.Int16Values()), nil
	case *array.Int8:
		return convert[T](a.Int8Values()), nil
	case *array.Uint64:
		return convert[T](a.Uint64Values()), nil
	case *array.Uint32:
		return convert[T](a.Uint32Values()), nil
	case *array.Uint16:
		return convert[T](a.Uint16Values()), nil
	case *array.Uint8:
		return convert[T](a.Uint8Values()), nil
	}
	return nil, fmt.Errorf("type %v, but k-means needs numbers", c.DataType())
}

// floats returns the slice itself if it has the type and is aligned, as the kernels need it, or a converted copy.
func floats[T, F lloyd.Float](v []F) []T {
	if same, ok := any(v).([]T); ok && uintptr(unsafe.Pointer(unsafe.SliceData(same)))%unsafe.Sizeof(*new(T)) == 0 {
		return same
	}
	return convert[T](v)
}

// convert returns a copy of v with another type.
func convert[T lloyd.Float,
	V int8 | int16 | int32 | int64 | uint8 | uint16 | uint32 | uint64 | float32 | float64](v []V) []T {
	out := make([]T, len(v))
	for i, x := range v {
		out[i] = T(x)
	}
	return out
}
