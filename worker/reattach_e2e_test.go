package worker_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/scheduler"
	"go.millstream.dev/worker"
)

// ran counts the runs of tally by its argument. Workers of these tests are in this process.
var ran = struct {
	sync.Mutex
	times map[int]int
}{times: map[int]int{}}

var restarts atomic.Int64

func timesRan(x int) int {
	ran.Lock()
	defer ran.Unlock()
	return ran.times[x]
}

var (
	// tally waits at the gate of its name if its argument is at least from.
	tally = client.Func3("worker_test.tally", func(ctx context.Context, x, from int, name string) (int, error) {
		ran.Lock()
		ran.times[x]++
		ran.Unlock()
		if x >= from {
			select {
			case <-gates(name):
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
		return x * x, nil
	})
	total = client.Func2("worker_test.total", func(_ context.Context, x, y int) (int, error) { return x + y, nil })
)

// A scheduler with a journal closes in the middle of a graph and is restarted: the workers reattach with all their
// results, which are not computed again, and the graph continues. The second half of the graph is known to the
// scheduler, or in flight when it closes.
func TestSchedulerRestarts(t *testing.T) {
	t.Run("known", func(t *testing.T) { restartScheduler(t, true) })
	t.Run("in flight", func(t *testing.T) { restartScheduler(t, false) })
}

func restartScheduler(t *testing.T, known bool) {
	ctx := testContext(t)
	dir := t.TempDir()
	begin := func(listen string) *scheduler.Scheduler {
		s, err := scheduler.Start(ctx, scheduler.Config{Listen: []string{listen}, Journal: dir, Validate: true,
			Logger: quiet()})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	end := func(s *scheduler.Scheduler) {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	s := begin("tcp://127.0.0.1:0")
	address := s.Address()
	c := &cluster{scheduler: s}
	for range 2 {
		c.add(t, worker.Config{Threads: 4})
	}
	cl, err := client.Connect(ctx, address, client.Config{Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()

	// The last three leaves run until the gate opens, when the scheduler has been restarted.
	const n, done = 24, 21
	base := int(1000 * restarts.Add(1)) // unique for this run of the test
	name := fmt.Sprint(t.Name(), base)
	var leaves, sums []*client.Future[int]
	for i := range n {
		if i == done && !known {
			if err := client.Wait(ctx, leaves); err != nil {
				t.Fatal(err)
			}
		}
		leaves = append(leaves, tally.Submit(ctx, cl, client.Val(base+i), client.Val(base+done), client.Val(name)))
	}
	for i := 0; i < n; i += 2 {
		sums = append(sums, total.Submit(ctx, cl, leaves[i], leaves[i+1]))
	}
	if known {
		// No worker is without a free thread. The scheduler receives the last submission last.
		if err := client.Wait(ctx, leaves[:done]); err != nil {
			t.Fatal(err)
		}
		if _, err := double.Submit(ctx, cl, client.Val(base)).Result(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for round := range 2 {
		end(s)
		s = begin(address)
		for deadline := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
			there, err := cl.Workers(ctx) // fails while the client has no scheduler
			if err == nil && len(there) == 2 {
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("round %d: got workers %v, %v, want both", round, there, err)
			}
		}
	}
	close(gates(name))
	defer func() { end(s) }()
	for i, f := range sums {
		x, y := base+2*i, base+2*i+1
		if v, err := f.Result(ctx); err != nil || v != x*x+y*y {
			t.Errorf("sum %d: got %d, %v", i, v, err)
		}
	}
	for i := range n {
		if times := timesRan(base + i); i < done && times != 1 || times == 0 {
			t.Errorf("task %d: got %d runs, status %v", i, times, leaves[i].Status())
		}
	}
}
