package nccl

import (
	"fmt"
	"strings"

	"go.millstream.dev/internal/comm/closed"
	"go.millstream.dev/nccl/internal/ncclapi"
)

// Result is an NCCL result code. It is an error for use with errors.Is.
type Result int32

// Results that programs handle. Any other ncclResult_t may be compared as Result(n).
const (
	SystemError Result = Result(ncclapi.SystemError)
	RemoteError Result = Result(ncclapi.RemoteError)

	notSupported Result = Result(ncclapi.NoSymbol) // the loaded release lacks it
)

// Error returns NCCL's text of the result.
func (r Result) Error() string { return ncclapi.Result(r).Text() }

// Error is returned by failed operations of a communicator.
type Error struct {
	Op     string // the operation that failed
	Result Result
	Detail string // NCCL's message, if any
}

// Error describes the failure; with NCCL_DEBUG=WARN the library writes more to its log.
func (e *Error) Error() string {
	text := fmt.Sprintf("nccl: %s: %v", e.Op, e.Result)
	if detail := strings.TrimSpace(e.Detail); detail != "" {
		text += ": " + detail
	} else if e.Result != notSupported {
		text += " (set NCCL_DEBUG=WARN for details)"
	}
	return text
}

// Unwrap returns the Result.
func (e *Error) Unwrap() error { return e.Result }

// ErrClosed is returned by operations on a Comm after Shutdown. It matches net.ErrClosed with errors.Is.
var ErrClosed = closed.New("nccl: communicator is closed")

// ErrAborted is returned by operations on a Comm that was ended before its work was done: by Close, or by a context
// that ended. It matches net.ErrClosed with errors.Is.
var ErrAborted = closed.New("nccl: communicator is aborted")
