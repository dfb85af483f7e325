package frame

import (
	"errors"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/internal/comm/closed"
)

// Errors of frames, found by errors.Is also in errors of tasks that failed on workers.
var (
	// ErrSchema is returned for data of another schema than that of its frame, and for a column that is missing or of
	// an unsuitable type.
	ErrSchema = errors.New("frame: schema mismatch")
	// ErrCorrupt is returned for a file that cannot be read in its format.
	ErrCorrupt = errors.New("frame: corrupt file")
	// ErrExists is returned by writes into a folder that has files of the format already.
	ErrExists = errors.New("frame: result exists")
	// ErrClosed is returned by operations on a released Frame. It matches net.ErrClosed with errors.Is.
	ErrClosed = closed.New("frame: frame has been released")
)

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

// remoteError is the error of a task whose text is that of an error of this package.
type remoteError struct {
	kind error
	err  error
}

func (e *remoteError) Error() string   { return e.err.Error() }
func (e *remoteError) Unwrap() []error { return []error{e.kind, e.err} }

// withKind restores the kind of a task's error: errors of Go functions are sent as text.
func withKind(err error) error {
	if t, ok := errors.AsType[*client.TaskError](err); ok {
		for _, kind := range []error{ErrSchema, ErrCorrupt, ErrExists} {
			if strings.Contains(t.Text, kind.Error()+": ") {
				return &remoteError{kind: kind, err: err}
			}
		}
	}
	return err
}

func schemaErrorf(partition int, format string, args ...any) *Error {
	return &Error{Kind: ErrSchema, Partition: partition, Reason: fmt.Sprintf(format, args...)}
}

// diffSchemas returns the difference between two schemas in names, types and order of the columns, "" if there is none.
// Metadata and nullability are ignored.
func diffSchemas(want, got *arrow.Schema) string {
	if w, g := want.NumFields(), got.NumFields(); w != g {
		return fmt.Sprintf("got %d columns (%s), want %d (%s)", g, columns(got), w, columns(want))
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

// columns returns the names of the first columns of a schema.
func columns(s *arrow.Schema) string {
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
