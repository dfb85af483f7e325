package scheduler

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/inspect"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/primitives"
	"go.millstream.dev/scheduler/internal/topics"
)

// A path of metadata is bounded, its names are keys, and rejected ones are not in the journal.
func TestMetadataPaths(t *testing.T) {
	dir := t.TempDir()
	s := journaled(t, dir)
	c := connect(t, s, "c")
	long := make([]any, primitives.MaxMetadataPath+1)
	for i := range long {
		long[i] = "n"
	}
	c.fails("names", "set_metadata", "keys", long, "value", 1)
	c.fails("key", "set_metadata", "keys", []any{"x", msgpack.MapOf("a", 1)}, "value", 1)
	c.fails("key", "set_metadata", "keys", []any{"x", nil}, "value", 1)
	c.call("set_metadata", "keys", long[1:], "value", 7)
	c.call("set_metadata", "keys", []any{"a", 1, []any{"t", 2}}, "value", "v")
	if got := c.call("get_metadata", "keys", []any{"a", 1, []any{"t", 2}}); got != "v" {
		t.Errorf("get_metadata: got %v, want v", got)
	}
	crash(t, s)
	s = journaled(t, dir)
	c = connect(t, s, "c")
	if got := c.call("get_metadata", "keys", long[1:]); got != int64(7) {
		t.Errorf("get_metadata after a restart: got %v, want 7", got)
	}
}

// A change that could not be read back from the journal is rejected, instead of accepted and left out.
func TestChangesThatCannotBeKept(t *testing.T) {
	dir := t.TempDir()
	s := journaled(t, dir)
	c := connect(t, s, "c")
	deep := any(1)
	for range 1015 {
		deep = []any{deep}
	}
	c.call("queue_create", "name", "q", "client", "c", "maxsize", 0)
	c.fails("nested", "variable_set", "name", "v", "client", "c", "key", nil, "data", deep)
	c.fails("nested", "queue_put", "name", "q", "client", "c", "key", nil, "data", deep)
	c.fails("nested", "set_metadata", "keys", []any{"m"}, "value", deep)
	c.call("variable_set", "name", "v", "client", "c", "key", nil, "data", 1)
	crash(t, s)
	s = journaled(t, dir)
	c = connect(t, s, "c")
	v := c.call("variable_get", "name", "v", "client", "c", "timeout", 5).(msgpack.Map)
	if got, _ := v.Get("value"); got != int64(1) {
		t.Errorf("the variable: got %v, want 1", got)
	}
	if n := c.call("queue_qsize", "name", "q", "client", "c"); n != int64(0) {
		t.Errorf("size of the queue: got %v, want 0", n)
	}
}

// Records above the journal's limit are kept in parts, graphs and changes alike, also by a snapshot.
func TestLargeRecords(t *testing.T) {
	dir := t.TempDir()
	small := func() *Scheduler {
		s, err := Start(t.Context(), Config{Listen: []string{"tcp://127.0.0.1:0"}, Journal: dir, Validate: true,
			Reattach: time.Millisecond, maxRecord: 4096})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.close(context.Background(), false) })
		return s
	}
	s := small()
	c := connect(t, s, "c")
	text := strings.Repeat("large ", 5000)
	c.call("variable_set", "name", "v", "client", "c", "key", nil, "data", text)
	var nodes []node
	for i := range 300 {
		nodes = append(nodes, node{key: fmt.Sprintf("t-%d", i), spec: strings.Repeat("s", 100)})
	}
	c.submit(nodes)
	tasks := func(s *Scheduler) (int, error) {
		return loop.Ask(t.Context(), s.loop, func() (int, error) { return s.state.NumTasks(), nil })
	}
	// The graph and the calls use different connections: wait until the graph is added.
	until(t, "the graph is read", func() bool {
		n, err := tasks(s)
		return err == nil && n == len(nodes)
	})
	c.call("variable_set", "name", "after", "client", "c", "key", nil, "data", 1)
	check := func(s *Scheduler) {
		t.Helper()
		c := connect(t, s, "d")
		v := c.call("variable_get", "name", "v", "client", "c", "timeout", 5).(msgpack.Map)
		if got, _ := v.Get("value"); got != text {
			t.Errorf("variable: got %d characters, want %d", len(fmt.Sprint(got)), len(text))
		}
		if n, err := tasks(s); err != nil || n != len(nodes) {
			t.Errorf("tasks: got %d, %v, want %d", n, err, len(nodes))
		}
	}
	crash(t, s)
	s = small()
	check(s)
	compact(t, s)
	crash(t, s)
	check(small())
}

