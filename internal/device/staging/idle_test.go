package staging_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestIdleMemoryIsFreed: pinned memory is kept for the next transfer, and not for long.
func TestIdleMemoryIsFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 1000, 4, 4, 2, func(int) bool { return false })
		move := func() {
			t.Helper()
			if _, sent, received := r.move(t, t.Context(), random(20_000)); errors.Join(sent, received) != nil {
				t.Fatal(sent, received)
			}
			r.a.Drain()
			r.b.Drain()
		}
		move()
		time.Sleep(20 * time.Second)
		move()
		if r.ea.PinnedBytes() == 0 {
			t.Error("nothing was kept")
		}
		time.Sleep(20 * time.Second) // the second transfer has put it off
		if r.ea.PinnedBytes() == 0 || r.eb.PinnedBytes() == 0 {
			t.Error("freed too early")
		}
		time.Sleep(20 * time.Second)
		if a, b := r.ea.PinnedBytes(), r.eb.PinnedBytes(); a != 0 || b != 0 {
			t.Errorf("%d and %d bytes are still pinned", a, b)
		}
		r.clean(t)
	})
}
