package tracker

import (
	"errors"
	"fmt"
	"strings"

	"go.millstream.dev/internal/comm/closed"
	"go.millstream.dev/internal/task"
)

// Errors of futures; package client exports and documents them.
var (
	// ErrCanceled is returned for a task that was canceled or that the scheduler has forgotten.
	ErrCanceled = errors.New("client: task canceled")
	// ErrLostData is returned for a result that was lost and cannot be computed again.
	ErrLostData = errors.New("client: result lost with its worker")
	// ErrReleased is returned for a future that was released.
	ErrReleased = errors.New("client: future released")
	// ErrClosed is returned by operations on a client that has ended.
	ErrClosed = closed.New("client: client closed")
)

// canceledError is returned for a canceled task, with the reason.
type canceledError struct {
	key          task.Key
	reason, text string
	cause        error
}

// NewCanceledError returns an error that matches ErrCanceled and cause with errors.Is.
func NewCanceledError(key task.Key, cause error) error { return &canceledError{key: key, cause: cause} }

func (e *canceledError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "task %s: %s", e.key, strings.TrimPrefix(e.cause.Error(), "client: "))
	if e.reason != "" {
		b.WriteString(": " + e.reason)
	}
	if e.text != "" {
		b.WriteString(": " + e.text)
	}
	return b.String()
}

func (e *canceledError) Unwrap() error { return e.cause }

// Is reports whether target is ErrCanceled: a lost result will not be computed either.
func (e *canceledError) Is(target error) bool { return target == ErrCanceled }
