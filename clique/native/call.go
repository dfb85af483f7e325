package native

import (
	"fmt"

	"go.millstream.dev/clique"
	"go.millstream.dev/cuda"
	"go.millstream.dev/mem"
)

// Column is a column of a partition: elements of one kind, one behind the other.
type Column struct {
	Kind clique.Kind
	Data *mem.Buffer
}

// ColumnOf is a slice as a column. It is not copied.
func ColumnOf[T clique.Number](s []T) Column {
	return Column{clique.KindOf[T](), mem.FromSlice(s)}
}

// Len is the number of elements.
func (c Column) Len() int {
	if c.Data == nil {
		return 0
	}
	return c.Data.Len() / max(1, c.Kind.Size())
}

// Partition is columns of one length.
type Partition []Column

func (p Partition) check(i int) error {
	for j, c := range p {
		switch {
		case !c.Kind.Valid():
			return fmt.Errorf("native: partition %d: column %d: %v is no kind of elements", i, j, c.Kind)
		case c.Data != nil && c.Data.Len()%c.Kind.Size() != 0:
			return fmt.Errorf("native: partition %d: column %d: %d bytes are no whole number of %v", i, j, c.Data.Len(),
				c.Kind)
		case c.Len() != p[0].Len():
			return fmt.Errorf("native: partition %d: column %d has %d elements, column 0 has %d", i, j, c.Len(),
				p[0].Len())
		}
	}
	return nil
}

// Call is what an algorithm is given on one rank.
type Call struct {
	// Partitions are this rank's; there may be none.
	Partitions []Partition
	// Parameters are for the algorithm to read.
	Parameters []byte
	// Stream is what device memory is ordered by. Without one, a rank with device memory gets one
	// for the call.
	Stream *cuda.Stream
}

// Result is a column that an algorithm has emitted.
type Result struct {
	Kind clique.Kind
	// Data is a column in memory of Go's.
	Data []byte
	// Device is a column in device memory, in place of Data. The caller releases it.
	Device *mem.Buffer
}

// Values is a result as a slice.
func Values[T clique.Number](r Result) ([]T, error) {
	if r.Device != nil {
		return nil, fmt.Errorf("native: a column of %v in device memory: copy it first (cuda.CopyToHost)", r.Kind)
	}
	if k := clique.KindOf[T](); k != r.Kind {
		return nil, fmt.Errorf("native: a column of %v, not of %v", r.Kind, k)
	}
	return valuesOf[T](r.Data), nil
}

// Error is an algorithm that failed.
type Error struct {
	// Library and Algorithm say which.
	Library, Algorithm string
	// Code is what it returned, Reason what it, or the last operation that it called, had to
	// say.
	Code   int
	Reason string
	// Err is the error of that operation, if it was one's.
	Err error
}

// Error names algorithm and reason.
func (e *Error) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("native: %s of %s returned %d", e.Algorithm, e.Library, e.Code)
	}
	return fmt.Sprintf("native: %s of %s returned %d: %s", e.Algorithm, e.Library, e.Code, e.Reason)
}

// Unwrap gives the operation's error to errors.Is and errors.As.
func (e *Error) Unwrap() error { return e.Err }
