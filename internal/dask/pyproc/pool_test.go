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

// A child serves one owner only, and is reused by it.
func TestPoolOwners(t *testing.T) {
	l := newPool(t, nil)
	a, release := acquire(t, l, "a")
	release()
	b, releaseB := acquire(t, l, "b")
	again, releaseA := acquire(t, l, "a")
	if again != a || b == a {
		t.Error("got another child for the same owner, or the same for two")
	}
	// All places are taken, one by a child in use: the next owner waits for the other.
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

// Long requests block neither other requests of their owner nor other owners; the children beyond Size end when they
// are free.
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

// Two concurrent acquisitions of an owner get two children; a child that has ended is not returned.
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
		t.Error("a child that has ended was returned")
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

// AcquireIdle returns only a running, idle child of the owner.
func TestPoolAcquireIdle(t *testing.T) {
	l := newPool(t, nil)
	if p, _ := l.AcquireIdle("a"); p != nil {
		t.Error("AcquireIdle before the first start: got a child, want nil")
	}
	a, release := acquire(t, l, "a")
	if p, _ := l.AcquireIdle("a"); p != nil {
		t.Error("AcquireIdle of a child in use: got one, want nil")
	}
	release()
	if p, _ := l.AcquireIdle("b"); p != nil {
		t.Error("AcquireIdle of another owner: got a child, want nil")
	}
	p, release := l.AcquireIdle("a")
	if p != a {
		t.Fatal("AcquireIdle of an idle child: got nil")
	}
	if again, _ := l.AcquireIdle("a"); again != nil {
		t.Error("AcquireIdle twice: got a child, want nil")
	}
	release()
	a.Kill(errors.New("killed by the test"))
	<-a.Done()
	if p, _ := l.AcquireIdle("a"); p != nil {
		t.Error("AcquireIdle after the child has ended: got a child, want nil")
	}
}

// Errors of a start, and the end of a context and of the pool, are returned to waiting callers.
func TestPoolErrors(t *testing.T) {
	bad := errors.New("not this one")
	l := newPool(t, func(c *PoolConfig) {
		c.Size = 1
		c.Setup = func(context.Context, *Process) error { return bad }
	})
	if _, _, err := l.Acquire(testContext(t), "a"); !errors.Is(err, bad) {
		t.Errorf("got %v, want %v", err, bad)
	}
	l = newPool(t, func(c *PoolConfig) { c.Size = 1 })
	p, release := acquire(t, l, "a")
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
	defer cancel()
	if _, _, err := l.Acquire(ctx, "b"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want DeadlineExceeded", err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, _, err := l.Acquire(testContext(t), "b"); !errors.Is(err, ErrClosed) {
			t.Errorf("got %v, want ErrClosed", err)
		}
	})
	_ = l.Close()
	wg.Wait()
	<-p.Done()
	release()
	if _, _, err := l.Acquire(testContext(t), "a"); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

// A spare child that is still starting serves the first owner that needs it; an owner that stops waiting leaves it to
// the next.
func TestPoolTakesTheComingSpare(t *testing.T) {
	l := NewPool(PoolConfig{Size: 1, Config: echoConfig(t)})
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	l.Spare()
	l.Spare() // no effect: there is one
	over, cancel := context.WithCancel(testContext(t))
	cancel()
	if _, _, err := l.Acquire(over, "hasty"); !errors.Is(err, context.Canceled) {
		t.Errorf("without time: got %v, want Canceled", err)
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
		t.Errorf("child that cannot start: got %v, want an error about the module", err)
	}
}
