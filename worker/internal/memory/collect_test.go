package memory

import (
	"context"
	"testing"
	"time"

	"go.millstream.dev/internal/proc/rawmem"
	"go.millstream.dev/internal/task"
)

// Collections follow removed results of a size, one at a time, and not too often.
func TestCollector(t *testing.T) {
	begun, proceed := make(chan struct{}), make(chan struct{})
	c := &collector{collect: func() {
		begun <- struct{}{}
		<-proceed
	}}
	c.add(collectFrom - 1)
	c.mu.Lock()
	if c.pending {
		t.Errorf("a collection is pending after %d bytes, want none before %d", c.removed, collectFrom)
	}
	c.mu.Unlock()
	c.add(1)
	<-begun
	c.add(2 * collectFrom) // during the collection: counts for the next one
	proceed <- struct{}{}
	for {
		c.mu.Lock()
		pending, removed, next := c.pending, c.removed, c.next
		c.mu.Unlock()
		if pending {
			time.Sleep(time.Millisecond)
			continue
		}
		if removed != 2*collectFrom || next.IsZero() {
			t.Errorf("%d bytes are counted, next collection at %v; want %d bytes, and a time", removed, next,
				2*collectFrom)
		}
		break
	}
	c.add(1)
	<-begun
	proceed <- struct{}{}
}

// Deleted results count; a worker in the process of a user, or whose user set GOGC, collects nothing.
func TestOnFree(t *testing.T) {
	t.Setenv("GOGC", "")
	r := newRig(t, 1<<40, nil)
	key := task.NewKey("x")
	r.Store().Put(key, task.NewValue([]byte("abc")), 1000)
	r.Store().Delete(key)
	r.removed.mu.Lock()
	if r.removed.removed != 1000 {
		t.Errorf("%d bytes are counted, want 1000", r.removed.removed)
	}
	r.removed.mu.Unlock()
	if r := newRig(t, 1<<40, func(c *Config) { c.OwnProcess = false }); r.onFree() != nil {
		t.Error("results count in the process of a user")
	}
	t.Setenv("GOGC", "200")
	if r := newRig(t, 1<<40, nil); r.onFree() != nil {
		t.Error("results count although the user set GOGC")
	}
}

func TestBlockLimit(t *testing.T) {
	const limit = 1000
	for _, tc := range []struct {
		used, kept int64
		idle       time.Duration
		target     float64
		want       int64
	}{
		{0, 0, 0, 0.6, limit / keptPart},
		{500, 100, 0, 0.6, 100},
		{700, 100, 0, 0.6, 0},
		{0, 100, 2 * keptIdle, 0.6, 0},
		{0, 0, 2 * keptIdle, 0.6, limit / keptPart},
		{600, 0, 0, -1, 100}, // spilling starts at 0.7
	} {
		r := newRig(t, limit, func(c *Config) { c.Fractions.Target = tc.target })
		if got := r.blockLimit(tc.used, tc.kept, tc.idle); got != tc.want {
			t.Errorf("%+v: got %d", tc, got)
		}
	}
}

// Blocks are dropped before results are spilled.
func TestBlocksUnderPressure(t *testing.T) {
	t.Setenv("GOGC", "")
	r := newRig(t, 100<<20, nil)
	t.Cleanup(func() { rawmem.Keep(0) })
	r.check(context.Background())
	if b := rawmem.Alloc(1 << 20); len(b) != 1<<20 {
		t.Fatalf("got %d bytes", len(b))
	}
	if _, idle := rawmem.Kept(); idle > time.Hour {
		t.Errorf("idle for %v: blocks are not kept", idle)
	}
	r.used.Store(65 << 20)
	r.check(context.Background())
	if n := rawmem.Keep(0); n != 0 {
		t.Errorf("%d bytes were kept above the target, want 0", n)
	}
}
