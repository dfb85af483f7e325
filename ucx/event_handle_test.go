package ucx

import (
	"context"
	"errors"
	"testing"

	"go.millstream.dev/mem"
)

// askedEvent counts how often its handle was asked for.
type askedEvent struct {
	done  bool
	err   error
	asked int
}

func (e *askedEvent) Handle() uintptr            { e.asked++; return 7 }
func (e *askedEvent) Query() (bool, error)       { return e.done, e.err }
func (e *askedEvent) Wait(context.Context) error { return e.err }

var _ mem.Event = (*askedEvent)(nil)

// An event that has completed is not asked for its handle; one that is pending or broken is, and the shim decides.
func TestPendingHandle(t *testing.T) {
	if h := pendingHandle(nil); h != 0 {
		t.Errorf("handle %d of no event", h)
	}
	for _, tc := range []struct {
		about string
		e     askedEvent
		want  uintptr
	}{
		{"completed", askedEvent{done: true}, 0},
		{"pending", askedEvent{}, 7},
		{"broken", askedEvent{done: true, err: errors.New("context lost")}, 7},
	} {
		if h := pendingHandle(&tc.e); h != tc.want || tc.e.asked != int(min(tc.want, 1)) {
			t.Errorf("%s: handle %d, asked %d times; want %d", tc.about, h, tc.e.asked, tc.want)
		}
	}
}
