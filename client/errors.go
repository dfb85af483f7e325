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

// Errors that are returned by futures; use errors.Is.
var (
	// ErrCanceled is returned for the result of a task that was canceled or that the scheduler has forgotten.
	ErrCanceled = tracker.ErrCanceled
	// ErrLostData is returned for a result that was lost with its worker and cannot be computed again, such as
	// scattered data.
	ErrLostData = tracker.ErrLostData
	// ErrKilledWorker is returned for the result of a task that was on too many workers when they crashed
	// (distributed.scheduler.allowed-failures).
	ErrKilledWorker = errors.New("client: workers of the task crashed")
	// ErrReleased is returned by methods of a Future that was released before its task ended, and when a released
	// Future is an argument.
	ErrReleased = tracker.ErrReleased
	// ErrClosed is returned by operations on a closed Client, or one that lost its scheduler. It matches net.ErrClosed
	// with errors.Is.
	ErrClosed = tracker.ErrClosed
)

// TaskError is returned for a task that failed: its function returned an error or panicked, or it could not be run.
type TaskError struct {
	// Key is the key of the task.
	Key task.Key
	// Exception is the remote error, which errors.As finds. Its type is RuntimeError for errors of Go functions, and
	// the type of the exception for Python functions, such as "ValueError".
	Exception *wire.Exception
	// Text is the text of the remote error, with the type of the exception unless that is RuntimeError. Stack is the
	// remote stack, if any: that of a goroutine, or a Python traceback.
	Text, Stack string
}

// Error returns the key of the task and the remote error.
func (e *TaskError) Error() string { return fmt.Sprintf("task %s: %s", e.Key, e.Text) }

// Format writes the error; with %+v also the remote stack and the causes of a Python exception.
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

// Is reports whether target is ErrKilledWorker and the task failed with it.
func (e *TaskError) Is(target error) bool {
	return target == ErrKilledWorker && e.Exception != nil && e.Exception.Type == "KilledWorker"
}

var pickleLimits = pickle.Limits{}

// newTaskError decodes the exception and the traceback of a task-erred message.
func newTaskError(key task.Key, exception, traceback any) *TaskError {
	e := &TaskError{Key: key}
	switch x := exception.(type) {
	case []byte:
		if exc, err := pickle.LoadException(x, pickleLimits); err == nil {
			e.Exception = exc
		} else {
			e.Text = "remote error cannot be decoded: " + err.Error()
		}
	case *wire.Exception:
		e.Exception = x
	case string:
		e.Text = x
	case nil:
		e.Text = "remote error without a text"
	default:
		e.Text = fmt.Sprintf("remote error of type %T", x)
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

// tracebackText formats a traceback as Python does, without the lines of source code, which are not sent.
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

// exceptionText omits RuntimeError, the type of all errors of Go functions.
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
