package messages

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/comm"
	_ "go.millstream.dev/internal/comm/inproc"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/scheduler/internal/hosttest"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/specs"
	"go.millstream.dev/wire"
)

type noJournal struct{ peers.Journal }

func (noJournal) Enabled() bool    { return false }
func (noJournal) Position() uint64 { return 0 }

// stream is the stream of a peer, whose messages next reads.
func stream(t *testing.T, ours bool) (st *peers.Stream, next func() msgpack.Map) {
	t.Helper()
	l, err := comm.Default.Listen(t.Context(), "inproc://", comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := comm.Default.Dial(t.Context(), l.ContactAddr(), comm.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	far, err := l.Accept(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := peers.NewStreams(hosttest.New(t).Loop, slog.New(slog.DiscardHandler), noJournal{}, 1<<20, 1<<20)
	st = all.Open(near)
	st.Ours = ours
	st.Out.Start()
	t.Cleanup(func() { near.Abort(); far.Abort(); <-st.Out.Done() })
	return st, func() msgpack.Map {
		t.Helper()
		all.Flush()
		m, err := far.Read(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer m.Release()
		v, err := wire.Decode(m, wire.DecodeOptions{Keep: true, KeepPickled: true})
		if err != nil {
			t.Fatal(err)
		}
		return wire.Clone(v.([]any)[0]).(msgpack.Map)
	}
}

// rig is a state with a worker, a client and two tasks, of which y depends on x.
func rig(t *testing.T) (h *hosttest.Host, w *Writer, worker state.WorkerID) {
	h = hosttest.New(t)
	w = New(h.Log, h.State, 0, 3)
	h.Do(func() {
		worker = h.AddWorker("tcp://w", nil)
		h.Submit(h.AddClient("c", nil), []string{"x"}, []string{"y", "x"})
	})
	return h, w, worker
}

// Actions are sent as Dask's messages to workers.
func TestToWorker(t *testing.T) {
	h, w, _ := rig(t)
	st, next := stream(t, false)
	x := h.State.Task(task.NewKey("x"))
	now := time.Unix(1000, 0)
	for _, c := range []struct {
		a    state.Action
		op   string
		want map[string]string
	}{
		{state.Action{Kind: state.ComputeTask, Task: x, RunID: 7}, "compute-task",
			map[string]string{"key": "x", "run_id": "7", "stimulus_id": "compute-task-1000.000", "actor": "false",
				"annotations": "[]"}},
		{state.Action{Kind: state.FreeKeys, Keys: []task.Key{"\xa1x", "\xa1y"}}, "free-keys",
			map[string]string{"keys": "[x y]", "stimulus_id": "free-keys-1000.000"}},
		{state.Action{Kind: state.RemoveReplicas, Keys: []task.Key{"\xa1x"}}, "remove-replicas",
			map[string]string{"keys": "[x]"}},
		{state.Action{Kind: state.AcquireReplicas, Tasks: []*state.Task{x}}, "acquire-replicas",
			map[string]string{"stimulus_id": "acquire-replicas-1000.000"}},
		{state.Action{Kind: state.RefreshWhoHas, Tasks: []*state.Task{x}}, "refresh-who-has",
			map[string]string{"stimulus_id": "refresh-who-has-1000.000"}},
		{state.Action{Kind: state.StealRequest, Key: "\xa1x", Number: 9}, "steal-request",
			map[string]string{"key": "x", "stimulus_id": StealPrefix + "9"}},
		{state.Action{Kind: state.ForgetPeer, Text: "tcp://gone"}, "remove-worker",
			map[string]string{"worker": "tcp://gone"}},
		{state.Action{Kind: state.StatusChange, Status: state.StatusPaused}, "worker-status-change",
			map[string]string{"status": "paused"}},
		{state.Action{Kind: state.CloseWorker, Text: "over"}, "close", map[string]string{"reason": "over"}},
	} {
		h.Do(func() { w.ToWorker(st, &c.a, now) })
		m := next()
		if m.GetString("op") != c.op {
			t.Errorf("got %v, want %s", m, c.op)
		}
		for name, want := range c.want {
			if v, _ := m.Get(name); fmt.Sprint(v) != want {
				t.Errorf("%s: %s: got %v, want %s", c.op, name, v, want)
			}
		}
	}
}

// Short results are passed to workers, and with the report to clients of this module.
func TestValues(t *testing.T) {
	h, w, worker := rig(t)
	x := h.State.Task(task.NewKey("x"))
	h.Do(func() {
		h.Apply(&state.TaskFinished{Worker: worker, Key: x.Key(), RunID: x.RunID(), Value: []byte{7}})
	})
	st, next := stream(t, true)
	h.Do(func() {
		w.ToWorker(st, &state.Action{Kind: state.StoreValues, Tasks: []*state.Task{x}}, time.Unix(1000, 0))
	})
	m := next()
	if data, _ := m.Get("data"); m.GetString("op") != "millstream-values" || fmt.Sprint(data) != "[{x 7}]" {
		t.Errorf("values: got %v, want 7 for x", m)
	}
	// y was released by the event that passed it.
	h.Do(func() {
		w.ToWorker(st, &state.Action{Kind: state.StoreValues, Tasks: []*state.Task{h.State.Task(task.NewKey("y")), x}},
			time.Unix(1000, 0))
	})
	m = next()
	if data, _ := m.Get("data"); fmt.Sprint(data) != "[{x 7}]" {
		t.Errorf("values after a release: got %v, want only x", m)
	}
	for _, ours := range []bool{false, true} {
		st, next := stream(t, ours)
		h.Do(func() { w.ToClient(st, &state.Action{Kind: state.KeyInMemory, Task: x, Text: "\x07"}) })
		m := next()
		if v, ok := m.Get("value"); ok != ours || ours && v != int64(7) {
			t.Errorf("ours %v: got %v, want the value only for ours", ours, m)
		}
	}
}

// A Python spec is sent as a pickle with its buffers in frames, a Go spec as bytes.
func TestRunSpec(t *testing.T) {
	h := hosttest.New(t)
	w := New(h.Log, h.State, 0, 3)
	shared := []byte("\x80\x05")
	st, next := stream(t, false)
	h.Do(func() {
		h.AddWorker("tcp://w", nil)
		spec := specs.Append(nil, 0, []byte("N."), [][]byte{[]byte("buffer")}, true)
		ev := state.UpdateGraph{Client: h.AddClient("c", nil), Keys: []task.Key{task.NewKey("p"), task.NewKey("g")},
			Graph: &state.Graph{Nodes: []state.Node{
				{Key: task.NewKey("p"), Spec: spec, Shared: &shared, Needs: state.Python},
				{Key: task.NewKey("g"), Spec: []byte("MS\x01call")},
			}}}
		h.Apply(&ev)
	})
	for _, key := range []string{"p", "g"} {
		h.Do(func() {
			w.ToWorker(st, &state.Action{Kind: state.ComputeTask, Task: h.State.Task(task.NewKey(key)), RunID: 1},
				time.Now())
		})
		v, _ := next().Get("run_spec")
		switch v := v.(type) {
		case *wire.Pickled:
			if key != "p" || string(v.Data) != "\x80\x05N." || len(v.Buffers) != 1 ||
				string(v.Buffers[0].Bytes()) != "buffer" {
				t.Errorf("%s: got %+v, want a pickle with its buffer", key, v)
			}
		case []byte:
			if key != "g" || string(v) != "MS\x01call" {
				t.Errorf("%s: got %q, want the call", key, v)
			}
		default:
			t.Errorf("%s: got %T", key, v)
		}
	}
}

// Actions are sent as Dask's messages to clients; Millstream clients receive holders and texts.
func TestToClient(t *testing.T) {
	h, w, worker := rig(t)
	h.Do(func() { h.Finish(worker, "x") })
	failure := &state.Failure{Kind: state.ActorLost, Key: task.NewKey("x"), ExceptionText: "why",
		TracebackText: "where"}
	for _, ours := range []bool{false, true} {
		st, next := stream(t, ours)
		x := h.State.Task(task.NewKey("x"))
		send := func(a state.Action) msgpack.Map {
			t.Helper()
			h.Do(func() { w.ToClient(st, &a) })
			return next()
		}
		m := send(state.Action{Kind: state.KeyInMemory, Task: x})
		if holders, _ := m.Get("workers"); m.GetString("op") != "key-in-memory" ||
			ours != (fmt.Sprint(holders) == "[tcp://w]") {
			t.Errorf("ours %v: got %v, want holders only for ours", ours, m)
		}
		m = send(state.Action{Kind: state.KeyErred, Key: x.Key(), Failure: failure})
		if exc, _ := m.Get("exception"); m.GetString("op") != "task-erred" || exc == nil ||
			ours != (m.GetString("traceback_text") == "where") {
			t.Errorf("ours %v: got %v, want a text only for ours", ours, m)
		}
		if m = send(state.Action{Kind: state.LostData, Task: x}); m.GetString("op") != "lost-data" ||
			m.GetString("key") != "x" {
			t.Errorf("message: got %v, want the key x", m)
		}
		if m = send(state.Action{Kind: state.TaskRetried, Task: x}); m.GetString("op") != "task-retried" {
			t.Errorf("message: got %v, want task-retried", m)
		}
		m = send(state.Action{Kind: state.CancelledKeys, Keys: []task.Key{x.Key()}, Text: "why"})
		if v, _ := m.Get("msg"); m.GetString("reason") != "why" || v != nil {
			t.Errorf("message: got %v, want reason why and no msg", m)
		}
		if m = send(state.Action{Kind: state.ClientRestart}); m.GetString("op") != "restart" {
			t.Errorf("message: got %v, want restart", m)
		}
	}
}

// An exception of a worker is forwarded unchanged; one that is created here is created once per failure.
func TestException(t *testing.T) {
	h, w, _ := rig(t)
	h.Do(func() {
		if exc, trace := w.Exception(nil, false); exc != nil || trace != nil {
			t.Error("exception without a failure: got one")
		}
		theirs := &wire.Serialized{Header: []byte("h")}
		if exc, trace := w.Exception(&state.Failure{Exception: theirs, Traceback: theirs}, true); exc != theirs ||
			trace != theirs {
			t.Error("exception of a worker: got another one")
		}
		f := &state.Failure{Kind: state.NoWorkers, Key: task.NewKey("x"), ExceptionText: "nobody"}
		first, _ := w.Exception(f, false)
		if again, _ := w.Exception(f, false); again != first {
			t.Error("exception of the same failure: got a new one")
		}
		ours, _ := w.Exception(f, true)
		if ours == first {
			t.Error("exception for Millstream clients: got that for Python")
		}
		v, err := ours.Decode(wire.DecodeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		tree, err := pickle.Load(v.([]byte), nil, pickle.Limits{})
		if err != nil || !strings.Contains(pickle.Repr(tree), "NoWorkerError") ||
			!strings.Contains(pickle.Repr(tree), "nobody") {
			t.Errorf("exception: got %s, error %v", pickle.Repr(tree), err)
		}
	})
}
