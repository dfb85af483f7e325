package task

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// ErrReschedule is returned by a function, alone or wrapped, to return its task to the scheduler, which chooses a
// worker again. (Dask: raise Reschedule())
var ErrReschedule = errors.New("task: reschedule on another worker")

// ErrUnknownFunc is returned by calls of a function that this process has not registered.
var ErrUnknownFunc = errors.New("task: function is not registered")

// UnknownFuncError is returned for a call of a function that this process has not registered.
type UnknownFuncError struct {
	// Name is the name of the function.
	Name string
}

func (e *UnknownFuncError) Error() string {
	return fmt.Sprintf("task: function %q is not registered in this process; register it with Func at package level, "+
		"in a package that both client and worker import", e.Name)
}

// Unwrap returns ErrUnknownFunc.
func (e *UnknownFuncError) Unwrap() error { return ErrUnknownFunc }

// EncodeError is returned for a value that cannot be sent to another process.
type EncodeError struct {
	// Type is the Go type that cannot be encoded, Path its position in the value, such as ".Rows[3].Lock".
	Type reflect.Type
	Path string
	// Reason is the cause with a remedy.
	Reason string
}

func (e *EncodeError) Error() string {
	at := ""
	if e.Path != "" {
		at = " at " + shortPath(e.Path)
	}
	return fmt.Sprintf("task: a value of type %v%s cannot be serialized: %s", e.Type, at, e.Reason)
}

// maxPath is the number of steps from which a path is shortened.
const maxPath = 12

// shortPath shortens the path of a value that contains itself, such as ".Next.Next.Next…".
func shortPath(path string) string {
	steps := pathSteps(path)
	if len(steps) <= maxPath {
		return path
	}
	for period := 1; period <= maxPath/3; period++ {
		from := len(steps) - period
		for from > 0 && steps[from-1] == steps[from-1+period] {
			from--
		}
		if len(steps)-from >= 3*period {
			return strings.Join(steps[:from+2*period], "") + "… (cycle)"
		}
	}
	return strings.Join(steps[:maxPath/2], "") + "…" + strings.Join(steps[len(steps)-maxPath/2:], "")
}

// pathSteps splits ".Rows[3].Lock" into ".Rows", "[3]" and ".Lock".
func pathSteps(path string) []string {
	var steps []string
	from := 0
	for i := 1; i < len(path); i++ {
		if path[i] == '.' || path[i] == '[' {
			steps = append(steps, path[from:i])
			from = i
		}
	}
	return append(steps, path[from:])
}

// TypeError is returned for a value of another type than a function accepts or a caller requests.
type TypeError struct {
	// Func and Arg identify the argument, counted from 0; Func is "" for results.
	Func string
	Arg  int
	// Want is the required type, Got the actual one.
	Want, Got string
	// Err is the cause, if any.
	Err error
}

func (e *TypeError) Error() string {
	what := "value"
	if e.Func != "" {
		what = fmt.Sprintf("argument %d of %s", e.Arg, e.Func)
	}
	s := fmt.Sprintf("task: %s must be %s, and is %s", what, e.Want, e.Got)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns Err.
func (e *TypeError) Unwrap() error { return e.Err }

// SpecError is returned for an encoded call or graph that cannot be decoded.
type SpecError struct {
	// Reason describes the problem.
	Reason string
	// Err is the cause, if any.
	Err error
}

func (e *SpecError) Error() string {
	if e.Err != nil {
		return "task: " + e.Reason + ": " + e.Err.Error()
	}
	return "task: " + e.Reason
}

// Unwrap returns Err.
func (e *SpecError) Unwrap() error { return e.Err }

// PanicError is returned for a function that panicked.
type PanicError struct {
	// Func is the name of the function, Value the value of the panic, Stack the stack of its goroutine.
	Func  string
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("%s panicked: %v", e.Func, e.Value) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}
