package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.millstream.dev/client"
	"go.millstream.dev/scheduler"
	"go.millstream.dev/worker"
)

var (
	double = client.Func("worker_test.double", func(_ context.Context, x int) (int, error) { return 2 * x, nil })
	plus   = client.Func2("worker_test.plus", func(_ context.Context, x, y int) (int, error) { return x + y, nil })
	text   = client.Func("worker_test.text", func(_ context.Context, n int) (string, error) {
		return strings.Repeat("x", n), nil
	})
	size   = client.Func("worker_test.size", func(_ context.Context, s string) (int, error) { return len(s), nil })
	breaks = client.Func("worker_test.breaks", func(_ context.Context, x int) (int, error) {
		return 0, fmt.Errorf("no %d", x)
	})
)

// cluster is a real scheduler with real workers and a real client.
type cluster struct {
	scheduler *scheduler.Scheduler
	workers   []*worker.Worker
	client    *client.Client
}

func start(t *testing.T, listen string, workers int, cfg worker.Config) *cluster {
	t.Helper()
	ctx := testContext(t)
	s, err := scheduler.Start(ctx, scheduler.Config{Listen: []string{listen}, Validate: true, Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	c := &cluster{scheduler: s}
	for range workers {
		c.add(t, cfg)
	}
	if c.client, err = client.Connect(ctx, s.Address(), client.Config{Logger: quiet()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.client.Close() })
	return c
}

func (c *cluster) add(t *testing.T, cfg worker.Config) *worker.Worker {
	t.Helper()
	cfg.Scheduler, cfg.Logger, cfg.Validate, cfg.LocalDirectory = c.scheduler.Address(), quiet(), true, t.TempDir()
	if cfg.Threads == 0 {
		cfg.Threads = 2
	}
	w, err := worker.Start(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	c.workers = append(c.workers, w)
	return w
}

func both(t *testing.T, f func(t *testing.T, listen string)) {
	for _, listen := range []string{"inproc://", "tcp://127.0.0.1:0"} {
		t.Run(listen[:strings.Index(listen, ":")], func(t *testing.T) { f(t, listen) })
	}
}

func TestClusterSubmit(t *testing.T) {
	both(t, func(t *testing.T, listen string) {
		c := start(t, listen, 2, worker.Config{})
		ctx := testContext(t)
		a := double.Submit(ctx, c.client, client.Val(20))
		b := plus.Submit(ctx, c.client, a, client.Val(2))
		if v, err := b.Result(ctx); v != 42 || err != nil {
			t.Fatalf("got %v, %v", v, err)
		}
		xs := make([]int, 200)
		for i := range xs {
			xs[i] = i
		}
		all, err := client.Gather(ctx, double.Map(ctx, c.client, xs))
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range all {
			if v != 2*i {
				t.Fatalf("%d: got %d", i, v)
			}
		}
		if _, err := breaks.Submit(ctx, c.client, client.Val(7)).Result(ctx); err == nil ||
			!strings.Contains(err.Error(), "no 7") {
			t.Errorf("got %v", err)
		}
	})
}

// Data moves between workers, and a retiring worker moves its data to the others.
func TestClusterRetire(t *testing.T) {
	both(t, func(t *testing.T, listen string) {
		c := start(t, listen, 2, worker.Config{Threads: 1})
		ctx := testContext(t)
		ns := make([]int, 40)
		for i := range ns {
			ns[i] = 1000 + i
		}
		texts := text.Map(ctx, c.client, ns)
		if err := client.Wait(ctx, texts); err != nil {
			t.Fatal(err)
		}
		w := c.workers[0]
		if err := w.Retire(ctx); err != nil {
			t.Fatal(err)
		}
		<-w.Done()
		if !errors.Is(w.Err(), worker.ErrClosed) && !errors.Is(w.Err(), worker.ErrSchedulerClosed) {
			t.Errorf("reason of the end: got %v, want ErrClosed", w.Err())
		}
		ran := len(c.workers[1].Timelines())
		got, err := client.Gather(ctx, texts)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range got {
			if len(s) != ns[i] {
				t.Errorf("text %d: got %d bytes", i, len(s))
			}
		}
		if now := len(c.workers[1].Timelines()); now != ran {
			t.Errorf("got %d tasks computed again, want 0", now-ran)
		}
	})
}

// The results of a lost worker are computed again.
func TestClusterWorkerLost(t *testing.T) {
	c := start(t, "tcp://127.0.0.1:0", 3, worker.Config{Threads: 1})
	ctx := testContext(t)
	ns := make([]int, 60)
	for i := range ns {
		ns[i] = i
	}
	texts := text.Map(ctx, c.client, ns)
	if err := client.Wait(ctx, texts); err != nil {
		t.Fatal(err)
	}
	if err := c.workers[1].Close(); err != nil {
		t.Fatal(err)
	}
	for i, f := range texts {
		v, err := size.Submit(ctx, c.client, f).Result(ctx)
		if err != nil || v != ns[i] {
			t.Fatalf("%d: got %v, %v", i, v, err)
		}
	}
}

// nested submits tasks from within a task and waits for them: with one thread that works only because the task secedes
// meanwhile.
var nested = client.Func("worker_test.nested", func(ctx context.Context, n int) (int, error) {
	sum := 0
	err := client.Inside(ctx, func(c *client.Client) error {
		xs := make([]int, n)
		for i := range xs {
			xs[i] = i
		}
		all, err := client.Gather(ctx, double.Map(ctx, c, xs))
		for _, v := range all {
			sum += v
		}
		return err
	})
	return sum, err
})

func TestClusterNested(t *testing.T) {
	both(t, func(t *testing.T, listen string) {
		c := start(t, listen, 1, worker.Config{Threads: 1})
		ctx := testContext(t)
		if v, err := nested.Submit(ctx, c.client, client.Val(10)).Result(ctx); v != 90 || err != nil {
			t.Errorf("got %v, %v", v, err)
		}
		// The thread is free again.
		if v, err := double.Submit(ctx, c.client, client.Val(4)).Result(ctx); v != 8 || err != nil {
			t.Errorf("got %v, %v", v, err)
		}
	})
}

// Data is moved between Go workers over a data connection, in a whole cluster.
func TestClusterDataConnection(t *testing.T) {
	c := start(t, "tcp://127.0.0.1:0", 2, worker.Config{Threads: 1,
		DataConnections: worker.DataConnections{Listen: "inproc://"}})
	ctx := testContext(t)
	texts := text.Map(ctx, c.client, []int{1_000_000, 2_000_000, 3_000_000, 4_000_000})
	want := 0
	for i, f := range texts {
		for j, w := range c.workers { // on each worker, so that one of two fetches
			n, err := size.Submit(ctx, c.client, f, client.WithWorkers(w.Address()), client.WithImpure()).Result(ctx)
			if err != nil || n != (i+1)*1_000_000 {
				t.Fatalf("%d on %d: %v, %v", i, j, n, err)
			}
		}
		want++
	}
	moved := 0
	for _, w := range c.workers {
		for _, x := range w.Transfers() {
			if x.Incoming && x.Scheme == "inproc" && x.Error == "" {
				moved++
			}
		}
	}
	if moved < want {
		t.Errorf("got %d transfers over the data connection, want %d", moved, want)
	}
}
