package tracker

import (
	"context"
	"errors"
	"slices"
	"testing"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/wire"
)

func TestWaiters(t *testing.T) {
	c := offline(t)
	a, b := c.keys.Get(task.NewKey("a")), c.keys.Get(task.NewKey("b"))
	w := &waiter{failFast: true}
	w.register([]*State{a, b, a})
	a.end(Finished, nil)
	select {
	case <-w.ch:
		t.Fatal("b has not ended")
	default:
	}
	b.end(Failed, errors.New("x"))
	<-w.ch
	if w.failed != b {
		t.Error("failure of the wait not recorded")
	}
	b.status = Pending
	gone := &waiter{}
	gone.register([]*State{b})
	gone.unregister([]*State{b})
	if b.waiters != nil {
		t.Error("abandoned wait still registered")
	}
}

func TestWaitForSome(t *testing.T) {
	c := empty(t)
	a, b := submit(t, c, "a"), submit(t, c, "b")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := c.Wait(ctx, []*State{a, b}, false); err != context.Canceled {
		t.Errorf("a wait whose context ended: %v, want %v", err, context.Canceled)
	}
	if a.waiters != nil || b.waiters != nil {
		t.Error("abandoned wait still registered")
	}
	if err := c.Wait(ctx, nil, true); err != nil && err != context.Canceled {
		t.Errorf("a wait for nothing: %v", err)
	}
	no := errors.New("no")
	a.end(Failed, no)
	if err := c.Wait(context.Background(), []*State{b, a}, true); err != no {
		t.Errorf("a wait that the first failure ends: %v, want %v", err, no)
	}
	done := make(chan error, 1)
	go func() { done <- c.Wait(context.Background(), []*State{a, b}, false) }()
	c.mu.Lock()
	b.end(Finished, nil)
	c.mu.Unlock()
	if err := <-done; err != nil {
		t.Errorf("wait for all without failFast: got %v, want nil", err)
	}
}

func TestWatch(t *testing.T) {
	c := empty(t)
	keys := []*State{submit(t, c, "a"), submit(t, c, "b"), submit(t, c, "c"), submit(t, c, "d")}
	end := func(i int, s Status) {
		c.mu.Lock()
		defer c.mu.Unlock()
		keys[i].end(s, nil)
	}
	end(3, Finished)
	w := c.Watch(keys)
	<-w.News()
	end(1, Failed)
	<-w.News()
	end(2, Canceled)
	if got := w.Ended(0); !slices.Equal(got, []int32{3, 1, 2}) {
		t.Errorf("ended in the order %v, want 3, 1, 2", got)
	}
	if got := w.Ended(2); !slices.Equal(got, []int32{2}) {
		t.Errorf("ended after the second: %v, want 2", got)
	}
	if n, failed, canceled := w.Count(0); n != 3 || failed != 1 || canceled != 1 {
		t.Errorf("%d ended, %d failed, %d canceled, want 3, 1, 1", n, failed, canceled)
	}
	if n, failed, canceled := w.Count(2); n != 1 || failed != 0 || canceled != 1 {
		t.Errorf("after the second: %d ended, %d failed, %d canceled, want 1, 0, 1", n, failed, canceled)
	}
	w.Stop()
	if keys[0].waiters != nil {
		t.Error("stopped watch still registered")
	}
	end(0, Finished)
	if got := w.Ended(0); len(got) != 3 {
		t.Errorf("a stopped watch has %v, want three", got)
	}
}

// Two waits for one key both end, and the end of one does not remove the other.
func TestTwoWaits(t *testing.T) {
	c := empty(t)
	a := submit(t, c, "a")
	one, two := c.Watch([]*State{a}), c.Watch([]*State{a})
	one.Stop()
	receive(t, c, wire.NewDict("op", "key-in-memory", "key", "a", "workers", []any{"w"}))
	if got := two.Ended(0); len(got) != 1 {
		t.Errorf("the second wait has %v, want one key", got)
	}
	two.Stop()
}
