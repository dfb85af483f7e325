package worker

import "testing"

// A closing worker takes no other status, independent of its memory and of the scheduler.
func TestStatusAtTheEnd(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{statusInit, statusRunning, statusRunning}, {statusRunning, statusPaused, statusPaused},
		{statusPaused, statusRetiring, statusRetiring}, {statusRetiring, statusRunning, statusRunning},
		{statusClosing, statusRunning, statusClosing}, {statusClosing, statusPaused, statusClosing},
		{statusClosed, statusRunning, statusClosed}, {statusClosed, statusRetiring, statusClosed},
	} {
		var s status
		s.Store(c.from)
		s.set(c.to)
		if got := s.Load(); got != c.want {
			t.Errorf("from %s to %s: got %v, want %s", c.from, c.to, got, c.want)
		}
	}
}
