package comm

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"time"

	"go.millstream.dev/secure"
)

// DefaultConnectTimeout is the default of DialConfig.Timeout (distributed.comm.timeouts.connect).
const DefaultConnectTimeout = 30 * time.Second

// ConnectError is returned by a Dial that did not succeed in time. It matches os.ErrDeadlineExceeded, and the cause of
// the last attempt, with errors.Is.
type ConnectError struct {
	// Address is the dialed address.
	Address string
	// After is the elapsed time.
	After time.Duration
	// Attempts is the number of attempts.
	Attempts int
	// Last is the error of the last attempt, nil if none has finished.
	Last error

	ctx error // context.DeadlineExceeded if the deadline of the context passed
}

// Error returns Dask's text with the cause.
func (e *ConnectError) Error() string {
	s := fmt.Sprintf("Timed out trying to connect to %s after %.3g s", e.Address, e.After.Seconds())
	if e.Last != nil {
		s += fmt.Sprintf(" (%d attempts): %v", e.Attempts, e.Last)
	}
	return s
}

// Unwrap returns the timeout and the cause for errors.Is and errors.As.
func (e *ConnectError) Unwrap() []error {
	list := []error{os.ErrDeadlineExceeded}
	for _, err := range []error{e.ctx, e.Last} {
		if err != nil {
			list = append(list, err)
		}
	}
	return list
}

// permanent marks an error that a retry cannot fix.
type permanent struct{ error }

func (p permanent) Unwrap() error { return p.error }

// Permanent marks an error of a Backend's Dial that a retry cannot fix: an invalid address, a certificate that does not
// match, a peer with another protocol.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return permanent{err}
}

// checkRole aborts a comm whose listener has a certificate without the required roles: TLS accepts any certificate of
// the CA, also that of a worker that poses as scheduler.
func checkRole(c Comm, wanted []secure.Role) error {
	if len(wanted) == 0 {
		return nil
	}
	state := c.Info().TLS
	if slices.ContainsFunc(wanted, func(r secure.Role) bool { return secure.Allows(state, r) }) {
		return nil
	}
	c.Abort()
	var has []secure.Role
	if len(state.PeerCertificates) > 0 {
		has = secure.RolesOf(state.PeerCertificates[0])
	}
	return Permanent(fmt.Errorf("the certificate of %s has the roles %v, want one of %v; check the address",
		c.PeerAddr(), has, wanted))
}

// Connect calls dial until it succeeds, with Dask's pauses between attempts: random below a limit that starts at 10 ms
// and doubles. It ends with a permanent error (see Permanent), with ctx, or with a *ConnectError when cfg.Timeout has
// elapsed. The first attempt has a fifth of the time, since a second attempt helps against a lost packet or a slow name
// server.
func Connect(ctx context.Context, address string, cfg DialConfig, dial func(context.Context) (Comm, error)) (Comm,
	error) {
	timeout := cfg.Timeout
	if timeout <= 0 {
		timeout = DefaultConnectTimeout
	}
	start := time.Now()
	deadline := start.Add(timeout)
	fail := &ConnectError{Address: address}
	attemptCap := timeout / 5
	pauseCap := 10 * time.Millisecond
	for {
		left := time.Until(deadline)
		if left <= 0 {
			break
		}
		attempt, cancel := context.WithTimeout(ctx, min(attemptCap, left))
		c, err := dial(attempt)
		if err == nil {
			err = checkRole(c, cfg.PeerRoles)
		}
		var timed net.Error // a dialer may time out just before the context does
		late := attempt.Err() != nil || errors.As(err, &timed) && timed.Timeout()
		cancel()
		if err == nil {
			return c, nil
		}
		fail.Attempts++
		// The last attempt often has no time left; the error of an earlier one is more useful.
		if fail.Last == nil || !late {
			fail.Last = err
		}
		var p permanent
		if errors.As(err, &p) {
			return nil, fmt.Errorf("comm: connect to %s: %w", address, p.error)
		}
		if cfg.Retrying != nil && ctx.Err() == nil {
			cfg.Retrying(err)
		}
		attemptCap = timeout
		pause := time.NewTimer(rand.N(min(pauseCap, max(time.Until(deadline), 0)) + 1))
		pauseCap = min(2*pauseCap, timeout)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
		}
		if ctx.Err() != nil {
			break
		}
	}
	fail.After, fail.ctx = time.Since(start), ctx.Err()
	if fail.ctx != nil && !errors.Is(fail.ctx, context.DeadlineExceeded) {
		return nil, fmt.Errorf("comm: connect to %s: %w", address, context.Cause(ctx))
	}
	return nil, fail
}
