package stream

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker/internal/record"
)

// fakeComm keeps the written messages.
type fakeComm struct {
	comm.Comm
	written []msgpack.Map
	frames  []string
}

func (c *fakeComm) LocalAddr() string     { return "inproc://1" }
func (c *fakeComm) Done() <-chan struct{} { return nil }
func (c *fakeComm) Err() error            { return nil }
func (c *fakeComm) Close() error          { return nil }

func (c *fakeComm) Write(_ context.Context, m *wire.Message) error {
	v, err := msgpack.Decode(m.Body())
	if err != nil {
		return err
	}
	for _, x := range v.([]any) {
		c.written = append(c.written, x.(msgpack.Map))
	}
	for _, f := range m.Frames[1:] {
		c.frames = append(c.frames, string(f.Bytes()))
	}
	return nil
}

// out is Messages whose comm the test reads.
type out struct {
	Messages
	comm *fakeComm
}

func newOut() *out {
	c := &fakeComm{}
	return &out{Messages{Writer: rpc.NewWriter(c, rpc.WriterConfig{Linger: time.Hour})}, c}
}

// sent ends the stream and returns its messages and frames.
func sent(t *testing.T, o *out) ([]msgpack.Map, []string) {
	t.Helper()
	o.Flush(false) // the end is sent at once
	o.Writer.Start()
	if err := o.Writer.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	return o.comm.written, o.comm.frames
}

func decoded(t *testing.T, o *out) []msgpack.Map {
	t.Helper()
	list, _ := sent(t, o)
	return list
}

// same fails the test unless a message has these fields and no others.
func same(t *testing.T, m msgpack.Map, fields ...any) {
	t.Helper()
	want := msgpack.MapOf(fields...)
	if len(m) != len(want) {
		t.Errorf("got %v, want %v", m, want)
		return
	}
	for k, v := range want.All() {
		if got, ok := m.Get(k.(string)); !ok || !reflect.DeepEqual(got, v) {
			t.Errorf("%v is %v (%T), want %v (%T) in %v", k, got, got, v, v, m)
		}
	}
}

// machine is a state with its last actions.
type machine struct {
	t       *testing.T
	s       *state.State
	actions state.Actions
}

func newMachine(t *testing.T) *machine {
	return &machine{t: t, s: state.New(state.Config{Address: "tcp://127.0.0.1:1", Threads: 2, Validate: true})}
}

// apply returns the action of a kind that follows from an event.
func (m *machine) apply(ev state.Event, kind state.ActionKind) *state.Action {
	m.t.Helper()
	m.s.Apply(time.Unix(1_700_000_000, 0), ev, &m.actions)
	list := m.actions.List()
	for i := range list {
		if list[i].Kind == kind {
			return &list[i]
		}
	}
	m.t.Fatalf("%T: got %+v, want an action %v", ev, list, kind)
	return nil
}

func (m *machine) compute(key string, run int64) task.Key {
	m.t.Helper()
	k := task.NewKey(key)
	m.apply(&state.ComputeTask{Key: k, RunID: run, Spec: []byte("spec")}, state.DoExecute)
	return k
}

func TestFinished(t *testing.T) {
	m := newMachine(t)
	k := m.compute("k", 5)
	done := &state.ExecuteSuccess{Stored: state.Stored{Key: k, NBytes: 28, TypeName: "int"}, Start: 1, Stop: 2e9,
		Thread: 3}
	a := m.apply(done, state.SendTaskFinished)
	p := record.Parts{Start: 1e9, Stop: 2e9, Load: 5e8}
	b := newOut()
	b.Finished(a.Task, a.RunID, nil, nil, &p, "s-1")
	b.Finished(a.Task, a.RunID, []byte("class"), []byte{7}, &p, "s-2")
	spans := []any{
		msgpack.MapOf("action", "disk-read", "start", 0.5, "stop", 1.0),
		msgpack.MapOf("action", "compute", "start", 1.0, "stop", 2.0),
	}
	for i, got := range decoded(t, b) {
		class := []any{nil, []byte("class")}[i]
		if v, ok := got.Get("value"); ok != (i == 1) || ok && v != int64(7) {
			t.Errorf("value %d: got %v, %v, want 7 in the second message only", i, v, ok)
		}
		got.Delete("value")
		same(t, got, "op", "task-finished", "stimulus_id", fmt.Sprint("s-", i+1), "key", "k", "run_id", int64(5),
			"status", "OK",
			"nbytes", int64(28), "type", class, "typename", "int", "metadata", msgpack.Map{}, "thread", int64(3),
			"startstops", spans)
	}
}

