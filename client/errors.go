package client

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"go.millstream.dev/client/internal/tracker"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
)

// Errors that errors.Is finds in what futures return.
var (
	// ErrCanceled is returned for the result of a task that was canceled, or that the scheduler no longer knows.
	ErrCanceled = tracker.ErrCanceled
	// ErrLostData is returned for a result that was lost with its worker and cannot be computed again, such as
	// scattered data.
	ErrLostData = tracker.ErrLostData
	// ErrKilledWorker is returned for the result of a task that was on too many workers when they died
	// (distributed.scheduler.allowed-failures).
	ErrKilledWorker = errors.New("client: the task's workers died")
	// ErrReleased is returned by methods of a Future that was released before its task ended, and when a released
	// Future is an argument.
	ErrReleased = tracker.ErrReleased
	// ErrClosed is returned by operations on a closed Client, or one that lost its scheduler. It matches net.ErrClosed
	// with errors.Is.
	ErrClosed = tracker.ErrClosed
)

// TaskError is the error of a task: what its function returned or panicked with, or why it
// could not be run.
type TaskError struct {
	// Key is the task's.
	Key task.Key
	// Exception is the remote error; errors.As finds it. Its type is RuntimeError for
	// errors of Go functions, and that of the exception for Python's: "ValueError".
	Exception *wire.Exception
	// Text is the remote error's text, with the exception's type but for RuntimeError. Stack
	// is the remote stack where there is one: Go's, or Python's traceback.
	Text, Stack string
}

// Error names the task and the remote error.
func (e *TaskError) Error() string { return fmt.Sprintf("task %s: %s", e.Key, e.Text) }

// Format adds the remote stack, and the causes of a Python exception, for %+v.
func (e *TaskError) Format(s fmt.State, verb rune) {
	_, _ = io.WriteString(s, e.Error())
	if verb != 'v' || !s.Flag('+') {
		return
	}
	if e.Stack != "" {
		_, _ = io.WriteString(s, "\n"+e.Stack)
	}
	if e.Exception != nil {
		for c := e.Exception.Cause; c != nil; c = c.Cause {
			_, _ = io.WriteString(s, "\ncaused by "+c.Error()+"\n"+tracebackText(c.Traceback))
		}
	}
}

// Unwrap returns the remote error.
func (e *TaskError) Unwrap() error {
	if e.Exception == nil {
		return nil
	}
	return e.Exception
}

// Is finds ErrKilledWorker.
func (e *TaskError) Is(target error) bool {
	return target == ErrKilledWorker && e.Exception != nil && e.Exception.Type == "KilledWorker"
}

var pickleLimits = pickle.Limits{}

// newTaskError reads what task-erred carries.
func newTaskError(key task.Key, exception, traceback any) *TaskError {
	e := &TaskError{Key: key}
	switch x := exception.(type) {
	case []byte:
		if exc, err := pickle.LoadException(x, pickleLimits); err == nil {
			e.Exception = exc
		} else {
			e.Text = "an error that cannot be read: " + err.Error()
		}
	case *wire.Exception:
		e.Exception = x
	case string:
		e.Text = x
	case nil:
		e.Text = "an error without a text"
	default:
		e.Text = fmt.Sprintf("an error of type %T", x)
	}
	if e.Exception != nil {
		e.Text = exceptionText(e.Exception)
	}
	e.Stack = stackText(traceback)
	if e.Stack == "" && e.Exception != nil {
		e.Stack = tracebackText(e.Exception.Traceback)
	}
	return e
}

// tracebackText is a traceback as Python prints it, without the lines of source, which do not
// travel.
func tracebackText(frames []pickle.TraceFrame) string {
	if len(frames) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("Traceback (most recent call last):\n")
	for _, f := range frames {
		fmt.Fprintf(&b, "  File \"%s\", line %d, in %s\n", f.File, f.Line, f.Function)
	}
	return b.String()
}

// exceptionText leaves RuntimeError, the name of all errors of Go functions, out.
func exceptionText(x *wire.Exception) string {
	if x.Type == "RuntimeError" {
		return x.Text
	}
	return x.Error()
}

func stackText(traceback any) string {
	switch x := traceback.(type) {
	case string:
		return x
	case []byte:
		v, err := pickle.Load(x, nil, pickleLimits)
		if err != nil {
			return ""
		}
		if s, ok := v.(string); ok {
			return s
		}
		return tracebackText(pickle.Traceback(v))
	case *wire.Exception:
		return x.Text
	}
	return ""
}
