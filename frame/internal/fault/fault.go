// Package fault has the errors of frames: their kinds, the file and the partition where they occurred, and comparison
// of schemas. Package frame exports them.
package fault

import (
	"errors"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"
)

// Kinds of errors, which package frame exports under the same names.
var (
	// ErrSchema is returned for data of another schema than expected, and for a column that is missing or of an
	// unsuitable type.
	ErrSchema = errors.New("frame: schema mismatch")
	// ErrCorrupt is returned for a file that cannot be read in its format.
	ErrCorrupt = errors.New("frame: corrupt file")
	// ErrExists is returned by writes into a folder that has files of the format already.
	ErrExists = errors.New("frame: result exists")
)

// Kinds returns all kinds.
func Kinds() []error { return []error{ErrSchema, ErrCorrupt, ErrExists} }

// Error describes an error of a frame and its location.
type Error struct {
	// Kind is ErrSchema, ErrCorrupt, ErrExists or another error of this package.
	Kind error
	// Path is the file, "" without one.
	Path string
	// Partition is the number of the partition, from 0; -1 if it is unknown.
	Partition int
	// Reason describes the error.
	Reason string
	// Err is the cause, if there is one.
	Err error
}

// Error returns the partition, the file and the reason.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.Kind.Error())
	b.WriteString(": ")
	if e.Partition >= 0 {
		fmt.Fprintf(&b, "partition %d", e.Partition)
		if e.Path != "" {
			b.WriteString(", ")
		} else {
			b.WriteString(": ")
		}
	}
	if e.Path != "" {
		b.WriteString("file " + e.Path + ": ")
	}
	b.WriteString(e.Reason)
	if e.Err != nil {
		if e.Reason != "" {
			b.WriteString(": ")
		}
		b.WriteString(e.Err.Error())
	}
	return b.String()
}

// Unwrap returns Kind and Err.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// Schemaf returns an error of kind ErrSchema. Partition is -1 if it is unknown.
func Schemaf(partition int, format string, args ...any) *Error {
	return &Error{Kind: ErrSchema, Partition: partition, Reason: fmt.Sprintf(format, args...)}
}

// DiffSchemas returns the difference between two schemas in names, types and order of the columns, "" if there is none.
// Metadata and nullability are ignored.
func DiffSchemas(want, got *arrow.Schema) string {
	if w, g := want.NumFields(), got.NumFields(); w != g {
		return fmt.Sprintf("got %d columns (%s), want %d (%s)", g, Columns(got), w, Columns(want))
	}
	for i, w := range want.Fields() {
		g := got.Field(i)
		if w.Name != g.Name {
			return fmt.Sprintf("column %d is %q, want %q", i, g.Name, w.Name)
		}
		if !arrow.TypeEqual(w.Type, g.Type) {
			return fmt.Sprintf("column %q has type %v, want %v", w.Name, g.Type, w.Type)
		}
	}
	return ""
}

// Columns returns the names of the first columns of a schema.
func Columns(s *arrow.Schema) string {
	const most = 8
	var names []string
	for i, f := range s.Fields() {
		if i == most {
			names = append(names, "…")
			break
		}
		names = append(names, f.Name)
	}
	return strings.Join(names, ", ")
}