// Exceptions are sent in frames, whose markers count from 1: frame 0 is the body.
func TestErred(t *testing.T) {
	m := newMachine(t)
	first := &wire.Serialized{Header: []byte{0x80}, Frames: []wire.Frame{wire.HeapFrame([]byte("e"))}}
	second := &wire.Serialized{Header: []byte{0x80}, Frames: []wire.Frame{wire.HeapFrame([]byte("t"))}}
	f := &state.Failure{Exception: first, Traceback: second, ExceptionText: "E()", TracebackText: "line 1"}
	a := m.apply(&state.ExecuteFailure{Key: m.compute("k", 7), Failure: f, Thread: 2}, state.SendTaskErred)
	b := newOut()
	b.Erred(a.Task, a.RunID, &record.Parts{Start: 1e9, Stop: 2e9}, "s")
	spans := []any{msgpack.MapOf("action", "compute", "start", 1.0, "stop", 2.0)}
	fields := []any{"op", "task-erred", "stimulus_id", "s", "key", "k", "run_id", int64(7), "status", "error",
		"exception_text", "E()",
		"traceback_text", "line 1", "thread", int64(2), "startstops", spans}
	got, frames := sent(t, b)
	same(t, got[0], append(fields, "exception", msgpack.MapOf("__Serialized__", int64(1)),
		"traceback", msgpack.MapOf("__Serialized__", int64(3)))...)
	if len(frames) != 4 || frames[1] != "e" || frames[3] != "t" {
		t.Errorf("frames %q", frames)
	}

	m = newMachine(t)
	f = &state.Failure{Exception: (*wire.Serialized)(nil), ExceptionText: "E()", TracebackText: "line 1"}
	a = m.apply(&state.ExecuteFailure{Key: m.compute("k", 7), Failure: f, Thread: 2}, state.SendTaskErred)
	b = newOut()
	b.Erred(a.Task, a.RunID, &record.Parts{Start: 1e9, Stop: 2e9}, "s")
	same(t, decoded(t, b)[0], append(fields, "exception", nil, "traceback", nil)...)
}

func TestActions(t *testing.T) {
	b := newOut()
	m := newMachine(t)
	key := func(text string) task.Key { return task.NewKey(text) }

	k := m.compute("long", 3)
	b.Action(m.apply(&state.Secede{Key: k, Duration: 1500 * time.Millisecond}, state.SendLongRunning), "s")
	b.Action(m.apply(&state.Reschedule{Key: k}, state.SendReschedule), "s")
	b.Action(m.apply(&state.StealRequest{Stimulus: "steal-1", Key: key("nothing")}, state.SendStealResponse), "s")
	m.compute("mine", 4)
	b.Action(m.apply(&state.StealRequest{Stimulus: "steal-2", Key: key("mine")}, state.SendStealResponse), "s")
	b.Action(&state.Action{Kind: state.SendReleaseData, Key: key("gone")}, "s")
	b.Action(&state.Action{Kind: state.SendLongRunning, Key: key("x"), RunID: 9}, "s")
	b.Action(&state.Action{Kind: state.DoExecute, Key: key("x")}, "s") // no message

	want := [][]any{
		{"op", "long-running", "stimulus_id", "s", "key", "long", "run_id", int64(3), "compute_duration", 1.5},
		{"op", "reschedule", "stimulus_id", "s", "key", "long"},
		{"op", "steal-response", "stimulus_id", "steal-1", "key", "nothing", "state", nil},
		{"op", "steal-response", "stimulus_id", "steal-2", "key", "mine", "state", "executing"},
		{"op", "release-worker-data", "stimulus_id", "s", "key", "gone"},
		{"op", "long-running", "stimulus_id", "s", "key", "x", "run_id", int64(9), "compute_duration", nil},
	}
	got := decoded(t, b)
	if len(got) != len(want) {
		t.Fatalf("%d messages, want %d: %v", len(got), len(want), got)
	}
	for i := range want {
		same(t, got[i], want[i]...)
	}
}

