package ucx

import (
	"context"
	"errors"
	"testing"
	"time"
)

// An answer that is expected soon is received whether it comes while the wait looks for it or long after, while others
// of the worker send and receive, and its context ends the wait at any time.
func TestFramesSoon(t *testing.T) {
	ctx := testContext(t)
	wa, wb := newWorker(t, Config{}, WorkerConfig{}), newWorker(t, Config{}, WorkerConfig{})
	a, b := connectPair(t, ctx, wa, wb)
	c, d := connectPair(t, ctx, wa, wb)
	for _, tc := range []struct {
		about       string
		spin, after time.Duration
	}{{"at once", time.Millisecond, 0}, {"while it is looked for", 50 * time.Millisecond,
		2 * time.Millisecond}, {"later", time.Microsecond, 2 * time.Millisecond}, {"unexpected", 0, time.Millisecond}} {
		want := frameSet(7, 3, 20_000)
		go func() {
			time.Sleep(tc.after)
			if err := a.SendFrames(ctx, viewsOf(want)...); err != nil {
				t.Error(err)
			}
		}()
		other := make(chan error, 1)
		go func() { // another connection of the workers is served meanwhile
			frames, err := c.RecvFrames(ctx, Allocators{Spin: tc.spin})
			frames.Release()
			other <- err
		}()
		if err := d.SendFrames(ctx, Bytes([]byte("x"))); err != nil {
			t.Fatal(err)
		}
		got, err := b.RecvFrames(ctx, Allocators{Spin: tc.spin})
		if err == nil {
			err = sameFrames(got, want)
		}
		if err != nil {
			t.Errorf("%s: %v", tc.about, err)
		}
		got.Release()
		if err := <-other; err != nil {
			t.Errorf("%s: another connection: %v", tc.about, err)
		}
	}
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if _, err := b.RecvFrames(short, Allocators{Spin: time.Hour}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a wait that nobody answers: %v", err)
	}
	if err := a.SendFrames(ctx, Bytes([]byte("still there"))); err != nil {
		t.Fatal(err)
	}
	got, err := b.RecvFrames(ctx, Allocators{Spin: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	got.Release()
}
