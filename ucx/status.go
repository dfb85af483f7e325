package ucx

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"

	"go.millstream.dev/internal/comm/closed"
)

// Status is a UCX status code (ucs_status_t). Negative values are errors. errors.Is relates them to the standard
// library: see [Status.Is]. Only the codes that programs handle have exported names.
type Status int32

// UCX's status codes.
const (
	statusOK              Status = 0
	statusInProgress      Status = 1
	errNoMessage          Status = -1
	errNoResource         Status = -2
	errIO                 Status = -3
	errNoMemory           Status = -4
	ErrInvalidParam       Status = -5
	ErrUnreachable        Status = -6
	errInvalidAddr        Status = -7
	errNotImplemented     Status = -8
	errMessageTruncated   Status = -9
	errNoProgress         Status = -10
	errBufferTooSmall     Status = -11
	errNoElem             Status = -12
	errSomeConnectsFailed Status = -13
	errNoDevice           Status = -14
	errBusy               Status = -15
	errCanceled           Status = -16
	errShmemSegment       Status = -17
	errAlreadyExists      Status = -18
	ErrOutOfRange         Status = -19
	errTimedOut           Status = -20
	ErrExceedsLimit       Status = -21
	errUnsupported        Status = -22
	ErrRejected           Status = -23
	errNotConnected       Status = -24
	ErrConnectionReset    Status = -25
	errEndpointTimeout    Status = -80
)

// UCX numbers failures of links and of endpoints within these ranges.
const (
	firstLinkFailure     Status = -40
	lastLinkFailure      Status = -59
	firstEndpointFailure Status = -60
	lastEndpointFailure  Status = -89
)

var statusText = map[Status]string{
	statusOK: "success", statusInProgress: "operation in progress", errNoMessage: "no pending message",
	errNoResource: "no resources are available to initiate the operation", errIO: "input/output error",
	errNoMemory: "out of memory", ErrInvalidParam: "invalid parameter", ErrUnreachable: "destination is unreachable",
	errInvalidAddr: "address not valid", errNotImplemented: "function not implemented",
	errMessageTruncated: "message truncated", errNoProgress: "no progress", errBufferTooSmall: "provided buffer is " +
		"too small",
	errNoElem: "no such element", errSomeConnectsFailed: "failed to connect some of the requested endpoints",
	errNoDevice: "no such device", errBusy: "device is busy", errCanceled: "request canceled",
	errShmemSegment: "shared memory error", errAlreadyExists: "element already exists", ErrOutOfRange: "index out of " +
		"range",
	errTimedOut: "operation timed out", ErrExceedsLimit: "user-defined limit was reached",
	errUnsupported: "unsupported operation", ErrRejected: "operation rejected by remote peer",
	errNotConnected: "endpoint is not connected", ErrConnectionReset: "connection reset by remote peer",
	firstLinkFailure: "link failure", lastLinkFailure: "link failure",
	firstEndpointFailure: "endpoint failure", errEndpointTimeout: "endpoint timeout",
	lastEndpointFailure: "endpoint failure",
}

// Error returns UCX's description of the status.
func (s Status) Error() string {
	if t, ok := statusText[s]; ok {
		return "ucx: " + t
	}
	switch {
	case s <= firstLinkFailure && s >= lastLinkFailure:
		return fmt.Sprintf("ucx: link failure (status %d)", int32(s))
	case s <= firstEndpointFailure && s >= lastEndpointFailure:
		return fmt.Sprintf("ucx: endpoint failure (status %d)", int32(s))
	}
	return fmt.Sprintf("ucx: status %d", int32(s))
}

// Is makes errors.Is relate a status to the standard errors: canceled to
// [context.Canceled]; not connected and connection reset to [net.ErrClosed]; timed
// out and endpoint timeout to [os.ErrDeadlineExceeded]; unsupported and not implemented
// to [errors.ErrUnsupported].
func (s Status) Is(target error) bool {
	switch target {
	case context.Canceled:
		return s == errCanceled
	case net.ErrClosed:
		return s == errNotConnected || s == ErrConnectionReset
	case os.ErrDeadlineExceeded:
		return s == errTimedOut || s == errEndpointTimeout
	case errors.ErrUnsupported:
		return s == errUnsupported || s == errNotImplemented
	}
	return false
}

// Errors that no UCX status expresses.
var (
	// ErrClosed is returned by operations on a closed context, worker, endpoint or
	// listener. It matches [net.ErrClosed] with errors.Is.
	ErrClosed = closed.New("ucx: use of closed object")
	// ErrTruncated is returned for a message that was longer than the buffer given for it. The
	// error wrapping it is a *[TruncatedError] with both lengths.
	ErrTruncated = errors.New("ucx: message truncated")
)

// errTooManyRequests is returned when a worker has the maximum number of unfinished operations.
var errTooManyRequests = errors.New("ucx: too many operations in flight on this worker (65536); wait for some to " +
	"finish")

// TruncatedError reports a message that did not fit its buffer. The message is lost; other messages are not affected.
type TruncatedError struct {
	Message int // bytes that were sent; 0 if the peer's library did not report it
	Buffer  int // bytes that the receive offered
}

func (e *TruncatedError) Error() string {
	if e.Message == 0 {
		return fmt.Sprintf("ucx: message truncated: longer than the receive buffer of %d bytes", e.Buffer)
	}
	return fmt.Sprintf("ucx: message truncated: %d bytes arrived for a buffer of %d", e.Message, e.Buffer)
}

// Is reports whether target is ErrTruncated or the UCX status, for errors.Is.
func (e *TruncatedError) Is(target error) bool {
	return target == ErrTruncated || target == errMessageTruncated
}

// OpError is the error type returned by operations: the operation, the peer and the cause.
type OpError struct {
	Op   string // "tag send", "connect", …
	Peer string // address or name of the peer; empty for worker-level operations
	Err  error  // a Status, ErrClosed, a context's error, …
}

func (e *OpError) Error() string {
	if e.Peer == "" {
		return e.Op + ": " + e.Err.Error()
	}
	return e.Op + " " + e.Peer + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *OpError) Unwrap() error { return e.Err }

// Timeout reports whether the operation ended at a deadline, as in [net.Error].
func (e *OpError) Timeout() bool {
	return errors.Is(e.Err, context.DeadlineExceeded) || errors.Is(e.Err, os.ErrDeadlineExceeded)
}

// Temporary is part of [net.Error]; nothing here is temporary.
func (e *OpError) Temporary() bool { return false }

// logf logs conditions that a program cannot learn from an error: an overridden variable, a leak, a dropped message. It
// uses slog's default logger at level WARN.
func logf(format string, args ...any) {
	slog.Warn("ucx: " + fmt.Sprintf(format, args...))
}