// Sizes are sent only to a scheduler that adopts the keys.
func TestAddKeys(t *testing.T) {
	m := newMachine(t)
	done := &state.ExecuteSuccess{Stored: state.Stored{Key: m.compute("k", 5), NBytes: 28, TypeName: "int"}}
	tasks := []*state.Task{m.apply(done, state.SendTaskFinished).Task}
	b := newOut()
	b.Action(&state.Action{Kind: state.SendAddKeys, Tasks: tasks}, "s")
	b.Action(&state.Action{Kind: state.SendAddKeys, Tasks: tasks, Adopt: true}, "s")
	b.Action(&state.Action{Kind: state.SendRequestRefresh, Tasks: tasks}, "s")
	got := decoded(t, b)
	same(t, got[0], "op", "add-keys", "stimulus_id", "s", "keys", []any{"k"})
	same(t, got[1], "op", "add-keys", "stimulus_id", "s", "keys", []any{"k"}, "nbytes", []any{int64(28)}, "adopt", true)
	same(t, got[2], "op", "request-refresh-who-has", "stimulus_id", "s", "keys", []any{"k"})
}

func TestOwnMessages(t *testing.T) {
	b := newOut()
	b.Status("paused", "s")
	b.KeepAlive()
	b.CloseStream("")
	b.CloseStream("out of memory")
	raw, err := msgpack.Append(nil, msgpack.MapOf("op", "x", "data", msgpack.MapOf("__Serialized__", 1)))
	if err != nil {
		t.Fatal(err)
	}
	b.Raw(raw, [][]byte{[]byte("header"), []byte("data")})
	got, frames := sent(t, b)
	same(t, got[0], "op", "worker-status-change", "stimulus_id", "s", "status", "paused")
	same(t, got[1], "op", "keep-alive")
	same(t, got[2], "op", "close-stream")
	same(t, got[3], "op", "close-stream", "reason", "out of memory")
	same(t, got[4], "op", "x", "data", msgpack.MapOf("__Serialized__", int64(1)))
	if len(frames) != 2 || frames[1] != "data" {
		t.Errorf("frames %q", frames)
	}
}

// Messages allocate only the memory of their batch.
func TestNoAllocation(t *testing.T) {
	m := newMachine(t)
	done := &state.ExecuteSuccess{Stored: state.Stored{Key: m.compute("k", 5), NBytes: 28, TypeName: "int"}}
	finished := m.apply(done, state.SendTaskFinished).Task
	p := record.Parts{Start: 1, Stop: 2}
	b := newOut()
	if n := testing.AllocsPerRun(100, func() {
		b.Finished(finished, 5, nil, nil, &p, "s")
		b.Status("paused", "s")
	}); n > 0 {
		t.Errorf("%v allocations per message", n)
	}
	decoded(t, b)
}

// Without a scheduler messages are dropped.
func TestNoScheduler(t *testing.T) {
	m := newMachine(t)
	done := &state.ExecuteSuccess{Stored: state.Stored{Key: m.compute("k", 5), NBytes: 28, TypeName: "int"}}
	a := m.apply(done, state.SendTaskFinished)
	var none Messages
	none.Finished(a.Task, 5, nil, nil, &record.Parts{}, "s")
	none.Erred(a.Task, 5, &record.Parts{}, "s")
	none.Action(&state.Action{Kind: state.SendReschedule, Key: a.Key}, "s")
	none.Status("paused", "s")
	none.KeepAlive()
	none.CloseStream("")
	none.Raw(nil, nil)
	none.Flush(true)
	none.Flush(false)
}

// Messages of Python with frames keep them, in any batch.
func TestRawFrames(t *testing.T) {
	b := newOut()
	value := &wire.Serialized{Header: []byte{0x80}, Frames: []wire.Frame{wire.HeapFrame([]byte("e"))}}
	raw, err := msgpack.Append(nil, msgpack.MapOf("op", "x", "data", msgpack.MapOf("__Serialized__", 1)))
	if err != nil {
		t.Fatal(err)
	}
	b.KeepAlive()
	b.Raw(raw, [][]byte{[]byte("h1"), []byte("d1")})
	b.Raw(raw, [][]byte{[]byte("h2"), []byte("d2")})
	batch := b.Writer.Begin()
	batch.Body = msgpack.AppendString(msgpack.AppendMapHeader(batch.Body, 1), "v")
	batch.Serialized(value)
	got, frames := sent(t, b)
	// The first message of Python and the value may be in one batch, the second message of Python begins another one.
	if len(got) != 4 || fmt.Sprint(frames) != "[h1 d1 h2 d2 \x80 e]" {
		t.Errorf("got %v with %q", got, frames)
	}
	last, _ := got[3].Get("v")
	if index, _ := last.(msgpack.Map).Get("__Serialized__"); index != int64(3) {
		t.Errorf("index of the value: got %v, want 3, after the frames of its batch", index)
	}
}

func containsAll(text string, parts ...string) bool {
	for _, p := range parts {
		if !strings.Contains(text, p) {
			return false
		}
	}
	return true
}
