package tracker

import (
	"errors"
	"testing"

	"go.millstream.dev/wire"
)

func TestCancelMessage(t *testing.T) {
	for _, force := range []bool{false, true} {
		c := empty(t)
		a := submit(t, c, "a")
		sent(t, c)
		if err := c.Cancel([]*State{a}, force); err != nil {
			t.Fatal(err)
		}
		m := sent(t, c)
		wantOps(t, m, "cancel-keys")
		if got, _ := m[0].Get("force"); got != force {
			t.Errorf("force is %v, want %v", got, force)
		}
		if m[0].GetString("reason") != "cancelled by C" || m[0].GetString("msg") != "request 1" {
			t.Errorf("reason %q, number %q, want cancelled by C, request 1", m[0].GetString("reason"),
				m[0].GetString("msg"))
		}
		if err := c.KeyErr(a); !errors.Is(err, ErrCanceled) || err.Error() != "task a: task canceled" {
			t.Errorf("the error is %v, want ErrCanceled", err)
		}
	}
}

// The reply to a cancellation does not cancel a later submission.
func TestStaleCancellation(t *testing.T) {
	c := empty(t)
	a, b := submit(t, c, "a"), submit(t, c, "b")
	if err := c.Cancel([]*State{a}, false); err != nil {
		t.Fatal(err)
	}
	submit(t, c, "a")
	answer := func(number, reason string, keys ...any) {
		t.Helper()
		receive(t, c, wire.NewDict("op", "cancelled-keys", "keys", keys, "reason", reason, "msg", number))
	}
	answer("request 1", "cancelled by C", "a")
	wantStatus(t, c, a, Pending)
	answer("request 1", "cancelled by C", "b") // b existed when it was canceled, as a dependent of a
	wantStatus(t, c, b, Canceled)
	answer("request 2", "cancelled by C", "a") // the later request applies to it
	wantStatus(t, c, a, Canceled)

	d := submit(t, c, "d")
	answer("request 1", "cancelled by another client", "d")
	wantStatus(t, c, d, Canceled)
	if got, want := c.KeyErr(d).Error(), "task d: task canceled: cancelled by another client: request 1"; got !=
		want {
		t.Errorf("the error is %q, want %q", got, want)
	}
	e := submit(t, c, "e")
	answer("not a number", "cancelled by C", "e")
	wantStatus(t, c, e, Canceled)
}

func TestCanceledKeepsFirstReason(t *testing.T) {
	c := empty(t)
	a := submit(t, c, "a")
	receive(t, c, wire.NewDict("op", "cancelled-keys", "keys", []any{"a"}, "reason", "first", "msg", ""))
	receive(t, c, wire.NewDict("op", "restart"))
	if got, want := c.KeyErr(a).Error(), "task a: task canceled: first"; got != want {
		t.Errorf("the error is %q, want %q", got, want)
	}
}

func TestRetry(t *testing.T) {
	c := empty(t)
	states := []*State{submit(t, c, "a"), submit(t, c, "b"), submit(t, c, "c")}
	erred := func(key string) wire.Dict {
		return wire.NewDict("op", "task-erred", "key", key, "exception", "no", "traceback", nil)
	}
	receive(t, c, erred("a"), erred("b"))
	before := c.Retries(states)
	// b is reported as retried, and fails again, before the reply to the request arrives.
	receive(t, c, wire.NewDict("op", "task-retried", "key", "b"), erred("b"))
	c.RetryRequested(states, before)
	wantStatus(t, c, states[0], Pending)
	wantStatus(t, c, states[1], Failed)
	wantStatus(t, c, states[2], Pending)
	if err := c.KeyErr(states[0]); err != nil {
		t.Errorf("a key that is retried has error %v", err)
	}
	if err := c.KeyErr(states[1]); err == nil {
		t.Error("a key that failed again has no error")
	}
	receive(t, c, wire.NewDict("op", "key-in-memory", "key", "c", "workers", []any{"w"}))
	c.RetryRequested(states, c.Retries(states))
	wantStatus(t, c, states[2], Finished) // results stay
}
