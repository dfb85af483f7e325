package client_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/scheduler"
	"go.millstream.dev/worker"
)

// restartable starts a scheduler with a journal on tcp.
func restartable(t *testing.T, ctx context.Context, dir, address string) *scheduler.Scheduler {
	t.Helper()
	s, err := scheduler.Start(ctx, scheduler.Config{Listen: []string{address}, Journal: dir, Logger: quiet,
		Validate: true})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeScheduler(t *testing.T, s *scheduler.Scheduler) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("close the scheduler: %v", err)
	}
}

func TestSchedulerComesBack(t *testing.T) {
	leak.Check(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir := t.TempDir()
	s := restartable(t, ctx, dir, "tcp://127.0.0.1:0")
	address := s.Address()
	w, err := worker.Start(ctx, worker.Config{Scheduler: address, Name: "w", Threads: 2, Logger: quiet,
		LocalDirectory: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	c, err := client.Connect(ctx, address, client.Config{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()

	before := inc.Map(ctx, c, []int{1, 2, 3})
	if err := client.Wait(ctx, before); err != nil {
		t.Fatal(err)
	}
	naps := nap.Map(ctx, c, []time.Duration{300 * time.Millisecond, 301 * time.Millisecond, 302 * time.Millisecond,
		303 * time.Millisecond})
	closeScheduler(t, s)
	during := inc.Submit(ctx, c, before[2]) // without a scheduler
	s = restartable(t, ctx, dir, address)
	defer func() { closeScheduler(t, s) }()

	if v := must[int](t)(during.Result(ctx)); v != 5 {
		t.Errorf("submitted meanwhile: got %d, want 5", v)
	}
	if v := must[[]bool](t)(client.Gather(ctx, naps)); !slices.Equal(v, []bool{true, true, true, true}) {
		t.Errorf("tasks that ran meanwhile: got %v, want [true true true true]", v)
	}
	if v := must[[]int](t)(client.Gather(ctx, before)); !slices.Equal(v, []int{2, 3, 4}) {
		t.Errorf("results from before: got %v, want [2 3 4]", v)
	}
	if v := must[int](t)(inc.Submit(ctx, c, client.Val(10)).Result(ctx)); v != 11 {
		t.Errorf("a new task: got %d, want 11", v)
	}
}

func TestSchedulerStaysAway(t *testing.T) {
	leak.Check(t)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	s := restartable(t, ctx, t.TempDir(), "tcp://127.0.0.1:0")
	c, err := client.Connect(ctx, s.Address(), client.Config{Logger: quiet, Reconnect: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	f := inc.Submit(ctx, c, client.Val(1))
	closeScheduler(t, s)
	if _, err := f.Result(ctx); !errors.Is(err, client.ErrClosed) {
		t.Errorf("the result: got %v, want ErrClosed", err)
	}
	<-c.Done()
	if err := c.Err(); !errors.Is(err, client.ErrClosed) {
		t.Errorf("the client: got %v, want ErrClosed", err)
	}
	if _, err := inc.Submit(ctx, c, client.Val(2)).Result(ctx); !errors.Is(err, client.ErrClosed) {
		t.Errorf("a new task: got %v, want ErrClosed", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func TestConnectMistakes(t *testing.T) {
	leak.Check(t)
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	for _, address := range []string{"tcp://127.0.0.1:1", "bogus://x", "tcp://no port here"} {
		if _, err := client.Connect(ctx, address, client.Config{Logger: quiet}); err == nil {
			t.Errorf("%s is a scheduler", address)
		}
	}
}
