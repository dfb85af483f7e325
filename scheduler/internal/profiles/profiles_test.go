package profiles

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/comm"
	_ "go.millstream.dev/internal/comm/tcp"
	"go.millstream.dev/internal/dashboard"
	"go.millstream.dev/internal/proc/profile"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/hosttest"
	"go.millstream.dev/scheduler/internal/peers"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// rig is a scheduler with workers that the test implements.
type rig struct {
	*hosttest.Host
	*Profiles
	t    *testing.T
	list *peers.Workers
}

func start(t *testing.T) *rig {
	h := hosttest.New(t)
	r := &rig{Host: h, t: t, list: peers.NewWorkers(h.State)}
	r.Profiles = New(Host{Loop: h.Loop, Log: h.Log, State: h.State, Workers: r.list, Network: comm.Default,
		Own: profile.New(profile.Config{Interval: 5 * time.Millisecond, Cycle: 20 * time.Millisecond})})
	t.Cleanup(func() { _ = r.Profiles.Close() })
	h.Serve(r.Profiles.Register)
	return r
}

// worker adds a worker with handlers and returns its address.
func (r *rig) worker(name string, handlers map[string]rpc.Handler) string {
	r.t.Helper()
	s := rpc.NewServer(rpc.Config{Type: "Worker", Logger: slog.New(slog.DiscardHandler)})
	for op, f := range handlers {
		s.Handle(op, f)
	}
	l, err := comm.Listen(r.t.Context(), "tcp://127.0.0.1:0", comm.ListenConfig{})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var served sync.WaitGroup
	served.Go(func() { _ = s.Serve(ctx, l) })
	r.t.Cleanup(func() {
		cancel()
		_ = s.Close()
		served.Wait()
	})
	r.add(name, l.ContactAddr())
	return l.ContactAddr()
}

func (r *rig) add(name, address string) {
	r.Do(func() {
		alias, _ := msgpack.Append(nil, name)
		w := &peers.Worker{Address: address, Name: name, Alias: string(alias)}
		w.ID = r.AddWorker(address, w)
		r.list.Add(w)
	})
}

// returns returns a handler with a fixed reply.
func returns(v any) rpc.Handler {
	return func(context.Context, *rpc.Request) (any, error) { return v, nil }
}

// fails is a handler that fails.
func fails(context.Context, *rpc.Request) (any, error) { return nil, errors.New("broken") }

// treeOf returns an encoded tree with one function.
func treeOf(name string, n int64) msgpack.Raw {
	var t profile.Tree
	t.Add([]*profile.Frame{{ID: name, Name: name, File: "f.py", Line: 3}}, n)
	return t.Encoded()
}

func children(v any) string {
	m, _ := v.(msgpack.Map)
	count, _ := m.Get("count")
	c, _ := m.Get("children")
	out := fmt.Sprint(count)
	list, _ := c.(msgpack.Map)
	for _, p := range list {
		n, _ := p.Value.(msgpack.Map).Get("count")
		out += fmt.Sprint(" ", p.Key, ":", n)
	}
	return out
}

