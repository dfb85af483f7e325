// Package hosttest runs the subsystems of a scheduler in tests without a scheduler: with a loop, a state machine, a
// journal in memory and a server for their requests.
package hosttest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/comm"
	_ "go.millstream.dev/internal/comm/inproc" // the transport of Serve
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/val"
)

// Patience bounds the wait for a condition, on a busy machine.
const Patience = 2 * time.Minute

// ErrClosed is returned by the loop of a Host after the end of its test.
var ErrClosed = errors.New("hosttest: loop closed")

// Host is the scheduler of subsystems in tests. The loop owns its fields except Log.
type Host struct {
	Loop    *loop.Runner[struct{}]
	State   *state.State
	Log     *slog.Logger
	Journal *Journal
	Wants   Wants
	// Actions are the actions of the state so far. The state may reuse their tasks and keys: tests compare kinds.
	Actions []state.Action
	// Tasks and WorkersChanged are signals for subsystems that wait.
	Tasks, WorkersChanged loop.Signal

	t       testing.TB
	text    logText
	actions state.Actions
	address string
	pool    *rpc.Pool
	onTick  func()
}

// New returns a Host whose loop runs until the end of the test.
func New(t testing.TB) *Host {
	h := &Host{t: t, State: state.New(state.Config{Validate: true}), Journal: &Journal{}, Wants: Wants{}}
	h.Log = slog.New(slog.NewTextHandler(&h.text, &slog.HandlerOptions{Level: slog.LevelDebug}))
	h.Loop = loop.New(loop.Config[struct{}]{
		Handle: func(*struct{}) {}, Drop: func(*struct{}) {}, Flush: func() {}, Interval: time.Millisecond,
		Tick: func() {
			if h.onTick != nil {
				h.onTick()
			}
		},
		TickPanicked: func(err *rpc.PanicError) { t.Errorf("tick: %v\n%s", err.Value, err.Stack) },
		Panicked:     func(v any) { t.Errorf("loop panicked: got %v, want no panic", v) },
		Closed:       func() error { return ErrClosed },
	})
	go h.Loop.Run()
	t.Cleanup(func() {
		h.Loop.Stop()
		<-h.Loop.Done()
	})
	return h
}

// OnTick sets a function that the loop calls at each tick.
func (h *Host) OnTick(f func()) { h.Do(func() { h.onTick = f }) }

// Apply applies an event to the state and keeps its actions. It runs in the loop.
func (h *Host) Apply(ev state.Event) {
	h.State.Apply(h.Loop.Now(), ev, &h.actions)
	h.Actions = append(h.Actions, h.actions.List()...)
}

// Do runs f in the loop.
func (h *Host) Do(f func()) {
	h.t.Helper()
	if err := h.Loop.Do(context.Background(), f); err != nil {
		h.t.Fatal(err)
	}
}

// Until waits until a condition holds, which is evaluated in the loop.
func (h *Host) Until(what string, cond func() bool) {
	h.t.Helper()
	for end := time.Now().Add(Patience); ; time.Sleep(time.Millisecond) {
		ok := false
		h.Do(func() { ok = cond() })
		if ok {
			return
		}
		if time.Now().After(end) {
			h.t.Fatalf("condition false after %v: %s", Patience, what)
		}
	}
}

// Logged reports whether the log contains a text.
func (h *Host) Logged(text string) bool { return strings.Contains(h.text.String(), text) }

// Serve serves requests until the end of the test.
func (h *Host) Serve(register ...func(*rpc.Server)) {
	h.t.Helper()
	r := rpc.NewServer(rpc.Config{Type: "Test", Logger: slog.New(slog.DiscardHandler), Decode: val.KeepClosed})
	for _, f := range register {
		f(r)
	}
	l, err := comm.Default.Listen(h.t.Context(), "inproc://", comm.ListenConfig{})
	if err != nil {
		h.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = r.Serve(ctx, l)
	}()
	h.address, h.pool = l.ContactAddr(), rpc.NewPool(comm.Default, rpc.PoolConfig{})
	h.t.Cleanup(func() {
		_ = h.pool.Close()
		cancel()
		_ = l.Close()
		_ = r.Close()
		<-served
	})
}

// Pool returns the pool of Call, and the address that it calls.
func (h *Host) Pool() (*rpc.Pool, string) { return h.pool, h.address }

// Try calls an op that Serve serves.
func (h *Host) Try(op string, args ...any) (any, error) {
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	return h.TryContext(ctx, op, args...)
}

