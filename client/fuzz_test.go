package client

import (
	"context"
	"testing"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// offline is a client that has never spoken to anybody and holds keys a and b.
func offline() *Client {
	c := &Client{
		keys: make(map[task.Key]*keyState), graphs: make(map[*graphOut]struct{}), addressAt: make(map[string]int32),
		events: make(map[string][]*subscription), wake: make(chan struct{}, 1),
	}
	c.hold(task.NewKey("a"))
	c.hold(task.NewKey("b"))
	return c
}

func encoded(t testing.TB, v any) *wire.Message {
	t.Helper()
	m, err := wire.Encode(v, wire.EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestHeard(t *testing.T) {
	c := offline()
	exc, err := wire.PickleException(errTest("no"))
	if err != nil {
		t.Fatal(err)
	}
	a, b := c.keys[task.NewKey("a")], c.keys[task.NewKey("b")]
	say := func(v ...any) {
		t.Helper()
		if err := c.heard(encoded(t, v)); err != nil {
			t.Fatal(err)
		}
	}
	say(wire.NewDict("op", "key-in-memory", "key", "a", "workers", []any{"tcp://w"}),
		wire.NewDict("op", "something-new"))
	if a.status != Finished || c.addresses[a.where] != "tcp://w" {
		t.Errorf("in memory: %+v", a)
	}
	say(wire.NewDict("op", "lost-data", "key", "a"))
	if a.status != Lost || a.where != -1 {
		t.Errorf("lost: %+v", a)
	}
	say(wire.NewDict("op", "cancelled-keys", "keys", []any{"a", "nobody's"}, "reason", "r", "msg", "m"))
	if a.status != Canceled || a.err.Error() != "task a: the result was lost with its worker: r: m" {
		t.Errorf("cancelled: %v", a.err)
	}
	say(wire.NewDict("op", "task-erred", "key", "b", "exception", wire.Serialize{Value: exc}, "traceback", nil,
		"traceback_text", "here"))
	e, ok := b.err.(*TaskError)
	if !ok || b.status != Failed || e.Text != "no" || e.Stack != "here" {
		t.Errorf("erred: %+v", b.err)
	}
	say(wire.NewDict("op", "task-retried", "key", "b"))
	if b.status != Pending || b.err != nil {
		t.Errorf("retried: %+v", b)
	}
	say(wire.NewDict("op", "restart"))
	if b.status != Canceled {
		t.Errorf("restarted: %+v", b)
	}
	if err := c.heard(encoded(t, []any{wire.NewDict("op", "close")})); err == nil {
		t.Error("the end of the stream is no error")
	}
}

type errTest string

func (e errTest) Error() string { return string(e) }

func FuzzHeard(f *testing.F) {
	for _, v := range []any{
		wire.NewDict("op", "key-in-memory", "key", "a", "workers", []any{"tcp://w"}, "type", []byte("x")),
		wire.NewDict("op", "task-erred", "key", "b", "exception", []byte("x"), "traceback", nil),
		wire.NewDict("op", "cancelled-keys", "keys", []any{"a"}, "reason", nil),
		wire.NewDict("op", "lost-data", "key", "a"),
		wire.NewDict("op", "event", "topic", "t", "event", []any{1.5, "x"}),
	} {
		f.Add(encoded(f, []any{v}).Body())
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		_ = offline().heard(&wire.Message{Frames: []wire.Frame{wire.HeapFrame(body)}})
	})
}

func FuzzTakeData(f *testing.F) {
	s, err := task.EncodeValue([]float64{1})
	if err != nil {
		f.Fatal(err)
	}
	m := encoded(f, wire.NewDict("status", "OK", "data", wire.NewDict("b", s, "a", 5)))
	f.Add(m.Body(), m.Frames[1].Bytes(), m.Frames[2].Bytes())
	f.Fuzz(func(t *testing.T, body, header, frame []byte) {
		c := offline()
		keys := []*keyState{c.keys[task.NewKey("a")], c.keys[task.NewKey("b")], c.keys[task.NewKey("a")]}
		m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame(body), wire.HeapFrame(header), wire.HeapFrame(frame)}}
		if replyError("get_data", "w", m) != nil {
			return
		}
		got := make([]int, len(keys))
		missing, err := takeData(m, keys, []int{0, 1, 2}, func(i int, v value) error {
			got[i]++
			_, err := valueAs[int](v)
			return err
		})
		if err != nil {
			return
		}
		for _, i := range missing {
			got[i]++
		}
		for i, n := range got {
			if n != 1 {
				t.Fatalf("result %d came or was missing %d times", i, n)
			}
		}
	})
}

