package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"syscall"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/mem"
)

func TestReason(t *testing.T) {
	for want, list := range map[string][]error{
		"":           {nil},
		"memory":     {mem.ErrOutOfMemory},
		"unreadable": {ErrUnreadable},
		"connect":    {&comm.ConnectError{Address: "tcp://a", Last: context.DeadlineExceeded}},
		"timeout":    {context.DeadlineExceeded, errNoAck, os.ErrDeadlineExceeded},
		"canceled":   {context.Canceled},
		"protocol":   {comm.ErrProtocol},
		"closed":     {comm.ErrClosed, io.EOF, syscall.ECONNRESET, syscall.EPIPE},
		"other":      {errors.New("the peer says what it likes")},
	} {
		for _, err := range list {
			wrapped := err
			if err != nil {
				wrapped = fmt.Errorf("get_data from tcp://a: %w", err)
			}
			got := reason(&Record{}, wrapped)
			if got != want || got != "" && !slices.Contains(Reasons, got) {
				t.Errorf("%v: got %q, want %q", err, got, want)
			}
		}
	}
	if got := reason(&Record{Error: "busy"}, nil); got != "busy" {
		t.Errorf("busy peer: got %q, want busy", got)
	}
}
