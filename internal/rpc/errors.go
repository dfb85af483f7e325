package rpc

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"go.millstream.dev/internal/comm/closed"
)

var (
	// ErrUnknownOp is returned by calls of an op without a handler at the server. Dask's servers answer None to it, and
	// so do servers of this package to Python peers: only Millstream peers get this error.
	ErrUnknownOp = errors.New("rpc: unknown op")
	// ErrNilReply is returned by calls that expect a value and are answered with None, which is the answer of a Dask
	// server to an unknown op.
	ErrNilReply = errors.New("rpc: peer replied None")
	// ErrClosed is returned by operations on a closed pool, server or batched stream. It matches net.ErrClosed with
	// errors.Is.
	ErrClosed = closed.New("rpc: use of closed object")
)

// RemoteError is an error that a handler of the peer has returned or raised.
type RemoteError struct {
	// Type is the class of the Python exception, such as ValueError or
	// distributed.core.RPCClosed.
	Type string
	// Message is its text.
	Message string
	// Traceback is the remote stack as text, of Python or Go, "" if the peer sent none.
	Traceback string
	// Op and Peer are the op and the peer of the call.
	Op, Peer string

	code string // error code of a Millstream peer
	repr string // exception_text
}

// Error returns one line, without the traceback.
func (e *RemoteError) Error() string {
	return fmt.Sprintf("%s at %s: %s: %s", e.Op, e.Peer, e.Type, e.Message)
}

// Repr returns the exception as Python shows it: ValueError('no such key').
func (e *RemoteError) Repr() string {
	if e.repr != "" {
		return e.repr
	}
	return e.Type + "(" + strconv.Quote(e.Message) + ")"
}

// Format writes the traceback too for %+v.
func (e *RemoteError) Format(s fmt.State, verb rune) {
	text := e.Error()
	if verb == 'q' {
		text = fmt.Sprintf("%q", text)
	}
	_, _ = fmt.Fprint(s, text)
	if verb == 'v' && s.Flag('+') && e.Traceback != "" {
		_, _ = fmt.Fprintf(s, "\nremote traceback:\n%s", strings.TrimRight(e.Traceback, "\n"))
	}
}

// Is matches Go's errors that correspond to the remote one: timeouts, permissions, files. A CommClosedError of the peer
// is about its connections, not about this one, and so does not match comm.ErrClosed.
func (e *RemoteError) Is(target error) bool {
	short := e.Type[strings.LastIndexByte(e.Type, '.')+1:]
	switch target {
	case ErrUnknownOp:
		return e.code == codeUnknownOp
	case os.ErrDeadlineExceeded, context.DeadlineExceeded:
		return short == "TimeoutError"
	case context.Canceled:
		return short == "CancelledError" || e.code == codeCancelled
	case fs.ErrPermission:
		return short == "PermissionError"
	case fs.ErrNotExist:
		return short == "FileNotFoundError"
	case fs.ErrExist:
		return short == "FileExistsError"
	}
	return false
}

// Codes that Millstream peers add to their errors.
const (
	codeUnknownOp = "unknown-op"
	codeCancelled = "cancelled"
)

// CallError is returned by a call that failed in the connection.
type CallError struct {
	// Op and Peer are the op and the peer of the call.
	Op, Peer string
	// Sent reports whether the peer may have received the request, and so may have acted on it.
	Sent bool
	// Err is the cause; for a broken connection it wraps comm.ErrClosed.
	Err error
}

func (e *CallError) Error() string {
	if e.Sent {
		return fmt.Sprintf("rpc: %s at %s: %v (the request was sent: the peer may have acted on it)", e.Op, e.Peer,
			e.Err)
	}
	return fmt.Sprintf("rpc: %s at %s: %v", e.Op, e.Peer, e.Err)
}

func (e *CallError) Unwrap() error { return e.Err }

// Exception is an error that Python peers get as an exception of a given class. Other errors of handlers become a
// RuntimeError, a TimeoutError for a deadline, a PermissionError for fs.ErrPermission.
type Exception struct {
	// Type is the name of one of the built-in Python exceptions.
	Type string
	// Message is its text.
	Message string
}

func (e *Exception) Error() string { return e.Type + ": " + e.Message }

// PanicError is returned for a panic of a handler.
type PanicError struct {
	// Value is the value of the panic, Stack the stack of its goroutine.
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// protect runs f and converts a panic to an error.
func protect(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = &PanicError{Value: v, Stack: debug.Stack()}
		}
	}()
	return f()
}
