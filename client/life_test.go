package client_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/scheduler"
	"go.millstream.dev/worker"
)

// eventually waits until f returns true.
func eventually(t *testing.T, what string, f func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !f(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not after 20 s", what)
		}
	}
}

// held returns the number of results on the workers.
func (r *rig) held() int {
	all := make(map[task.Key]bool) // some are on both workers
	for _, keys := range must[map[string][]task.Key](r.t)(r.c.HasWhat(r.ctx)) {
		for _, k := range keys {
			all[k] = true
		}
	}
	return len(all)
}

func TestReleases(t *testing.T) {
	r := newRig(t, "inproc://", 2)
	futures := inc.Map(r.ctx, r.c, []int{1, 2, 3})
	one := add.Submit(r.ctx, r.c, futures[0], futures[1])
	same := add.Submit(r.ctx, r.c, futures[0], futures[1])
	if err := one.Wait(r.ctx); err != nil {
		t.Fatal(err)
	}
	if err := client.Wait(r.ctx, futures); err != nil {
		t.Fatal(err)
	}
	if n := r.held(); n != 4 {
		t.Fatalf("%d results are held, want 4", n)
	}
	one.Release()
	if v := must[int](t)(same.Result(r.ctx)); v != 5 {
		t.Errorf("another future of the same task: got %d, want 5", v)
	}
	same.Release()
	futures[2].Release()
	eventually(t, "two results left", func() bool { return r.held() == 2 })
	client.ReleaseAll(futures)
	eventually(t, "no result left", func() bool { return r.held() == 0 })

	// The garbage collector releases futures that are no longer referenced.
	func() {
		fs := inc.Map(r.ctx, r.c, []int{7, 8, 9})
		f := inc.Submit(r.ctx, r.c, client.Val(10))
		if err := errors.Join(client.Wait(r.ctx, fs), f.Wait(r.ctx)); err != nil {
			t.Error(err)
		}
	}()
	eventually(t, "the collector's turn", func() bool {
		runtime.GC()
		return r.held() == 0
	})
}

func TestGatherAll(t *testing.T) {
	r := newRig(t, "inproc://", 1)
	ok := inc.Submit(r.ctx, r.c, client.Val(1))
	bad := fail.Submit(r.ctx, r.c, client.Val("no"))
	never := inc.Submit(r.ctx, r.c, nil)
	out := must[[]client.Outcome[int]](t)(client.GatherAll(r.ctx, []*client.Future[int]{bad, ok, never}))
	if out[0].Err == nil || out[1].Err != nil || out[1].Value != 2 || out[2].Err == nil {
		t.Errorf("got %+v, want an error, 2 and an error", out)
	}
	if _, err := client.Gather(r.ctx, []*client.Future[int]{ok, bad}); err == nil {
		t.Error("Gather hides an error")
	}
	if out := must[[]int](t)(client.Gather[int](r.ctx, nil)); len(out) != 0 {
		t.Errorf("Gather without futures: got %v, want none", out)
	}
	long := nap.Submit(r.ctx, r.c, client.Val(time.Hour))
	ctx, cancel := context.WithTimeout(r.ctx, 20*time.Millisecond)
	defer cancel()
	if _, err := long.Result(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a result that takes too long: got %v, want DeadlineExceeded", err)
	}
	if _, err := client.GatherAll(ctx, []*client.Future[bool]{long}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("results that take too long: got %v, want DeadlineExceeded", err)
	}
	if s := long.Status(); s != client.Pending || long.IsDone() || long.Err() != nil {
		t.Errorf("status: got %v, want pending", s)
	}
}

func TestLostData(t *testing.T) {
	r := newRig(t, "tcp://127.0.0.1:0", 1)
	gone := r.addWorker(worker.Config{Name: "gone"})
	f := must[[]*client.Future[string]](t)(client.Scatter(r.ctx, r.c, []string{"precious"},
		client.ScatterOptions{Workers: []string{gone.Address()}}))
	g := inc.Submit(r.ctx, r.c, client.Val(5), client.WithWorkers("gone"), client.WithOtherWorkers())
	if err := g.Wait(r.ctx); err != nil {
		t.Fatal(err)
	}
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f[0].Result(r.ctx); !errors.Is(err, client.ErrLostData) && !errors.Is(err, client.ErrCanceled) {
		t.Errorf("scattered data of a lost worker: got %v, want ErrLostData or ErrCanceled", err)
	}
	if v := must[int](t)(g.Result(r.ctx)); v != 6 {
		t.Errorf("a result that can be computed again: got %d, want 6", v)
	}
}