// The trees of workers are merged, or returned by worker. Workers that fail, or send what is no tree or too large, are
// left out.
func TestProfile(t *testing.T) {
	r := start(t)
	r.patience = time.Minute
	asked := make(chan msgpack.Map, 10)
	a := r.worker("a", map[string]rpc.Handler{"profile": func(_ context.Context, q *rpc.Request) (any, error) {
		m := msgpack.Map{}
		for _, name := range []string{"start", "stop", "key", "server"} {
			var v any
			if _, err := q.Arg(name, &v); err != nil {
				return nil, err
			}
			m.Set(name, v)
		}
		asked <- m
		return treeOf("f", 3), nil
	}})
	b := r.worker("b", map[string]rpc.Handler{"profile": returns(treeOf("f", 4))})
	for name, h := range map[string]rpc.Handler{
		"fails": fails, "none": nil, "text": returns("x"), "list": returns([]any{1}), "large": returns(make([]byte,
			maxReply+1)),
	} {
		handlers := map[string]rpc.Handler{}
		if h != nil {
			handlers["profile"] = h
		}
		r.worker(name, handlers)
	}
	got := r.Call("profile", "workers", nil, "merge_workers", true, "scheduler", false, "server", false, "start", nil,
		"stop", nil, "key", nil)
	if want := "7 f:7"; children(got) != want {
		t.Errorf("merged: got %s, want %s", children(got), want)
	}
	if got, want := fmt.Sprint(<-asked), fmt.Sprint(msgpack.MapOf("start", nil, "stop", nil, "key", nil, "server",
		false)); got != want {
		t.Errorf("request: got %s, want %s", got, want)
	}
	got = r.Call("profile", "workers", []any{"a", b, "unknown"}, "merge_workers", false, "start", 1.5, "stop", 2.5,
		"key",
		"inc", "server", true)
	m, _ := got.(msgpack.Map)
	one, _ := m.Get(a)
	two, _ := m.Get(b)
	if len(m) != 2 || children(one) != "3 f:3" || children(two) != "4 f:4" {
		t.Errorf("by worker: got %v, want trees of two workers", got)
	}
	if got, want := fmt.Sprint(<-asked), fmt.Sprint(msgpack.MapOf("start", 1.5, "stop", 2.5, "key", "inc", "server",
		true)); got != want {
		t.Errorf("request: got %s, want %s", got, want)
	}
	if v, err := r.Tree(t.Context(), dashboard.ProfileQuery{Worker: "b"}); err != nil || v.Count != 4 ||
		v.Children[0].File != "f.py" {
		t.Errorf("view: got %+v, %v, want 4 samples", v, err)
	}
	if v, err := r.Tree(t.Context(), dashboard.ProfileQuery{Worker: "unknown"}); err != nil || v.Count != 0 {
		t.Errorf("view of an unknown worker: got %+v, %v, want an empty tree", v, err)
	}
	if !r.Logged("broken") && !r.Logged("worker replied with an error") {
		t.Error("got no log record about a worker that failed")
	}
}

// Workers that cannot be reached, or do not reply in time, are left out.
func TestPatience(t *testing.T) {
	r := start(t)
	r.patience = 100 * time.Millisecond
	hung := make(chan struct{})
	defer close(hung)
	hang := func(ctx context.Context, _ *rpc.Request) (any, error) {
		select {
		case <-hung:
		case <-ctx.Done():
		}
		return nil, nil
	}
	r.worker("hangs", map[string]rpc.Handler{"profile": hang, "call_stack": hang})
	r.add("gone", "tcp://127.0.0.1:1")
	if got, want := children(r.Call("profile")), "0"; got != want {
		t.Errorf("profile: got %s, want %s", got, want)
	}
	if got := r.Call("call_stack", "keys", nil); fmt.Sprint(got) != "[]" {
		t.Errorf("call stacks: got %v, want none", got)
	}
}

// The profile of the scheduler has its own goroutines.
func TestScheduler(t *testing.T) {
	r := start(t)
	stop := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() { r.Own.Run(stop) })
	all.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	r.Until("a sample of the scheduler", func() bool {
		v, err := r.Tree(t.Context(), dashboard.ProfileQuery{Scheduler: true})
		return err == nil && v.Count > 0
	})
	if got := children(r.Call("profile", "scheduler", true)); strings.HasPrefix(got, "0") {
		t.Errorf("got %s, want samples", got)
	}
	close(stop)
	all.Wait()
}

func TestMetadata(t *testing.T) {
	r := start(t)
	r.patience = time.Minute
	counts := func(at float64, n int, keys ...any) msgpack.Map {
		return msgpack.MapOf("counts", []any{[]any{at, n}, []any{at + 1, n}}, "keys", []any{[]any{at,
			msgpack.MapOf(keys...)}}, "more", 1)
	}
	r.worker("a", map[string]rpc.Handler{"profile_metadata": returns(counts(10.2, 3, "inc", 2, "dec", 1))})
	r.worker("b", map[string]rpc.Handler{"profile_metadata": returns(counts(11.9, 4, "inc", 4))})
	r.worker("c", map[string]rpc.Handler{"profile_metadata": fails})
	r.worker("d", map[string]rpc.Handler{"profile_metadata": returns(msgpack.MapOf("counts", []any{[]any{1}}))})
	r.worker("e", map[string]rpc.Handler{"profile_metadata": returns(msgpack.MapOf("keys", []any{[]any{1, 2}}))})
	got := fmt.Sprint(r.Call("profile_metadata"))
	want := fmt.Sprint(msgpack.MapOf(
		"counts", []any{[]any{10.0, 3}, []any{11.0, 7}, []any{12.0, 4}},
		"keys", msgpack.MapOf("dec", []any{[]any{10.0, 1}, []any{11.0, 0}}, "inc", []any{[]any{10.0, 2}, []any{11.0,
			4}})))
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	got = fmt.Sprint(r.Call("profile_metadata", "workers", []any{"b"}, "start", 1, "stop", 20,
		"profile_cycle_interval", 10))
	want = fmt.Sprint(msgpack.MapOf("counts", []any{[]any{10.0, 8}}, "keys", msgpack.MapOf("inc", []any{[]any{10.0,
		4}})))
	if got != want {
		t.Errorf("cycle of 10 s: got %s, want %s", got, want)
	}
}