// TryContext calls an op with a context.
func (h *Host) TryContext(ctx context.Context, op string, args ...any) (any, error) {
	var out any
	err := h.pool.Call(ctx, h.address, op, msgpack.MapOf(args...), &out)
	return out, err
}

// Call calls an op that must not fail.
func (h *Host) Call(op string, args ...any) any {
	h.t.Helper()
	v, err := h.Try(op, args...)
	if err != nil {
		h.t.Fatalf("%s: %v", op, err)
	}
	return v
}

// Fails calls an op that must fail with an error that contains a text.
func (h *Host) Fails(text, op string, args ...any) {
	h.t.Helper()
	if v, err := h.Try(op, args...); err == nil || !strings.Contains(err.Error(), text) {
		h.t.Errorf("%s: got %v, error %v, want an error with %q", op, v, err, text)
	}
}

// AddClient adds a client to the state. It runs in the loop.
func (h *Host) AddClient(name string, data any) state.ClientID {
	ev := state.AddClient{Name: name, Data: data}
	h.Apply(&ev)
	return ev.Client
}

// AddWorker adds a worker with one thread that runs any Go task. It runs in the loop.
func (h *Host) AddWorker(address string, data any) state.WorkerID {
	ev := state.AddWorker{Address: address, Name: address, Host: address, Threads: 1, Status: state.StatusRunning,
		Data: data, Can: state.Go | state.Python}
	h.Apply(&ev)
	if ev.Err != nil {
		h.t.Error(ev.Err)
	}
	return ev.Worker
}

// Submit submits tasks that a client holds, each with the keys of its dependencies. It runs in the loop.
func (h *Host) Submit(client state.ClientID, tasks ...[]string) {
	g := &state.Graph{}
	var keys []task.Key
	for _, t := range tasks {
		n := state.Node{Key: task.NewKey(t[0]), Spec: []byte("\x80spec")}
		for _, d := range t[1:] {
			n.Deps = append(n.Deps, task.NewKey(d))
		}
		g.Nodes = append(g.Nodes, n)
		keys = append(keys, n.Key)
	}
	ev := state.UpdateGraph{Client: client, Graph: g, Keys: keys}
	h.Apply(&ev)
	if ev.Err != nil {
		h.t.Error(ev.Err)
	}
}

// Finish finishes a task that runs on a worker. It runs in the loop.
func (h *Host) Finish(worker state.WorkerID, key string) {
	t := h.State.Task(task.NewKey(key))
	h.Apply(&state.TaskFinished{Worker: worker, Key: t.Key(), RunID: t.RunID(), NBytes: 8})
}

// Journal is a journal in memory: the recorded changes, in order.
type Journal struct {
	mu      sync.Mutex
	changes []string
	refuse  error
	lost    error
}

// Refuse sets the error of Change; nil for none.
func (j *Journal) Refuse(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.refuse = err
}

// Lose sets the error of Kept; nil for none.
func (j *Journal) Lose(err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lost = err
}

// Change records a change.
func (j *Journal) Change(op string, args msgpack.Map) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.refuse != nil {
		return j.refuse
	}
	j.changes = append(j.changes, op)
	return nil
}

// Note records a change.
func (j *Journal) Note(op string, args msgpack.Map) { _ = j.Change(op, args) }

// Position returns the number of changes.
func (j *Journal) Position() uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return uint64(len(j.changes))
}

// Kept returns the error that Lose has set.
func (j *Journal) Kept(context.Context, uint64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lost
}

// Changes returns the recorded ops, separated by spaces, and deletes them.
func (j *Journal) Changes() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	text := strings.Join(j.changes, " ")
	j.changes = nil
	return text
}

// Wants are the keys that each client holds. The loop owns it.
type Wants map[string]map[task.Key]bool

// Desire holds keys for a client.
func (w Wants) Desire(name string, keys ...task.Key) {
	if w[name] == nil {
		w[name] = map[task.Key]bool{}
	}
	for _, k := range keys {
		w[name][k] = true
	}
}

// Release undoes Desire.
func (w Wants) Release(name string, keys ...task.Key) {
	for _, k := range keys {
		delete(w[name], k)
	}
}

// Forget removes a client.
func (w Wants) Forget(name string) { delete(w, name) }

// Registered reports whether a client of this name exists.
func (w Wants) Registered(name string) bool { return w[name] != nil }

// Of returns the keys that a client holds, as text.
func (w Wants) Of(name string) string {
	var out []string
	for k := range w[name] {
		out = append(out, k.String())
	}
	slices.Sort(out)
	return fmt.Sprint(out)
}

// logText is the text of the log. Any goroutine may write it.
type logText struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
