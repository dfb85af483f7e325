package client_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/internal/rpc"
)

var flaky atomic.Int32

var tries = client.Func0("tries", func(context.Context) (int, error) {
	if flaky.Add(-1) >= 0 {
		return 0, errors.New("not yet")
	}
	return 7, nil
})

type counter struct{ n int }

var (
	counterType = client.NewActorType("counter", func(_ context.Context, n int) (*counter, error) {
		return &counter{n}, nil
	})
	countUp = client.NewMethod(counterType, "up", func(_ context.Context, c *counter, by int) (int, error) {
		if by < 0 {
			return 0, errors.New("down is not up")
		}
		c.n += by
		return c.n, nil
	})
)

func TestActor(t *testing.T) {
	eachTransport(t, 2, func(t *testing.T, r *rig) {
		a := counterType.Start(r.ctx, r.c, client.Val(40))
		defer a.Release()
		for want := 41; want <= 45; want++ {
			if v := must[int](t)(countUp.Call(r.ctx, a, 1)); v != want {
				t.Fatalf("got %d, want %d", v, want)
			}
		}
		_, err := countUp.Call(r.ctx, a, -1)
		var te *client.TaskError
		if !errors.As(err, &te) || te.Text != "down is not up" {
			t.Errorf("error of a method: got %v, want a TaskError with its text", err)
		}
		b := client.ActorOf[*counter](r.connect(), a.Key())
		if v := must[int](t)(countUp.Call(r.ctx, b, 5)); v != 50 {
			t.Errorf("from another client: got %d, want 50", v)
		}
	})
}

func TestVariable(t *testing.T) {
	r := newRig(t, "inproc://", 1)
	v := client.NewVariable[reading](r.c, "v")
	ctx, cancel := context.WithTimeout(r.ctx, 50*time.Millisecond)
	if _, err := v.Get(ctx); err == nil {
		t.Error("a variable that is not set has a value")
	}
	cancel()
	want := reading{"s", []float64{1.5}, time.Unix(5, 7).UTC(), map[string]int{"k": 2}}
	if err := v.Set(r.ctx, want); err != nil {
		t.Fatal(err)
	}
	other := client.NewVariable[reading](r.connect(), "v")
	if got := must[reading](t)(other.Get(r.ctx)); got.Sensor != "s" || !got.At.Equal(want.At) || got.Parts["k"] != 2 ||
		!slices.Equal(got.Values, want.Values) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	f := measure.Submit(r.ctx, r.c, client.Val("m"))
	if err := v.SetFuture(r.ctx, f); err != nil {
		t.Fatal(err)
	}
	f.Release()
	if got := must[reading](t)(other.Get(r.ctx)); got.Sensor != "m" {
		t.Errorf("variable with a future: got %+v, want that of sensor m", got)
	}
	g := must[*client.Future[reading]](t)(other.GetFuture(r.ctx))
	if got := must[reading](t)(g.Result(r.ctx)); got.Sensor != "m" {
		t.Errorf("future of the variable: got %+v, want that of sensor m", got)
	}
	if err := v.Delete(); err != nil {
		t.Error(err)
	}
}

func TestQueue(t *testing.T) {
	r := newRig(t, "inproc://", 1)
	q := must[*client.Queue[int]](t)(client.NewQueue[int](r.ctx, r.c, "q", 0))
	defer q.Close()
	other := must[*client.Queue[int]](t)(client.NewQueue[int](r.ctx, r.connect(), "q", 0))
	defer other.Close()
	for i := range 3 {
		if err := q.Put(r.ctx, i); err != nil {
			t.Fatal(err)
		}
	}
	if n := must[int](t)(q.Len(r.ctx)); n != 3 {
		t.Errorf("%d in the queue", n)
	}
	if v := must[int](t)(other.Get(r.ctx)); v != 0 {
		t.Errorf("got %d, want 0", v)
	}
	if v := must[[]int](t)(other.GetAll(r.ctx)); !slices.Equal(v, []int{1, 2}) {
		t.Errorf("got %v, want [1 2]", v)
	}
	f := inc.Submit(r.ctx, r.c, client.Val(1))
	if err := q.PutFuture(r.ctx, f); err != nil {
		t.Fatal(err)
	}
	f.Release()
	if v := must[int](t)(other.Get(r.ctx)); v != 2 {
		t.Errorf("of a future: got %d, want 2", v)
	}
	got := make(chan int, 1)
	go func() {
		v, _ := other.Get(r.ctx)
		got <- v
	}()
	if err := q.Put(r.ctx, 9); err != nil {
		t.Fatal(err)
	}
	if v := <-got; v != 9 {
		t.Errorf("waited for: got %d, want 9", v)
	}
}

