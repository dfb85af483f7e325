package dask

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/secure"
	"go.millstream.dev/tests/dask/rig"
	"go.millstream.dev/wire"
)

// hostile is a client that sends what no client of Dask's would.
type hostile struct {
	*rig.Rig
	name string
	comm comm.Comm
}

func newHostile(r *rig.Rig, scheduler, name string) *hostile {
	r.Helper()
	c, err := comm.Default.Dial(r.Context, scheduler, r.Dial(secure.Client))
	if err != nil {
		r.Fatal(err)
	}
	h := &hostile{r, name, c}
	if err := rpc.Notify(r.Context, c, "register-client", msgpack.MapOf("client", name, "versions",
		msgpack.Map{})); err != nil {
		r.Fatal(err)
	}
	if m := h.read(); m[0].GetString("op") != "stream-start" {
		r.Fatalf("the scheduler says %v", m)
	}
	return h
}

// read is the next batch, nil after the end of the stream.
func (h *hostile) read() (out []msgpack.Map) {
	h.Helper()
	ctx, cancel := context.WithTimeout(h.Context, rig.Patience)
	defer cancel()
	m, err := h.comm.Read(ctx)
	if err != nil {
		if !errors.Is(err, comm.ErrClosed) {
			h.Errorf("%s: %v", h.name, err)
		}
		return nil
	}
	defer m.Release()
	v, err := wire.Decode(m, wire.DecodeOptions{})
	if err != nil {
		h.Fatalf("%s: %v", h.name, err)
	}
	list, ok := wire.Clone(v).([]any)
	if !ok {
		list = []any{wire.Clone(v)}
	}
	for _, x := range list {
		out = append(out, x.(msgpack.Map))
	}
	return out
}

func (h *hostile) write(v any) {
	h.Helper()
	m, err := wire.Encode(v, h.comm.Info().EncodeOptions())
	if err != nil {
		h.Fatal(err)
	}
	defer m.Release()
	if err := h.comm.Write(h.Context, m); err != nil {
		h.Fatalf("%s: %v", h.name, err)
	}
}

// submit sends a pickle as a graph and returns what the client is told about key.
func (h *hostile) submit(data []byte, key string) string {
	h.Helper()
	expr := &wire.Serialized{Header: []byte("\x83\xaaserializer\xa6pickle\xa9writeable\x90\xaenum-sub-frames\x01"),
		Frames: []wire.Frame{wire.HeapFrame(data)}}
	h.write([]any{wire.NewDict("op", "update-graph", "expr_ser", expr, "keys", wire.Set{key}, "internal_priority",
		wire.NewDict(key, 0), "submitting_task", nil,
		"fifo_timeout", "100 ms", "actors", false, "code", wire.ToPickle{Value: pickle.Tuple{}}, "annotations",
		wire.ToPickle{Value: new(pickle.Dict)}, "span_metadata", wire.ToPickle{Value: new(pickle.Dict)})})
	for {
		batch := h.read()
		if batch == nil {
			h.Errorf("%s: the stream has ended", h.name)
			return ""
		}
		for _, m := range batch {
			if m.GetString("key") != key && !strings.Contains(fmt.Sprint(m), key) {
				continue
			}
			switch m.GetString("op") {
			case "task-erred":
				e, _ := m.Get("exception")
				return "error: " + exceptionText(e)
			case "cancelled-keys":
				return "cancelled: " + m.GetString("reason")
			case "key-in-memory":
				return "done"
			}
		}
	}
}

// exceptionText reads the exception that a client would raise.
func exceptionText(v any) string {
	b, ok := v.([]byte)
	if !ok {
		return fmt.Sprint(v)
	}
	tree, err := pickle.Load(b, nil, pickle.Limits{})
	if err != nil {
		return err.Error()
	}
	if e, ok := pickle.AsException(tree); ok {
		return e.Error()
	}
	return pickle.Repr(tree)
}

