package execution

import (
	"errors"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker/internal/sidecar"
)

// Failure returns an error in the form of the scheduler's messages: a pickled Python exception and its text. Python
// clients raise it, Go clients read it.
func Failure(err error) *state.Failure {
	var raised *sidecar.Error
	if errors.As(err, &raised) {
		return raised.Failure
	}
	m, encodeErr := rpc.ErrorMessage(withClass(WithStack(err)), "error")
	if encodeErr != nil {
		m, _ = rpc.ErrorMessage(errors.New(encodeErr.Error()), "error") // plain text can always be encoded
	}
	f := &state.Failure{ExceptionText: m.GetString("exception_text"), TracebackText: m.GetString("traceback_text")}
	x, _ := m.Get("exception")
	if s, ok := x.(wire.Serialize); ok {
		if enc, err := wire.EncodeValue(s.Value, wire.EncodeOptions{}); err == nil {
			f.Exception = enc
		}
	}
	return f
}

// withClass selects the Python class of errors that callers cause. Errors of functions select it themselves: a
// *wire.Exception is raised unchanged, and so is an error with a method PythonType() string that returns the name of a
// built-in class.
func withClass(err error) error {
	var exception *rpc.Exception
	var python *wire.Exception
	var named interface{ PythonType() string }
	var typed *task.TypeError
	var spec *task.SpecError
	class := ""
	switch {
	case errors.As(err, &exception), errors.As(err, &python):
		return err
	case errors.As(err, &named):
		class = named.PythonType()
	case errors.As(err, &typed), errors.As(err, &spec):
		class = "TypeError"
	case errors.Is(err, task.ErrUnknownFunc):
		class = "LookupError"
	default:
		return err
	}
	return &rpc.Exception{Type: class, Message: err.Error()}
}

// WithStack converts the panic of a function to an error whose stack package rpc sends.
func WithStack(err error) error {
	var panicked *task.PanicError
	if errors.As(err, &panicked) {
		return &stackError{PanicError: rpc.PanicError{Value: panicked.Value, Stack: panicked.Stack}, text: err.Error()}
	}
	return err
}

// stackError is a panic with the text of the original error.
type stackError struct {
	rpc.PanicError
	text string
}

func (e *stackError) Error() string { return e.text }
func (e *stackError) Unwrap() error { return &e.PanicError }