func TestLocks(t *testing.T) {
	r := newRig(t, "inproc://", 0)
	a, b := client.NewLock(r.c, "l"), client.NewLock(r.connect(), "l")
	if err := a.Lock(r.ctx); err != nil {
		t.Fatal(err)
	}
	if ok := must[bool](t)(b.TryLock(r.ctx)); ok {
		t.Error("TryLock of a held lock: got true, want false")
	}
	if held := must[bool](t)(b.Locked(r.ctx)); !held {
		t.Error("Locked: got false, want true")
	}
	ctx, cancel := context.WithTimeout(r.ctx, 50*time.Millisecond)
	if err := b.Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a lock that is held: got %v, want DeadlineExceeded", err)
	}
	cancel()
	if err := a.Unlock(r.ctx); err != nil {
		t.Fatal(err)
	}
	if err := a.Unlock(r.ctx); !errors.Is(err, client.ErrNotHeld) {
		t.Errorf("unlocked twice: got %v, want ErrNotHeld", err)
	}
	if err := b.Lock(r.ctx); err != nil {
		t.Fatal(err)
	}
	if err := b.Unlock(r.ctx); err != nil {
		t.Fatal(err)
	}
	s := client.NewSemaphore(r.c, "s", 2)
	for range 2 {
		if err := s.Acquire(r.ctx); err != nil {
			t.Fatal(err)
		}
	}
	if n := must[int](t)(s.Value(r.ctx)); n != 2 {
		t.Errorf("%d hold it", n)
	}
	for range 2 {
		if err := s.Release(r.ctx); err != nil {
			t.Fatal(err)
		}
	}
	m := client.NewMultiLock(r.c, "x", "y")
	if err := m.Lock(r.ctx); err != nil {
		t.Fatal(err)
	}
	ctx, cancel = context.WithTimeout(r.ctx, 50*time.Millisecond)
	defer cancel()
	if err := client.NewMultiLock(r.c, "y", "z").Lock(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a lock that is held: got %v, want DeadlineExceeded", err)
	}
	if err := m.Unlock(r.ctx); err != nil {
		t.Fatal(err)
	}
}

func TestFlag(t *testing.T) {
	r := newRig(t, "inproc://", 0)
	e, other := client.NewFlag(r.c, "e"), client.NewFlag(r.connect(), "e")
	if set := must[bool](t)(other.IsSet(r.ctx)); set {
		t.Error("set at first")
	}
	done := make(chan error, 1)
	go func() { done <- other.Wait(r.ctx) }()
	if err := e.Set(r.ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
	if err := e.Clear(r.ctx); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(r.ctx, 50*time.Millisecond)
	defer cancel()
	if err := other.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cleared: got %v, want DeadlineExceeded", err)
	}
}

// A scheduler replies slightly before the context ends that a wait has timed out: this ends the wait as well.
func TestWaitsGivenUp(t *testing.T) {
	f := newFakeDask(t, "2026.7.1", func(s *rpc.Server) {
		for _, op := range []string{"event_wait", "semaphore_acquire", "multi_lock_acquire"} {
			s.Handle(op, func(context.Context, *rpc.Request) (any, error) { return false, nil })
		}
		s.Handle("semaphore_register", func(context.Context, *rpc.Request) (any, error) { return nil, nil })
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := must[*client.Client](t)(client.Connect(ctx, f.address, client.Config{Logger: quiet}))
	defer c.Close()
	for name, err := range map[string]error{
		"Flag.Wait":         client.NewFlag(c, "f").Wait(ctx),
		"Semaphore.Acquire": client.NewSemaphore(c, "s", 1).Acquire(ctx),
		"Lock.Lock":         client.NewLock(c, "l").Lock(ctx),
		"MultiLock.Lock":    client.NewMultiLock(c, "a", "b").Lock(ctx),
	} {
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
			t.Errorf("%s: got %v, want %v before the context ends", name, err, context.DeadlineExceeded)
		}
	}
	if ok, err := client.NewLock(c, "l").TryLock(ctx); ok || err != nil {
		t.Errorf("TryLock: got %v, %v, want false", ok, err)
	}
}

func TestPublish(t *testing.T) {
	r := newRig(t, "inproc://", 1)
	c := r.connect()
	fs := inc.Map(r.ctx, c, []int{1, 2})
	if err := client.Publish(r.ctx, c, "set", fs, false); err != nil {
		t.Fatal(err)
	}
	if err := client.Publish(r.ctx, c, "set", fs, false); err == nil {
		t.Error("Publish of an existing name: got nil, want an error")
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	got := must[[]*client.Future[int]](t)(client.Published[int](r.ctx, r.c, "set"))
	if v := must[[]int](t)(client.Gather(r.ctx, got)); !slices.Equal(v, []int{2, 3}) {
		t.Errorf("got %v, want [2 3]", v)
	}
	if names := must[[]string](t)(r.c.Datasets(r.ctx)); !slices.Equal(names, []string{"set"}) {
		t.Errorf("datasets: got %v, want [set]", names)
	}
	if err := r.c.Unpublish(r.ctx, "set"); err != nil {
		t.Fatal(err)
	}
	if _, err := client.Published[int](r.ctx, r.c, "set"); err == nil {
		t.Error("unpublished dataset still exists")
	}
}
