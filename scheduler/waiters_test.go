package scheduler

import (
	"context"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// callOn sends a request on a new comm and does not wait for the reply.
func callOn(t testing.TB, s *Scheduler, op string, args ...any) comm.Comm {
	t.Helper()
	c, err := comm.Default.Dial(t.Context(), s.Address(), comm.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Abort)
	m, err := wire.Encode(append(msgpack.MapOf("op", op, "reply", true), msgpack.MapOf(args...)...),
		c.Info().EncodeOptions())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Write(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	return c
}

// answerOn reads the reply to callOn.
func answerOn(t testing.TB, c comm.Comm) any {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	m, err := c.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Release()
	v, err := wire.Decode(m, wire.DecodeOptions{Keep: true, KeepPickled: true})
	if err != nil {
		t.Fatal(err)
	}
	return wire.Clone(v)
}

// waitingIs waits until want requests wait.
func waitingIs(t testing.TB, s *Scheduler, want int64) {
	t.Helper()
	until(t, "the number of waiting requests is as wanted", func() bool { return s.server.Stats().Waiting == want })
}

// Clients that waited for items and disconnected have received none.
func TestQueueOfDeadWaiters(t *testing.T) {
	leak.Check(t)
	each(t, func(t *testing.T, listen string) {
		s := start(t, Config{Listen: []string{listen}})
		c := connect(t, s, "client")
		c.call("queue_create", "name", "q")
		var dead []comm.Comm
		for range 3 {
			dead = append(dead, callOn(t, s, "queue_get", "name", "q"))
		}
		dead = append(dead, callOn(t, s, "queue_get", "name", "q", "batch", 4))
		waitingIs(t, s, 4)
		for _, d := range dead {
			d.Abort()
		}
		waitingIs(t, s, 0)
		for i := range 5 {
			c.call("queue_put", "name", "q", "data", i)
		}
		if got := c.call("queue_qsize", "name", "q"); got != int64(5) {
			t.Fatalf("items in the queue: got %v, want 5", got)
		}
		for i := range 5 {
			if got, _ := c.call("queue_get", "name", "q").(msgpack.Map).Get("value"); got != int64(i) {
				t.Errorf("item %d: got %v", i, got)
			}
		}
	})
}

// Items that a batch had taken when its caller disconnected are put back, in order, also in the journal.
func TestQueueBatchOfDeadWaiter(t *testing.T) {
	leak.Check(t)
	dir := t.TempDir()
	s := journaled(t, dir)
	c := connect(t, s, "client")
	c.call("queue_create", "name", "q")
	dead := callOn(t, s, "queue_get", "name", "q", "batch", 4)
	waitingIs(t, s, 1)
	for i := range 3 {
		c.call("queue_put", "name", "q", "data", i)
	}
	until(t, "the batch has taken all items", func() bool { return c.call("queue_qsize", "name", "q") == int64(0) })
	dead.Abort()
	waitingIs(t, s, 0)
	until(t, "the items are back", func() bool { return c.call("queue_qsize", "name", "q") == int64(3) })
	c.call("queue_put", "name", "q", "data", 3)
	crash(t, s)
	s = journaled(t, dir)
	defer crash(t, s)
	c = connect(t, s, "client")
	for i := range 4 {
		if got, _ := c.call("queue_get", "name", "q", "timeout", 10).(msgpack.Map).Get("value"); got != int64(i) {
			t.Errorf("item %d after the restart: got %v", i, got)
		}
	}
}

// Items whose callers disconnect at the moment of delivery are delivered at most once.
func TestQueueOfDyingWaiters(t *testing.T) {
	leak.Check(t)
	s := start(t, Config{})
	c := connect(t, s, "client")
	c.call("queue_create", "name", "q")
	const n = 200
	var wg sync.WaitGroup
	var mu sync.Mutex
	got := map[int64]int{}
	for range n {
		d := callOn(t, s, "queue_get", "name", "q")
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
			defer cancel()
			if m, err := d.Read(ctx); err == nil {
				defer m.Release()
				v, err := wire.Decode(m, wire.DecodeOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				x, _ := v.(msgpack.Map).Get("value")
				mu.Lock()
				got[x.(int64)]++
				mu.Unlock()
			}
			_ = d.Close()
		})
	}
	for i := range n {
		c.call("queue_put", "name", "q", "data", i)
	}
	wg.Wait()
	waitingIs(t, s, 0)
	for {
		v, err := c.try("queue_get", "name", "q", "timeout", 0.05)
		if err != nil {
			break
		}
		x, _ := v.(msgpack.Map).Get("value")
		got[x.(int64)]++
	}
	for x, times := range got {
		if times > 1 {
			t.Errorf("item %d: delivered %d times, want at most 1", x, times)
		}
	}
}

// Locks are granted to connected waiters.
func TestLocksOfDeadWaiters(t *testing.T) {
	leak.Check(t)
	each(t, func(t *testing.T, listen string) {
		s := start(t, Config{Listen: []string{listen}})
		c := connect(t, s, "client")
		c.call("semaphore_register", "name", "lock", "max_leases", 1)
		c.call("semaphore_acquire", "name", "lock", "lease_id", "holder")
		c.call("multi_lock_acquire", "locks", names("a", "b"), "id", "holder", "num_locks", 2)
		var dead []comm.Comm
		for _, id := range []string{"dead-1", "dead-2", "dead-3"} {
			dead = append(dead, callOn(t, s, "multi_lock_acquire", "locks", names("a", "b"), "id", id, "num_locks", 2))
			dead = append(dead, callOn(t, s, "semaphore_acquire", "name", "lock", "lease_id", id))
		}
		waitingIs(t, s, 6)
		for _, d := range dead {
			d.Abort()
		}
		waitingIs(t, s, 0)
		multi := callOn(t, s, "multi_lock_acquire", "locks", names("a", "b"), "id", "alive", "num_locks", 2)
		lock := callOn(t, s, "semaphore_acquire", "name", "lock", "lease_id", "alive")
		waitingIs(t, s, 2)
		c.call("multi_lock_release", "id", "holder")
		c.call("semaphore_release", "name", "lock", "lease_id", "holder")
		for name, x := range map[string]comm.Comm{"MultiLock": multi, "Lock": lock} {
			if got := answerOn(t, x); got != true {
				t.Errorf("%s: the living waiter got %v, want true", name, got)
			}
		}
		if got := c.call("semaphore_value", "name", "lock"); got != int64(1) {
			t.Errorf("leases: got %v, want 1", got)
		}
	})
}

// openFiles counts the open files of the process.
func openFiles(t testing.TB) int {
	t.Helper()
	list, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

// More callers wait than handlers may run: others are served meanwhile, and all their resources are freed when they
// disconnect.
func TestManyWaiters(t *testing.T) {
	leak.Check(t)
	s := start(t, Config{})
	w := join(t, s, "a")
	c := connect(t, s, "client")
	goroutines, files := runtime.NumGoroutine(), openFiles(t)
	const n = 4100
	comms := make([]comm.Comm, n)
	var wg sync.WaitGroup
	for part := range 8 {
		wg.Go(func() {
			for i := part; i < n; i += 8 {
				comms[i] = callOn(t, s, []string{"event_wait", "variable_get"}[i%2], "name", "never")
			}
		})
	}
	wg.Wait()
	waitingIs(t, s, n)
	if got := c.call("identity").(msgpack.Map).GetString("type"); got != "Scheduler" {
		t.Errorf("identity: got type %q, want Scheduler", got)
	}
	w.call("heartbeat_worker", "address", w.address, "metrics", msgpack.Map{}, "executing", msgpack.Map{})
	c.submit([]node{{key: "x", spec: "x"}})
	c.expectKey("key-in-memory", "x")
	for _, x := range comms {
		x.Abort()
	}
	waitingIs(t, s, 0)
	until(t, "comms, goroutines and descriptors are freed", func() bool {
		return s.server.Stats().Comms < 100 && runtime.NumGoroutine() < goroutines+100 && openFiles(t) < files+100
	})
	c.call("event_set", "name", "other")
	c.fails("is not set", "variable_get", "name", "never", "timeout", 0.01)
}
