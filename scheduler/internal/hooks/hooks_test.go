package hooks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/hosttest"
)

// rig has Hooks whose helper is a function.
type rig struct {
	*hosttest.Host
	*Hooks
	server *rpc.Server

	mu     sync.Mutex
	events []string                                                  // delivered, as text; guarded by mu
	ops    []string                                                  // other calls of the helper; guarded by mu
	fail   error                                                     // of the next calls; guarded by mu
	reply  func(op string, frames [][]byte) (*pyproc.Message, error) // guarded by mu; nil replies with true
	block  chan struct{}                                             // deliveries wait until it is closed, if not nil
}

func start(t *testing.T, events, bytes int) *rig {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
	r := &rig{Host: hosttest.New(t), server: rpc.NewServer(rpc.Config{Logger: slog.New(slog.DiscardHandler)})}
	r.server.Handle("built_in", func(context.Context, *rpc.Request) (any, error) { return nil, nil })
	r.Hooks = New(Host{Loop: r.Host.Loop, Log: r.Host.Log, State: r.Host.State, Server: r.server,
		Context: ctx, Go: wg.Go,
		Call: r.call, MaxEvents: events, MaxBytes: bytes, Patience: time.Minute})
	return r
}

// call is the helper.
func (r *rig) call(ctx context.Context, op string, body any, frames [][]byte) (*pyproc.Message, error) {
	r.mu.Lock()
	block, fail, reply := r.block, r.fail, r.reply
	r.mu.Unlock()
	if op != "plugin-events" {
		r.mu.Lock()
		r.ops = append(r.ops, fmt.Sprint(op, " ", body))
		r.mu.Unlock()
		if reply != nil {
			return reply(op, frames)
		}
		return &pyproc.Message{Body: msgpack.Raw{0xc3}}, fail
	}
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if fail != nil {
		return nil, fail
	}
	raw, ok := body.(msgpack.Raw)
	if !ok {
		return &pyproc.Message{}, nil
	}
	v, err := msgpack.Decode(raw)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range v.([]any) {
		r.events = append(r.events, fmt.Sprint(e))
	}
	return &pyproc.Message{}, nil
}

// delivered waits for the queued events and returns all so far.
func (r *rig) delivered() []string {
	r.Until("delivered", func() bool {
		added, done, _ := r.queue.progress()
		return added == done
	})
	r.Flush(context.Background())
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.events)
}

func (r *rig) set(t *testing.T, in Interest) {
	t.Helper()
	if err := r.Set(t.Context(), in); err != nil {
		t.Fatal(err)
	}
}

// TestInterest checks that only events that a plugin has a hook for are delivered, in order.
func TestInterest(t *testing.T) {
	r := start(t, 0, 0)
	all := func() {
		r.WorkerChanged("w", true)
		r.ClientChanged("c", true)
		r.Hooks.Logged("topic", msgpack.MapOf("a", 1))
		r.ClientChanged("c", false)
		r.WorkerChanged("w", false)
		r.Restarted()
	}
	r.Do(all)
	if r.Active() || len(r.delivered()) != 0 {
		t.Errorf("without plugins: got %v, active %t, want no events", r.delivered(), r.Active())
	}
	r.set(t, Interest{Hooks: []string{"add_worker", "remove_worker", "log_event", "unknown"}})
	r.Do(all)
	if got, want := names(r.delivered()), "add_worker log_event remove_worker"; got != want {
		t.Errorf("events: got %s, want %s", got, want)
	}
	r.set(t, Interest{Hooks: []string{"add_client", "remove_client", "restart"}})
	r.Do(all)
	want := "add_worker log_event remove_worker add_client remove_client restart"
	if got := names(r.delivered()); got != want {
		t.Errorf("events: got %s, want %s", got, want)
	}
	r.Do(func() {
		if r.Hooks.Wants(Transition) || !r.Hooks.Wants(Restart) {
			t.Errorf("Wants: got %t, %t, want false, true", r.Hooks.Wants(Transition), r.Hooks.Wants(Restart))
		}
	})
	r.set(t, Interest{})
	r.Do(all)
	if got := names(r.delivered()); got != want || r.Active() {
		t.Errorf("after the last plugin: got %s, want %s", got, want)
	}
}

// names returns the first words of events.
func names(events []string) string {
	var out []string
	for _, e := range events {
		out = append(out, strings.Fields(strings.Trim(e, "[]"))[0])
	}
	return strings.Join(out, " ")
}

