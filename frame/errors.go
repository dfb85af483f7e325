package frame

import (
	"errors"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/frame/internal/fault"
	"go.millstream.dev/internal/comm/closed"
)

// Errors of frames, found by errors.Is also in errors of tasks that failed on workers.
var (
	// ErrSchema is returned for data of another schema than that of its frame, and for a column that is missing or of
	// an unsuitable type.
	ErrSchema = fault.ErrSchema
	// ErrCorrupt is returned for a file that cannot be read in its format.
	ErrCorrupt = fault.ErrCorrupt
	// ErrExists is returned by writes into a folder that has files of the format already.
	ErrExists = fault.ErrExists
	// ErrClosed is returned by operations on a released Frame. It matches net.ErrClosed with errors.Is.
	ErrClosed = closed.New("frame: frame has been released")
)

// Error describes an error of a frame and its location.
type Error = fault.Error

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
		for _, kind := range fault.Kinds() {
			if strings.Contains(t.Text, kind.Error()+": ") {
				return &remoteError{kind: kind, err: err}
			}
		}
	}
	return err
}

func schemaErrorf(partition int, format string, args ...any) *Error {
	return fault.Schemaf(partition, format, args...)
}

func diffSchemas(want, got *arrow.Schema) string { return fault.DiffSchemas(want, got) }

func columns(s *arrow.Schema) string { return fault.Columns(s) }