func TestMovedData(t *testing.T) {
	r := newRig(t, "tcp://127.0.0.1:0", 2)
	f := inc.Submit(r.ctx, r.c, client.Val(5), client.WithWorkers("w0"))
	if v := must[int](t)(f.Result(r.ctx)); v != 6 {
		t.Fatalf("got %d, want 6", v)
	}
	ctx, cancel := context.WithTimeout(r.ctx, 20*time.Second)
	defer cancel()
	if err := r.workers[0].Retire(ctx); err != nil { // its data moves to the other worker
		t.Fatal(err)
	}
	if v := must[int](t)(f.Result(r.ctx)); v != 6 {
		t.Errorf("after it has moved: got %d, want 6", v)
	}
}

func TestEvents(t *testing.T) {
	r := newRig(t, "inproc://", 0)
	got := make(chan client.Event, 10)
	stop := r.c.Subscribe("news", func(e client.Event) { got <- e })
	other := r.connect()
	eventually(t, "an event", func() bool {
		if err := other.LogEvent(r.ctx, "news", map[string]int{"n": 1}); err != nil {
			t.Fatal(err)
		}
		select {
		case e := <-got:
			n, err := task.FromPlain[map[string]int](e.Value)
			return err == nil && e.Topic == "news" && n["n"] == 1 && e.Time > 0
		case <-time.After(10 * time.Millisecond):
			return false
		}
	})
	stop()
}

func TestRestart(t *testing.T) {
	r := newRig(t, "inproc://", 1)
	f := inc.Submit(r.ctx, r.c, client.Val(1))
	if err := f.Wait(r.ctx); err != nil {
		t.Fatal(err)
	}
	// Workers without a nanny are not restarted, and the scheduler reports that.
	_ = r.c.Restart(r.ctx, 200*time.Millisecond)
	eventually(t, "the future is canceled", func() bool { return f.Status() == client.Canceled })
}

func TestTree(t *testing.T) {
	r := newRigWith(t, "tcp://127.0.0.1:0", 2, scheduler.Config{})
	const leaves = 1 << 10
	level := make([]*client.Future[int], leaves)
	for i := range level {
		level[i] = inc.Submit(r.ctx, r.c, client.Val(i))
	}
	for len(level) > 1 {
		next := make([]*client.Future[int], len(level)/2)
		for i := range next {
			next[i] = add.Submit(r.ctx, r.c, level[2*i], level[2*i+1])
		}
		level = next
	}
	if v := must[int](t)(level[0].Result(r.ctx)); v != leaves*(leaves+1)/2 {
		t.Errorf("got %d, want %d", v, leaves*(leaves+1)/2)
	}
}

func TestWaitForWorkers(t *testing.T) {
	r := newRig(t, "inproc://", 0)
	ctx, cancel := context.WithTimeout(r.ctx, 20*time.Millisecond)
	defer cancel()
	if err := r.c.WaitForWorkers(ctx, 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("no workers: got %v, want DeadlineExceeded", err)
	}
	f := inc.Submit(r.ctx, r.c, client.Val(1)) // waits for a worker
	r.addWorker(worker.Config{})
	if err := r.c.WaitForWorkers(r.ctx, 1); err != nil {
		t.Fatal(err)
	}
	if v := must[int](t)(f.Result(r.ctx)); v != 2 {
		t.Errorf("got %d, want 2", v)
	}
}

func TestMapMistakes(t *testing.T) {
	r := newRig(t, "inproc://", 1)
	fs := labels.Map(r.ctx, r.c, []any{1, make(chan int), "x"})
	out := must[[]client.Outcome[string]](t)(client.GatherAll(r.ctx, fs))
	if out[0].Value != "1" || out[1].Err == nil || out[2].Value != "x" {
		t.Errorf("got %+v, want 1, an error and x", out)
	}
	named := inc.Map(r.ctx, r.c, []int{1, 2}, client.WithKey("mine"))
	if named[1].Key() != task.NewKey("mine-1") {
		t.Errorf("key %s", named[1].Key())
	}
	pairs := add.Map(r.ctx, r.c, []int{1, 2, 3}, []int{10, 20})
	if v := must[[]int](t)(client.Gather(r.ctx, pairs)); !slices.Equal(v, []int{11, 22}) {
		t.Errorf("pairs: got %v, want [11 22]", v)
	}
	again := inc.MapArgs(r.ctx, r.c, client.Args(pairs))
	if v := must[[]int](t)(client.Gather(r.ctx, again)); !slices.Equal(v, []int{12, 23}) {
		t.Errorf("of futures: got %v, want [12 23]", v)
	}
	ctx, cancel := context.WithCancel(r.ctx)
	cancel()
	if _, err := client.Gather(r.ctx, inc.Map(ctx, r.c, []int{1})); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: got %v, want Canceled", err)
	}
}

var labels = client.Func("labels", func(_ context.Context, v any) (string, error) { return fmt.Sprint(v), nil })