// TestTasks checks that transitions have the report of the worker, and follow the graph that causes them.
func TestTasks(t *testing.T) {
	r := start(t, 0, 0)
	r.set(t, Interest{Hooks: []string{"transition", "update_graph"}})
	x := task.NewKey("x")
	r.Do(func() {
		c, w := state.AddClient{Name: "c"}, state.AddWorker{Address: "w", Threads: 1, Can: state.Python}
		r.Apply(&c)
		r.Apply(&w)
		g := state.UpdateGraph{Client: c.Client, Keys: []task.Key{x}, Graph: &state.Graph{Nodes: []state.Node{{
			Key: x, Spec: []byte("spec"), Needs: state.Python,
			Annotations: &state.Annotations{Raw: msgpack.Raw{0x81, 0xa1, 'n', 1}},
		}}}}
		r.Hold()
		r.Apply(&g)
		r.Graph("c", &g)
		f := &message.TaskFinished{Key: x, NBytes: 28, TypeName: "int", RunID: r.Host.State.Task(x).RunID()}
		r.Finished("w", f)
		r.Apply(&state.TaskFinished{Worker: w.Worker, Key: x, RunID: f.RunID, NBytes: f.NBytes, Duration: 1})
		r.Done()
	})
	got := strings.Join(r.delivered(), "\n")
	for i, want := range []string{"[update_graph c [x] [[x [", "[transition x released waiting update-graph-",
		"[transition x waiting processing ",
		"[transition x processing memory task-finished-"} {
		if line := strings.Split(got+"\n\n\n\n", "\n")[i]; !strings.HasPrefix(line, want) {
			t.Errorf("event %d: got %s, want %s…", i, line, want)
		}
	}
	if !strings.Contains(got, "[{n 1}]") ||
		!strings.HasSuffix(got, "[{worker w} {startstops <nil>} {typename int} {nbytes 28}]]") {
		t.Errorf("events: got %s, want annotations and the report of the worker", got)
	}
}

// TestErred checks the arguments of the transition of a failed task.
func TestErred(t *testing.T) {
	r := start(t, 0, 0)
	r.set(t, Interest{Hooks: []string{"transition"}})
	x := task.NewKey("x")
	r.Do(func() {
		c, w := state.AddClient{Name: "c"}, state.AddWorker{Address: "w", Threads: 1, Can: state.Python}
		r.Apply(&c)
		r.Apply(&w)
		r.Hold() // no update_graph: nothing is held
		g := state.UpdateGraph{Client: c.Client, Keys: []task.Key{x}, Graph: &state.Graph{Nodes: []state.Node{{
			Key: x, Spec: []byte("spec"), Needs: state.Python,
		}}}}
		r.Apply(&g)
		r.Graph("c", &g)
		f := &message.TaskErred{Key: x, ExceptionText: "boom", TracebackText: "line 1",
			RunID: r.Host.State.Task(x).RunID()}
		r.Hooks.Erred("w", f)
		r.Apply(&state.TaskErred{Worker: w.Worker, Key: x, RunID: f.RunID, ExceptionText: "boom"})
		r.Done()
	})
	list := r.delivered()
	if len(list) != 3 || !strings.HasPrefix(list[2], "[transition x processing erred task-erred-") ||
		!strings.HasSuffix(list[2], "[{worker w} {startstops <nil>} {exception_text boom} {traceback_text line 1}]]") {
		t.Errorf("events: got %q, want three, the last with the error", list)
	}
}

// TestBlocked checks that a plugin that blocks loses events, gets their number, and blocks nothing else.
func TestBlocked(t *testing.T) {
	r := start(t, 10, 1<<20)
	r.block = make(chan struct{})
	r.set(t, Interest{Hooks: []string{"log_event", "add_worker"}})
	r.Do(func() { r.Hooks.Logged("first", 0) })
	r.Until("a batch in flight", func() bool {
		r.queue.mu.Lock()
		defer r.queue.mu.Unlock()
		return r.queue.n == 0
	})
	r.Do(func() {
		for i := range 25 {
			r.Hooks.Logged("t", i)
		}
		r.WorkerChanged("w", true) // has a reserve
	})
	if got := r.Dropped(); got != 15 {
		t.Errorf("dropped: got %d, want 15", got)
	}
	close(r.block)
	list := r.delivered()
	if len(list) != 13 || list[11] != "[dropped 15]" || !strings.HasPrefix(list[12], "[add_worker w ") {
		t.Errorf("events: got %q, want 11, their number and add_worker", list)
	}
	r.Until("a log message", func() bool { return r.Host.Logged("events for scheduler plugins dropped") })
}

// TestLarge checks that an event that exceeds the queue is dropped.
func TestLarge(t *testing.T) {
	r := start(t, 10, 1000)
	r.set(t, Interest{Hooks: []string{"log_event"}})
	r.Do(func() {
		r.Hooks.Logged("t", strings.Repeat("x", 2000))
		r.Hooks.Logged("t", "small")
		r.Hooks.Logged("t", func() {}) // no msgpack
	})
	want := "[dropped 1] [log_event t small] [log_event t <nil>]"
	if got := strings.Join(r.delivered(), " "); got != want {
		t.Errorf("events: got %s, want %s", got, want)
	}
}

