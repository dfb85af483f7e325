package transfer

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"

	"go.millstream.dev/comm"
	"go.millstream.dev/mem"
)

// Reasons are the classes of failed transfers in metrics.
var Reasons = []string{"busy", "canceled", "timeout", "memory", "unreadable", "connect", "closed", "protocol", "other"}

// reason returns the class of a transfer that ended with err; "" for success.
func reason(r *Record, err error) string {
	var connect *comm.ConnectError
	var timeout net.Error
	switch {
	case r.Error == "busy":
		return "busy"
	case err == nil:
		return ""
	case errors.Is(err, mem.ErrOutOfMemory):
		return "memory"
	case errors.Is(err, ErrUnreadable):
		return "unreadable"
	case errors.As(err, &connect):
		return "connect"
	case errors.Is(err, errNoAck), errors.Is(err, context.DeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		return "timeout"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case errors.Is(err, comm.ErrProtocol):
		return "protocol"
	case errors.Is(err, net.ErrClosed), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return "closed"
	}
	return "other"
}
