package task

import "go.millstream.dev/internal/task"

var (
	// ErrReschedule is returned by a function, alone or wrapped, to return its task to the scheduler, which chooses a
	// worker again. (Dask: raise Reschedule())
	ErrReschedule = task.ErrReschedule
	// ErrOutside is returned when a task-only function is called outside a running task.
	ErrOutside = task.ErrOutside
	// ErrNoDevice is returned when a function that needs a GPU is called on a worker without one.
	ErrNoDevice = task.ErrNoDevice
	// ErrUnknownFunc is returned by calls of a function that this process has not registered.
	ErrUnknownFunc = task.ErrUnknownFunc
)

// EncodeError is returned for a value that cannot be sent to another process. Type is the Go type that cannot be
// encoded, Path its position in the value, such as ".Rows[3].Lock", and Reason the cause with a remedy.
type EncodeError = task.EncodeError

// TypeError is returned for a value of another type than a function accepts or a caller requests. Func and Arg identify
// the argument, counted from 0 (Func is "" for results); Want and Got are the types, Err the cause, if any.
type TypeError = task.TypeError

// PanicError is returned for a function that panicked. Func is its name, Value the value of the panic, Stack the stack
// of its goroutine. It unwraps to Value if that is an error.
type PanicError = task.PanicError

// UnknownFuncError is returned for a call of the function Name, which this process has not registered. It unwraps to
// ErrUnknownFunc.
type UnknownFuncError = task.UnknownFuncError