// named waits for the scheduler's log to name a client, or where it comes from.
func (h *hostile) named(s *rig.Process) bool {
	for deadline := time.Now().Add(rig.Patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if log := s.Log(); strings.Contains(log, h.name) || strings.Contains(log, h.comm.LocalAddr()) {
			return true
		}
	}
	return false
}

// A task as Dask pickles it, and the expressions around tasks.
func hostileTask(key, fn pickle.Value, args pickle.Tuple, deps ...pickle.Value) *pickle.Object {
	return pickle.New(pickle.Global{Module: "dask._task_spec", Name: "Task"}).WithState(
		pickle.Tuple{false, &pickle.FrozenSet{Items: deps}, nil, nil, nil, args, fn, key, new(pickle.Dict)})
}

func hostileMap(iterable, keys pickle.Value) *pickle.Object {
	return pickle.Call(pickle.Global{Module: "dask._expr", Name: "Expr._reconstruct"},
		pickle.Global{Module: "distributed.client", Name: "_MapExpr"},
		pickle.Global{Module: "operator", Name: "neg"}, pickle.Tuple{iterable}, "neg", true, new(pickle.Dict),
		new(pickle.Dict), keys, "token", new(pickle.Dict))
}

func hostilePickle(t *testing.T, v pickle.Value) []byte {
	t.Helper()
	b, err := pickle.Append(nil, v, pickle.Options{Protocol: 5})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func call(module, name string, args ...pickle.Value) pickle.Value {
	return pickle.Call(pickle.Global{Module: module, Name: name}, args...)
}

// hostileCase is a graph for the key "k".
type hostileCase struct {
	name string
	data []byte
	want string // in what the client is told
}

func (c hostileCase) run(r *rig.Rig, s *rig.Process) {
	r.Helper()
	h := newHostile(r, s.Address, "hostile-"+strings.ReplaceAll(c.name, " ", "-"))
	defer func() { _ = h.comm.Close() }()
	told := h.submit(c.data, "k")
	if !strings.Contains(told, c.want) {
		r.Errorf("%s: the client is told %.300q, want something with %q", c.name, told, c.want)
	}
	if !strings.HasPrefix(told, "cancelled") && !h.named(s) {
		r.Errorf("%s: the log does not name the client", c.name)
	}
}

// Pickled graphs that are broken, or made to hurt: the client is told, the scheduler's log
// names it, and all others are served as before.
func TestSchedulerHostileGraphs(t *testing.T) {
	r := rig.New(t)
	s := r.Scheduler()
	r.DaskWorker(s.Address)
	neg := pickle.Global{Module: "operator", Name: "neg"}
	dump := func(v pickle.Value) []byte { return hostilePickle(t, v) }
	good := dump(pickle.NewGraph(pickle.NewDict("k", hostileTask("k", neg, pickle.Tuple{int64(1)})), ""))
	for _, c := range []hostileCase{
		{"truncated", good[:len(good)-20], "truncated pickle"},
		{"nothing", nil, "error"},
		{"text", []byte("hello"), "error"},
		{"bytes of 2^60", []byte("\x80\x05\x8e\x00\x00\x00\x00\x00\x00\x00\x10abc."), "error"},
		{"a frame of 2^63", []byte("\x80\x05\x95\xff\xff\xff\xff\xff\xff\xff\x7fN."), "error"},
		{"a number of 2^31 bytes", []byte("\x80\x05\x8b\xff\xff\xff\x7fabc."), "error"},
		{"a memo place of 2^32", []byte("\x80\x05Nr\xff\xff\xff\xff."), "error"},
		{"marks", []byte("\x80\x05" + strings.Repeat("(", 1<<20) + "N."), "error"},
		{"depth", []byte("\x80\x05" + strings.Repeat("]", 1<<18) + strings.Repeat("a", 1<<18-1) + "."), "error"},
		{"no expression", dump("hello"), "error"},
		{"no such module", dump(call("no.such.module", "x")), "Error during deserialization"},
		{"an expression that is none", dump(pickle.Call(pickle.Global{Module: "dask._expr", Name: "Expr._reconstruct"},
			pickle.Global{Module: "dask._expr", Name: "LLGExpr"}, int64(1), "t", new(pickle.Dict))), "error"},
		{"another key", dump(pickle.NewGraph(pickle.NewDict("other", hostileTask("other", neg, pickle.Tuple{int64(1)})),
			"")), "lost"},
		{"a circle",
			dump(pickle.NewGraph(pickle.NewDict("k", hostileTask("k", neg, pickle.Tuple{pickle.NewTaskRef("b")}, "b"),
				"b", hostileTask("b", neg, pickle.Tuple{pickle.NewTaskRef("k")}, "k")), "")), "cycle"},
		{"a task that needs itself",
			dump(pickle.NewGraph(pickle.NewDict("k", hostileTask("k", neg, pickle.Tuple{pickle.NewTaskRef("k")}, "k")),
				"")), "cycle"},
		{"a lost dependency",
			dump(pickle.NewGraph(pickle.NewDict("k", hostileTask("k", neg, pickle.Tuple{pickle.NewTaskRef("nobody")},
				"nobody")), "")), "lost"},
		{"memory", dump(call("builtins", "bytearray", int64(1)<<45)), "Error during deserialization"},
		{"the end of the process", dump(call("os", "_exit", int64(3))), "processes crashed"},
		{"the end of the scheduler", dump(call("os", "kill", call("os", "getppid"), int64(9))), "error"},
	} {
		c.run(r, s)
	}
	h := newHostile(r, s.Address, "hostile-good")
	if told := h.submit(good, "k"); told != "done" {
		t.Errorf("afterwards a good graph gets %q", told)
	}
	_ = h.comm.Close()
	r.Script(s.Address, `
check("submit", client.submit(lambda x: x + 1, 1).result(), 2)
check("graph", int((da.ones(10, chunks=5) + 1).sum().compute()), 20)
`)
}

// A few bytes that keep Python busy for years: its process is ended, and the client is told.
func TestSchedulerHostileTime(t *testing.T) {
	r := rig.New(t)
	s := r.Scheduler("--graph-timeout", "4s")
	laughs := call("distributed.client", "Future", "f")
	for range 64 {
		laughs = &pickle.List{Items: []pickle.Value{laughs, laughs}}
	}
	million := call("builtins", "range", int64(0), int64(1_000_000), int64(1))
	for _, c := range []hostileCase{
		{"2^64 futures", hostilePickle(t, hostileMap(&pickle.List{Items: []pickle.Value{laughs}},
			&pickle.List{Items: []pickle.Value{"k"}})), "graph-timeout"},
		{"a million keys", hostilePickle(t, hostileMap(million, million)), "graph-timeout"},
	} {
		if len(c.data) > 1<<10 {
			t.Errorf("%s: %d bytes", c.name, len(c.data))
		}
		c.run(r, s)
	}
	_ = newHostile(r, s.Address, "afterwards").comm.Close()
}

// Messages that are no update-graph end the stream of the one who sent them, by name.
func TestSchedulerHostileMessages(t *testing.T) {
	r := rig.New(t)
	s := r.Scheduler()
	for name, m := range map[string]any{
		"op":     wire.NewDict("op", "no-such-op"),
		"keys":   wire.NewDict("op", "update-graph", "expr_ser", nil, "keys", 5),
		"bare":   "hello",
		"number": []any{int64(1)},
		"empty":  wire.NewDict("op", "update-graph"),
		"nested": []any{[]any{wire.NewDict("op", "heartbeat-client")}},
	} {
		h := newHostile(r, s.Address, "hostile-"+name)
		h.write(m)
		deadline := time.Now().Add(rig.Patience)
		for h.read() != nil && time.Now().Before(deadline) {
		}
		if !h.named(s) {
			t.Errorf("%s: the log does not name the client", name)
		}
		_ = h.comm.Close()
	}
	r.Script(s.Address, `check("alive", client.scheduler_info()["type"], "Scheduler")`)
}