// TestFailed checks that events that the helper loses are counted.
func TestFailed(t *testing.T) {
	r := start(t, 0, 0)
	r.fail = errors.New("helper ended")
	r.set(t, Interest{Hooks: []string{"log_event"}})
	r.Do(func() { r.Hooks.Logged("t", 1) })
	r.delivered()
	if got := r.Dropped(); got != 1 {
		t.Errorf("dropped: got %d, want 1", got)
	}
	r.Until("a log message", func() bool { return r.Host.Logged("events for scheduler plugins lost") })
}

// TestRegister checks which plugins are kept for a restarted helper, and that they are removed if it keeps ending.
func TestRegister(t *testing.T) {
	r := start(t, 0, 0)
	for _, name := range []string{"a", "b", "a"} {
		if err := r.Register(t.Context(), name, []byte(name), false); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(r.names()); got != "[b a]" {
		t.Errorf("kept: got %s, want [b a]", got)
	}
	if err := r.Unregister(t.Context(), "b"); err != nil {
		t.Fatal(err)
	}
	if err := r.Register(t.Context(), "big", make([]byte, maxPickle+1), false); err == nil {
		t.Error("plugin of 64 MiB: got no error")
	}
	r.fail = errors.New("no such plugin")
	if err := r.Unregister(t.Context(), "a"); err == nil || fmt.Sprint(r.names()) != "[a]" {
		t.Errorf("failed Unregister: got error %v, kept %v, want an error and [a]", err, r.names())
	}
	r.fail = nil
	r.reply = func(string, [][]byte) (*pyproc.Message, error) { return &pyproc.Message{Body: msgpack.Raw{0xc2}}, nil }
	if err := r.Register(t.Context(), "ignored", []byte("x"), true); err != nil || fmt.Sprint(r.names()) != "[a]" {
		t.Errorf("idempotent: got error %v, kept %v, want [a]", err, r.names())
	}
	r.set(t, Interest{Hooks: []string{"log_event"}, Requests: []string{"mine"}})
	for range giveUpExits + 1 {
		if r.Exited(); r.Active() || slices.Contains(r.server.Ops(), "mine") {
			t.Error("after the end of the helper: got hooks and handlers, want none")
		}
	}
	if len(r.names()) != 0 || !r.Host.Logged("scheduler plugins removed") {
		t.Errorf("kept: got %v, want none", r.names())
	}
}

// TestHandlers checks the limits of handlers, and that those of the scheduler cannot be replaced.
func TestHandlers(t *testing.T) {
	r := start(t, 0, 0)
	many := make([]string, maxNames+1)
	for i := range many {
		many[i] = fmt.Sprint("op", i)
	}
	for name, in := range map[string]Interest{
		"built in": {Requests: []string{"built_in"}}, "want 1 to": {Streams: []string{""}},
		"limit of":      {Requests: many},
		"has 300 bytes": {Requests: []string{strings.Repeat("x", 300)}}, "identity": {Requests: []string{"identity"}},
	} {
		if err := r.Set(t.Context(), in); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got error %v", name, err)
		}
	}
	r.set(t, Interest{Requests: []string{"one", "two"}})
	r.set(t, Interest{Requests: []string{"two", "three"}})
	for op, want := range map[string]bool{"one": false, "two": true, "three": true, "built_in": true} {
		if got := slices.Contains(r.server.Ops(), op); got != want {
			t.Errorf("handler %s: got %t, want %t", op, got, want)
		}
	}
}

// TestRemovable checks that the choice of plugins is used, and ignored if they fail.
func TestRemovable(t *testing.T) {
	r := start(t, 0, 0)
	r.reply = func(string, [][]byte) (*pyproc.Message, error) {
		body, err := msgpack.Append(nil, []any{"b"})
		return &pyproc.Message{Body: body}, err
	}
	if got, ok := r.Removable(t.Context(), []string{"a", "b"}); !ok || len(got) != 1 || !got["b"] {
		t.Errorf("Removable: got %v, %t, want b", got, ok)
	}
	r.reply = func(string, [][]byte) (*pyproc.Message, error) { return &pyproc.Message{Body: msgpack.Raw{1}}, nil }
	if got, ok := r.Removable(t.Context(), []string{"a", "b"}); ok || got != nil {
		t.Errorf("invalid reply: got %v, %t, want none", got, ok)
	}
}

// TestClose checks that plugins receive the remaining events before they are closed.
func TestClose(t *testing.T) {
	r := start(t, 0, 0)
	r.Hooks.Close(t.Context())
	if len(r.ops) != 0 {
		t.Errorf("without plugins: got calls %v, want none", r.ops)
	}
	r.set(t, Interest{Hooks: []string{"log_event", "before_close"}})
	r.Do(func() { r.Hooks.Logged("t", 1) })
	r.Hooks.Close(t.Context())
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.events) != 1 || len(r.ops) != 1 || !strings.HasPrefix(r.ops[0], "close-plugins") {
		t.Errorf("got events %v, calls %v, want one of each", r.events, r.ops)
	}
}
