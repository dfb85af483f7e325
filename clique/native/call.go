package native

import (
	"fmt"

	"go.millstream.dev/clique"
	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
)

// Column is a column of a partition: contiguous elements of one kind.
type Column struct {
	Kind clique.Kind
	Data *mem.Buffer
}

// ColumnOf returns a slice as a column. The slice is not copied.
func ColumnOf[T clique.Number](s []T) Column {
	return Column{clique.KindOf[T](), mem.FromSlice(s)}
}

// Len returns the number of elements.
func (c Column) Len() int {
	if c.Data == nil {
		return 0
	}
	return c.Data.Len() / max(1, c.Kind.Size())
}

// Partition is a list of columns of the same length.
type Partition []Column

func (p Partition) check(i int) error {
	for j, c := range p {
		switch {
		case !c.Kind.Valid():
			return fmt.Errorf("native: partition %d: column %d: unknown kind %v", i, j, c.Kind)
		case c.Data != nil && c.Data.Len()%c.Kind.Size() != 0:
			return fmt.Errorf("native: partition %d: column %d: %d bytes are not a multiple of the size of %v", i, j,
				c.Data.Len(), c.Kind)
		case c.Len() != p[0].Len():
			return fmt.Errorf("native: partition %d: column %d has %d elements, column 0 has %d", i, j, c.Len(),
				p[0].Len())
		}
	}
	return nil
}

// Call has the arguments of an algorithm on one rank.
type Call struct {
	// Partitions are those of this rank; there may be none.
	Partitions []Partition
	// Parameters are passed to the algorithm as they are.
	Parameters []byte
	// Stream orders operations on device memory (default: a stream for this call).
	Stream *cuda.Stream
}

// Result is a column that an algorithm has emitted.
type Result struct {
	Kind clique.Kind
	// Data is a column in host memory.
	Data []byte
	// Device is a column in device memory, instead of Data. The caller releases it.
	Device *mem.Buffer
}

// Values returns a result as a slice.
func Values[T clique.Number](r Result) ([]T, error) {
	if r.Device != nil {
		return nil, fmt.Errorf("native: column of %v is in device memory; copy it with cuda.CopyToHost", r.Kind)
	}
	if k := clique.KindOf[T](); k != r.Kind {
		return nil, fmt.Errorf("native: column has elements of %v, not %v", r.Kind, k)
	}
	return valuesOf[T](r.Data), nil
}

// Error is returned by Run when an algorithm fails.
type Error struct {
	// Library and Algorithm identify the algorithm.
	Library, Algorithm string
	// Code is the value that the algorithm returned, Reason the text of the algorithm or of the last operation that it
	// called.
	Code   int
	Reason string
	// Err is the error of that operation, if Reason is from an operation.
	Err error
}

// Error returns algorithm, code and reason.
func (e *Error) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("native: %s of %s returned %d", e.Algorithm, e.Library, e.Code)
	}
	return fmt.Sprintf("native: %s of %s returned %d: %s", e.Algorithm, e.Library, e.Code, e.Reason)
}

// Unwrap returns the error of the operation.
func (e *Error) Unwrap() error { return e.Err }
