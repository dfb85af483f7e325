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
	ErrCanceled = errors.New("client: the task was canceled")
	ErrLostData = errors.New("client: the result was lost with its worker")
	ErrReleased = errors.New("client: the future has been released")
	ErrClosed   = closed.New("client: the client is closed")
)

// canceledError is returned for a task that was canceled, and has the reason.
type canceledError struct {
	key          task.Key
	reason, text string
	cause        error
}

// NewCanceledError returns an error in which errors.Is finds ErrCanceled and cause.
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

// Is makes every lost result a canceled one too: it will not be computed.
func (e *canceledError) Is(target error) bool { return target == ErrCanceled }