// Numbers of samples of a worker do not exceed limits.
func TestMetadataBounds(t *testing.T) {
	s := samples{cycle: 1, all: map[int64]int64{}, keys: map[string]map[int64]int64{}}
	for i := range 30 {
		var counts, keys []any
		for j := range 900 {
			counts = append(counts, []any{float64(900*i + j), int64(1) << 62})
			keys = append(keys, []any{float64(900*i + j), msgpack.MapOf(fmt.Sprint("k", 900*i+j), -5)})
		}
		b, err := msgpack.Append(nil, msgpack.MapOf("counts", counts, "keys", keys))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.read(b); err != nil {
			t.Fatal(err)
		}
	}
	if len(s.all) > maxTimes || len(s.keys) > maxKeys {
		t.Errorf("got %d times and %d keys, want at most %d and %d", len(s.all), len(s.keys), maxTimes, maxKeys)
	}
	for _, n := range s.all {
		if n < 0 || n > 1<<50 {
			t.Fatalf("got a count of %d", n)
		}
	}
	b, _ := msgpack.Append(nil, msgpack.MapOf("counts", make([]any, maxCycles+1)))
	if err := s.read(b); err == nil {
		t.Error("too many cycles: got no error")
	}
}

func TestCallStack(t *testing.T) {
	r := start(t)
	r.patience = time.Minute
	asked := make(chan string, 10)
	reply := func(name string, v msgpack.Map) rpc.Handler {
		return func(_ context.Context, q *rpc.Request) (any, error) {
			var keys []any
			if _, err := q.Arg("keys", &keys); err != nil {
				return nil, err
			}
			asked <- fmt.Sprint(name, keys)
			return v, nil
		}
	}
	a := r.worker("a", map[string]rpc.Handler{"call_stack": reply("a", msgpack.MapOf("x", []any{"line 1", "line 2"}))})
	r.worker("b", map[string]rpc.Handler{"call_stack": reply("b", msgpack.Map{})})
	got := fmt.Sprint(r.Call("call_stack", "keys", nil))
	want := fmt.Sprint(msgpack.MapOf(a, msgpack.MapOf("x", []any{"line 1", "line 2"})))
	if got != want {
		t.Errorf("all: got %s, want %s", got, want)
	}
	for range 2 {
		if q := <-asked; !strings.HasSuffix(q, "[]") {
			t.Errorf("request: got %s, want all keys", q)
		}
	}
	list, err := r.Stacks(t.Context(), "a")
	if err != nil || len(list) != 1 || list[0].Worker != a || list[0].Key != "x" || len(list[0].Frames) != 2 {
		t.Errorf("stacks: got %v, %v, want that of x", list, err)
	}
	<-asked
	r.Do(func() {
		c := r.AddClient("c", nil)
		r.Submit(c, []string{"x"}, []string{"y", "x"})
	})
	r.Call("call_stack", "keys", []any{"y"})
	if q := <-asked; !strings.HasSuffix(q, "[x]") {
		t.Errorf("request: got %s, want x, for which y waits", q)
	}
	r.Fails("unknown", "call_stack", "keys", []any{"unknown"})
}

func FuzzReplies(f *testing.F) {
	f.Add([]byte(treeOf("f", 3)))
	b, _ := msgpack.Append(nil, msgpack.MapOf("counts", []any{[]any{1.5, 2}}, "keys", []any{[]any{1.5,
		msgpack.MapOf("a", 1)}}))
	f.Add(b)
	b, _ = msgpack.Append(nil, msgpack.MapOf("x", []any{"line"}, "status", "uncaught-error"))
	f.Add(b)
	f.Fuzz(func(t *testing.T, body []byte) {
		_ = failure(body)
		s := samples{cycle: 1, all: map[int64]int64{}, keys: map[string]map[int64]int64{}}
		_ = s.read(body) // the rest of a broken reply is dropped
		if _, err := msgpack.Append(nil, s.result()); err != nil {
			t.Errorf("result: %v", err)
		}
		list, _ := readStacks(body)
		for _, st := range list {
			if len(st.lines) > maxLines {
				t.Errorf("got %d lines, want at most %d", len(st.lines), maxLines)
			}
		}
	})
}