func TestTakeDataInAnyOrder(t *testing.T) {
	c := offline()
	keys := []*keyState{c.keys[task.NewKey("a")], c.keys[task.NewKey("b")], {key: task.NewKey("c")}}
	m := encoded(t, wire.NewDict("status", "OK", "data", wire.NewDict("b", 2, "a", 1, "stranger", 9)))
	got := make([]int, 3)
	missing, err := takeData(m, keys, []int{0, 1, 2}, func(i int, v value) (err error) {
		got[i], err = valueAs[int](v)
		return err
	})
	if err != nil || got[0] != 1 || got[1] != 2 || len(missing) != 1 || missing[0] != 2 {
		t.Errorf("got %v, missing %v: %v", got, missing, err)
	}
}

func TestWaiters(t *testing.T) {
	c := offline()
	a, b := c.keys[task.NewKey("a")], c.keys[task.NewKey("b")]
	w := &waiter{failFast: true}
	c.wait(w, []*keyState{a, b, a})
	c.settle(a, Finished, nil)
	select {
	case <-w.ch:
		t.Fatal("b has not ended")
	default:
	}
	c.settle(b, Failed, errTest("x"))
	<-w.ch
	if w.failed != b {
		t.Error("the failure is not known")
	}
	b.status = Pending
	gone := &waiter{}
	c.wait(gone, []*keyState{b})
	c.unwait(gone, []*keyState{b})
	if b.waiters != nil {
		t.Error("a wait that was given up stays")
	}
}

func TestQueueKeepsOrder(t *testing.T) {
	c := offline()
	h := &handle{ks: c.keys[task.NewKey("a")]}
	c.release(h)
	g := c.graphFor(graphOptions{})
	ks, _ := c.hold(task.NewKey("a"))
	g.w.Spec(ks.key, []byte("s"), nil, task.None, 0)
	g.want(ks)
	if again := c.graphFor(graphOptions{}); again != g {
		t.Error("tasks that are submitted one after the other do not travel together")
	}
	if other := c.graphFor(graphOptions{actors: true}); other == g {
		t.Error("tasks with other options travel together")
	}
	items, m := c.take()
	if len(items) != 3 || items[0].raw == nil || items[1].graph != g {
		t.Fatalf("%d messages", len(items))
	}
	var names []string
	ops := wire.ReadOps(m.Body())
	for ops.Next() {
		names = append(names, string(ops.Op()))
	}
	if ops.Err() != nil || len(names) != 3 || names[0] != "client-releases-keys" || names[1] != "update-graph" {
		t.Errorf("ops %v, %v", names, ops.Err())
	}
	if err := msgpackOnly(m.Body()); err != nil {
		t.Error(err)
	}
}

func TestQueueIsBounded(t *testing.T) {
	c := offline()
	c.ctx = context.Background()
	c.out, c.queued = []outItem{{raw: opMessage("x")}}, maxQueued
	ctx, cancel := context.WithCancel(c.ctx)
	cancel()
	if err := c.room(ctx); err != context.Canceled {
		t.Errorf("a full queue: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- c.room(c.ctx) }()
	c.take()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func msgpackOnly(b []byte) error {
	_, err := msgpack.Decode(b)
	return err
}
