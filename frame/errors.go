package frame

import (
	"errors"
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/internal/comm/closed"
)

// What errors.Is finds in the errors of frames, also in those of tasks that failed on
// workers.
var (
	// ErrSchema is returned for data of another schema than its frame has, and for a column that is missing or
	// of an unsuitable type.
	ErrSchema = errors.New("frame: schema mismatch")
	// ErrCorrupt is returned for a file that cannot be read in its format.
	ErrCorrupt = errors.New("frame: corrupt file")
	// ErrExists is returned by writes into a folder that has files of the format already.
	ErrExists = errors.New("frame: result exists")
	// ErrClosed is returned by operations on a released Frame. It matches net.ErrClosed with errors.Is.
	ErrClosed = closed.New("frame: the frame has been released")
)

// Error is an error of a frame: what is wrong, where.
type Error struct {
	// Kind is ErrSchema, ErrCorrupt, ErrExists or another error of this package.
	Kind error
	// Path is the file, "" where there is none.
	Path string
	// Partition is the partition, counted from 0, and -1 where it is not known.
	Partition int
	// Reason says what is wrong.
	Reason string
	// Err is the cause, if there is one.
	Err error
}

// Error names partition, file and reason.
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

// remoteError is the error of a task whose text says that it is one of this package.
type remoteError struct {
	kind error
	err  error
}

func (e *remoteError) Error() string   { return e.err.Error() }
func (e *remoteError) Unwrap() []error { return []error{e.kind, e.err} }

// typed gives the error of a task its kind back: errors of Go functions cross the cluster as
// text.
func typed(err error) error {
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

// differ says what two schemas do not have in common, "" if nothing: names, types and order of
// the columns. Metadata and whether a column may hold nulls do not count.
func differ(want, got *arrow.Schema) string {
	if w, g := want.NumFields(), got.NumFields(); w != g {
		return fmt.Sprintf("it has %d columns (%s) and should have %d (%s)", g, columns(got), w, columns(want))
	}
	for i, w := range want.Fields() {
		g := got.Field(i)
		if w.Name != g.Name {
			return fmt.Sprintf("column %d is %q and should be %q", i, g.Name, w.Name)
		}
		if !arrow.TypeEqual(w.Type, g.Type) {
			return fmt.Sprintf("column %q is %v and should be %v", w.Name, g.Type, w.Type)
		}
	}
	return ""
}

// columns names the columns of a schema, the first of many.
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