// Keys of any bytes leave the metrics readable, and many prefixes leave them short.
func TestMetricsOfHostileKeys(t *testing.T) {
	s := start(t, Config{Dashboard: "127.0.0.1:0"})
	w := join(t, s, "w")
	c := connect(t, s, "c")
	bad := []byte("\xff\xfe bad")
	c.call("update_data", "who_has", msgpack.Map{{Key: bad, Value: []any{w.address}}}, "nbytes",
		msgpack.Map{{Key: bad, Value: 1}}, "client", "c")
	c.call("semaphore_register", "name", []byte("\xff\xfe"), "max_leases", 1, "lease_timeout", 30)
	scrape := func() string {
		t.Helper()
		r, err := http.Get("http://" + s.DashboardAddress() + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("/metrics: got %d, %v, want 200", r.StatusCode, err)
		}
		return string(b)
	}
	if got := scrape(); !strings.Contains(got, "dask_scheduler_tasks_output_bytes{task_prefix_name=\"\uFFFD bad\"}") ||
		!strings.Contains(got, "dask_semaphore_max_leases") {
		t.Errorf("/metrics: got %.2000s, want the prefix with replaced bytes, and the semaphore", got)
	}
	var who, sizes msgpack.Map
	for i := range 3 * inspect.MaxPrefixSeries {
		key := fmt.Sprintf("p%c%c%c", 'a'+i%26, 'a'+i/26%26, 'a'+i/26/26%26)
		who, sizes = append(who, msgpack.Pair{Key: key, Value: []any{w.address}}),
			append(sizes, msgpack.Pair{Key: key, Value: 1})
	}
	c.call("update_data", "who_has", who, "nbytes", sizes, "client", "c")
	got := scrape()
	if n := strings.Count(got, "dask_scheduler_tasks_output_bytes{"); n != inspect.MaxPrefixSeries+1 {
		t.Errorf("series of prefixes: got %d, want %d and one for the others", n, inspect.MaxPrefixSeries)
	}
	if !strings.Contains(got, `task_prefix_name="(others)"`) {
		t.Error("/metrics: got no series of the other prefixes")
	}
}

// A worker that is named twice is restarted once.
func TestRestartWorkersTwice(t *testing.T) {
	s, _, honest := hostile(t)
	w := join(t, s, "w")
	c := connect(t, s, "c")
	c.call("restart_workers", "workers", []any{w.address, w.address}, "wait_for_workers", false, "on_error", "return",
		"timeout", 1)
	honest()
}

// A hundred thousand topics do not prevent a client from subscribing.
func TestManyTopics(t *testing.T) {
	s, _, honest := hostile(t)
	c := connect(t, s, "flood")
	for i := range topics.Max / 1000 {
		list := make([]any, 1000)
		for k := range list {
			list[k] = fmt.Sprintf("t-%d-%d", i, k)
		}
		c.send(msgpack.MapOf("op", "log-event", "topic", list, "msg", 1))
	}
	h := connect(t, s, "listener")
	h.send(msgpack.MapOf("op", "subscribe-topic", "topic", "news"))
	h.call("log_event", "topic", "news", "msg", "hello")
	until(t, "the subscriber hears", func() bool { // the subscription travels on another comm than the event
		h.call("log_event", "topic", "news", "msg", "hello")
		n, _ := loop.Ask(t.Context(), s.loop, func() (int, error) {
			n, _ := s.topics.Subscribers("news")
			return n,
				nil
		})
		return n == 1
	})
	h.expectOp("event")
	honest()
}

// Concurrent releases and acquisitions of the same user are answered.
func TestMultiLockReleaseRace(t *testing.T) {
	s, _, honest := hostile(t)
	for i := range 200 {
		a, b := fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i)
		first := connect(t, s, "first")
		first.call("multi_lock_acquire", "locks", []any{"l"}, "id", a, "timeout", nil, "num_locks", 1)
		var wg sync.WaitGroup
		second, third := newPeer(t, s.Address()), newPeer(t, s.Address())
		wg.Go(func() {
			_, _ = second.try("multi_lock_acquire", "locks", []any{"l"}, "id", b, "timeout", 10, "num_locks", 1)
		})
		wg.Go(func() {
			_, _ = third.try("multi_lock_release", "id", a)
			_, _ = third.try("multi_lock_release", "id", b)
		})
		wg.Wait()
		_, _ = third.try("multi_lock_release", "id", b)
		second.close()
		third.close()
		first.close()
	}
	honest()
}

// A panic of a request in the loop is an error of that request; a panic of a stream message closes the stream.
func TestPanicsInTheLoop(t *testing.T) {
	s, log, honest := hostile(t)
	err := s.loop.Do(t.Context(), func() { panic("of a request") })
	if err == nil || !strings.Contains(err.Error(), "of a request") {
		t.Errorf("a panic of a request: got %v, want an error with its value", err)
	}
	if _, err := loop.Ask(t.Context(), s.loop, func() (int, error) { panic("of a question") }); err == nil {
		t.Error("panic in the loop: got no error")
	}
	s.server.Handle("test-panic", func(ctx context.Context, _ *rpc.Request) (any, error) {
		return nil, s.loop.Do(ctx, func() { panic("of a handler") })
	})
	c := connect(t, s, "c")
	c.fails("of a handler", "test-panic")
	if !log.has("handler panicked") || !log.has("op=test-panic peer=tcp://127.0.0.1:") {
		t.Error("log: got no line with the peer of the panic")
	}
	honest()
}
