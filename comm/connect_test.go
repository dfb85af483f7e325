package comm_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.millstream.dev/comm"
)

// fakeComm is a comm of which only the identity matters.
type fakeComm struct{ comm.Comm }

func TestConnectRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		want := &fakeComm{}
		attempts := 0
		start := time.Now()
		c, err := comm.Connect(t.Context(), "x", comm.DialConfig{}, func(ctx context.Context) (comm.Comm, error) {
			attempts++
			if deadline, ok := ctx.Deadline(); !ok || attempts == 1 && time.Until(deadline) > 6*time.Second ||
				time.Until(deadline) > 30*time.Second {
				t.Errorf("attempt %d may last until %v", attempts, deadline)
			}
			if attempts < 12 {
				return nil, errors.New("not yet")
			}
			return want, nil
		})
		if err != nil || c != want || attempts != 12 {
			t.Errorf("%v, %v after %d attempts", c, err, attempts)
		}
		// Pauses double from 10 ms on, each a random part of that.
		if spent := time.Since(start); spent > 21*time.Second {
			t.Errorf("11 pauses took %v", spent)
		}
	})
}

func TestConnectGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		oops := errors.New("refused")
		start := time.Now()
		_, err := comm.Connect(t.Context(), "tcp://h:1", comm.DialConfig{Timeout: 3 * time.Second},
			func(context.Context) (comm.Comm, error) {
				return nil, oops
			})
		var failed *comm.ConnectError
		if !errors.As(err, &failed) || !errors.Is(err, os.ErrDeadlineExceeded) || !errors.Is(err, oops) ||
			errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("the error is %v", err)
		}
		if !strings.HasPrefix(err.Error(), "Timed out trying to connect to tcp://h:1 after 3 s") ||
			!strings.HasSuffix(err.Error(), "refused") {
			t.Errorf("the text is %q", err)
		}
		if spent := time.Since(start); spent < 3*time.Second || spent > 4*time.Second || failed.Attempts < 5 {
			t.Errorf("%d attempts in %v", failed.Attempts, spent)
		}
	})
}

// What an attempt met says more than that the last one had no time left.
func TestConnectKeepsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		oops, n := errors.New("refused"), 0
		_, err := comm.Connect(t.Context(), "x", comm.DialConfig{Timeout: time.Second},
			func(ctx context.Context) (comm.Comm, error) {
				if n++; n == 1 {
					return nil, oops
				}
				<-ctx.Done()
				return nil, ctx.Err()
			})
		if !errors.Is(err, oops) {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestConnectEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		// A permanent error at once.
		bad := errors.New("wrong certificate")
		start := time.Now()
		_, err := comm.Connect(t.Context(), "x", comm.DialConfig{}, func(context.Context) (comm.Comm, error) {
			return nil, comm.Permanent(bad)
		})
		if !errors.Is(err, bad) || time.Since(start) != 0 {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		if comm.Permanent(nil) != nil {
			t.Error("no error is none")
		}
		// The context's end.
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(bad) })
		_, err = comm.Connect(ctx, "x", comm.DialConfig{}, func(context.Context) (comm.Comm, error) {
			return nil, errors.New("no")
		})
		if !errors.Is(err, bad) || time.Since(start) != time.Second {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		// The context's deadline.
		late, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		_, err = comm.Connect(late, "x", comm.DialConfig{}, func(context.Context) (comm.Comm, error) {
			return nil, errors.New("no")
		})
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%v", err)
		}
	})
}

// A last attempt that had no time is not what the error tells of, whoever's clock ended it.
func TestConnectTellsWhatAnAttemptMet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // a busy machine has no time for a second attempt
		refused := errors.New("connection refused")
		attempts := 0
		_, err := comm.Connect(t.Context(), "tcp://127.0.0.1:1", comm.DialConfig{Timeout: 30 * time.Millisecond},
			func(context.Context) (comm.Comm, error) {
				if attempts++; attempts == 1 {
					return nil, refused
				}
				// before its context's end
				return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
			})
		if attempts < 2 || !errors.Is(err, refused) {
			t.Errorf("after %d attempts: %v", attempts, err)
		}
	})
}
