package nccl

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The one poll: it ends with what is done, with what look says, or with the context, which then
// gives up, once.
func TestPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Comm{}
		gaveUp := 0
		giveUp := func(why error) error { gaveUp++; return why }
		never := func() error { return nil }

		asked := 0
		begin := time.Now()
		err := c.poll(t.Context(), "x", func() (bool, error) { asked++; return asked == 20, nil }, never, giveUp)
		// Pauses double from the shortest to the longest: 5 µs … 320 µs, then 500 µs each.
		if took := time.Since(begin); err != nil || asked != 20 || took != 635*time.Microsecond+12*longestPause {
			t.Errorf("%v after %d questions and %v", err, asked, took)
		}

		broken := errors.New("broken")
		if err := c.poll(t.Context(), "x", func() (bool, error) {
			return false, broken
		}, never, giveUp); err != broken {
			t.Error(err)
		}
		if err := c.poll(t.Context(), "x", func() (bool, error) { return false, nil }, func() error { return broken },
			giveUp); err != broken {
			t.Error(err)
		}
		if gaveUp != 0 {
			t.Errorf("it gave up %d times", gaveUp)
		}

		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		err = c.poll(ctx, "an init", func() (bool, error) { return false, nil }, never, giveUp)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrAborted) ||
			!strings.Contains(err.Error(), "an init") || gaveUp != 1 {
			t.Errorf("%v, gave up %d times", err, gaveUp)
		}
	})
}

// A communicator that was told to abort says so to whoever looks, and to all later calls.
func TestTold(t *testing.T) {
	c := &Comm{turn: make(chan struct{}, 1)}
	c.turn <- struct{}{}
	if err := c.checkAborted(); err != nil {
		t.Error(err)
	}
	c.aborting.Store(true)
	if err := c.Check(); !errors.Is(err, ErrAborted) {
		t.Error(err)
	}
	if _, err := c.Handle(t.Context()); !errors.Is(err, ErrAborted) {
		t.Error(err)
	}
	if err := c.Check(); !errors.Is(err, ErrAborted) {
		t.Error(err)
	}
}

// A scale that is no element of the type is refused before NCCL is asked.
func TestPreMulSumOf(t *testing.T) {
	c := &Comm{}
	for _, tc := range []struct {
		t       DataType
		element []byte
	}{{Float32, make([]byte, 8)}, {Float64, nil}, {DataType(99), nil}} {
		if _, err := c.PreMulSumOf(t.Context(), tc.t, tc.element); err == nil ||
			!strings.Contains(err.Error(), "want one element") {
			t.Errorf("%v: %v", tc, err)
		}
	}
}
