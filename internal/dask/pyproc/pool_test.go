package pyproc

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func newPool(t *testing.T, change func(*PoolConfig)) *Pool {
	cfg := PoolConfig{Config: echoConfig(t), Size: 2, NoSpare: true, SurgeAfter: time.Hour}
	if change != nil {
		change(&cfg)
	}
	l := NewPool(cfg)
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func acquire(t *testing.T, l *Pool, owner string) (*Process, func()) {
	t.Helper()
	p, release, err := l.Acquire(testContext(t), owner)
	if err != nil {
		t.Fatal(err)
	}
	return p, release
}

// A child serves one owner only, and is used again by it.
func TestPoolOwners(t *testing.T) {
	l := newPool(t, nil)
	a, release := acquire(t, l, "a")
	release()
	b, releaseB := acquire(t, l, "b")
	again, releaseA := acquire(t, l, "a")
	if again != a || b == a {
		t.Error("a child was not used again, or by another")
	}
	// All places are taken, one by a child in use: who comes waits for the other.
	got := make(chan *Process)
	go func() {
		p, release, err := l.Acquire(testContext(t), "c")
		if err != nil {
			t.Error(err)
			close(got)
			return
		}
		got <- p
		release()
	}()
	releaseB()
	c := <-got
	if c == a || c == b {
		t.Error("a child serves two owners")
	}
	<-b.Done()
	if a.Err() != nil {
		t.Error("a child in use was ended")
	}
	releaseA()
	if n := len(l.Current()); n != 2 {
		t.Errorf("%d children", n)
	}
}

// Requests that take for ever hold up neither their owner's others nor other owners; the children beyond Size go when
// they are free.
func TestPoolSurge(t *testing.T) {
	l := newPool(t, func(c *PoolConfig) { c.Size, c.Max, c.SurgeAfter = 2, 5, time.Millisecond })
	var held []func()
	for range 3 { // Max less Size
		_, release := acquire(t, l, "hostile")
		held = append(held, release)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := l.Acquire(ctx, "hostile"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a fourth of one owner: got %v, want it to wait", err)
	}
	_, releaseA := acquire(t, l, "a")
	_, releaseB := acquire(t, l, "b")
	if n := len(l.Current()); n != 5 {
		t.Errorf("%d children, want 5", n)
	}
	for _, release := range append(held, releaseA, releaseB) {
		release()
	}
	if n := len(l.Current()); n != 2 {
		t.Errorf("%d children when all are free, want 2", n)
	}
}

// Two of an owner's at once are two children; a child that has died is not given out.
func TestPoolDeath(t *testing.T) {
	l := newPool(t, nil)
	a, releaseA := acquire(t, l, "a")
	b, releaseB := acquire(t, l, "a")
	if a == b {
		t.Fatal("a child is used twice at once")
	}
	releaseB()
	if _, err := b.Call(testContext(t), "exit", 1, nil); !errors.Is(err, ErrExited) {
		t.Fatal(err)
	}
	<-b.Done()
	c, releaseC := acquire(t, l, "a")
	if c == b || c == a {
		t.Error("a child that is gone was given out")
	}
	if _, err := c.Call(testContext(t), "echo", 1, nil); err != nil {
		t.Error(err)
	}
	a.Kill(errors.New("enough"))
	<-a.Done()
	releaseA()
	releaseC()
	if n := len(l.Current()); n != 1 {
		t.Errorf("%d children", n)
	}
}

// A spare child is ready for the next owner; idle ones end.
func TestPoolSpareAndIdle(t *testing.T) {
	var setups atomic.Int64
	l := newPool(t, func(c *PoolConfig) {
		c.NoSpare, c.Idle, c.SpareAfter = false, time.Millisecond, time.Millisecond
		c.Setup = func(context.Context, *Process) error { setups.Add(1); return nil }
	})
	a, release := acquire(t, l, "a")
	for {
		list := l.Current()
		if len(list) == 2 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	release()
	<-a.Done()
	if n := setups.Load(); n != 2 {
		t.Errorf("%d children were set up", n)
	}
}

// Only a child that runs, belongs to the owner and has nothing to do is lent for work that can be done elsewhere.
func TestPoolAcquireIdle(t *testing.T) {
	l := newPool(t, nil)
	if p, _ := l.AcquireIdle("a"); p != nil {
		t.Error("there was a child before the first was started")
	}
	a, release := acquire(t, l, "a")
	if p, _ := l.AcquireIdle("a"); p != nil {
		t.Error("one in use was lent")
	}
	release()
	if p, _ := l.AcquireIdle("b"); p != nil {
		t.Error("one of another owner was lent")
	}
	p, release := l.AcquireIdle("a")
	if p != a {
		t.Fatal("an idle one was not lent")
	}
	if again, _ := l.AcquireIdle("a"); again != nil {
		t.Error("one was lent twice")
	}
	release()
	a.Kill(errors.New("killed by the test"))
	<-a.Done()
	if p, _ := l.AcquireIdle("a"); p != nil {
		t.Error("a dead one was lent")
	}
}

// Errors of a start, the end of a context and of the pool reach who waits.
func TestPoolErrors(t *testing.T) {
	bad := errors.New("not this one")
	l := newPool(t, func(c *PoolConfig) {
		c.Size = 1
		c.Setup = func(context.Context, *Process) error { return bad }
	})
	if _, _, err := l.Acquire(testContext(t), "a"); !errors.Is(err, bad) {
		t.Errorf("got %v", err)
	}
	l = newPool(t, func(c *PoolConfig) { c.Size = 1 })
	p, release := acquire(t, l, "a")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, _, err := l.Acquire(ctx, "b"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, _, err := l.Acquire(testContext(t), "b"); !errors.Is(err, ErrClosed) {
			t.Errorf("got %v", err)
		}
	})
	_ = l.Close()
	wg.Wait()
	<-p.Done()
	release()
	if _, _, err := l.Acquire(testContext(t), "a"); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// A spare child that is still starting serves whoever comes first; one who gives up leaves it
// to the next.
func TestPoolTakesTheComingSpare(t *testing.T) {
	l := NewPool(PoolConfig{Size: 1, Config: echoConfig(t)})
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	l.Spare()
	l.Spare() // there is one
	over, cancel := context.WithCancel(testContext(t))
	cancel()
	if _, _, err := l.Acquire(over, "hasty"); !errors.Is(err, context.Canceled) {
		t.Errorf("without time: %v", err)
	}
	p, release, err := l.Acquire(testContext(t), "first")
	if err != nil {
		t.Fatal(err)
	}
	if all := l.Current(); len(all) != 1 || all[0] != p {
		t.Errorf("%d children run, the spare one is used: %v", len(all), all)
	}
	if _, err := p.Call(testContext(t), "echo", nil, nil); err != nil {
		t.Error(err)
	}
	release()
	broken := NewPool(PoolConfig{Size: 1, Config: Config{Python: interpreter(t), Module: "millstream.nothing",
		Logger: echoConfig(t).Logger}})
	defer broken.Close()
	broken.Spare()
	if _, _, err := broken.Acquire(testContext(t), "first"); err == nil || !strings.Contains(err.Error(), "nothing") {
		t.Errorf("a child that cannot start: %v", err)
	}
}
