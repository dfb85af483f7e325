package tracker

import (
	"errors"
	"testing"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
)

func TestReceive(t *testing.T) {
	c := offline(t)
	exc, err := pickle.DumpException(errors.New("no"))
	if err != nil {
		t.Fatal(err)
	}
	a, b := c.keys.Get(task.NewKey("a")), c.keys.Get(task.NewKey("b"))
	say := func(v ...any) {
		t.Helper()
		if err := c.Receive(encoded(t, v)); err != nil {
			t.Fatal(err)
		}
	}
	say(wire.NewDict("op", "key-in-memory", "key", "a", "workers", []any{"tcp://w"}),
		wire.NewDict("op", "something-new"))
	if a.status != Finished || c.addresses.list[a.where] != "tcp://w" {
		t.Errorf("in memory: got %+v, want finished at tcp://w", a)
	}
	say(wire.NewDict("op", "lost-data", "key", "a"))
	if a.status != Lost || a.where != -1 {
		t.Errorf("lost: got %+v, want lost without a place", a)
	}
	say(wire.NewDict("op", "cancelled-keys", "keys", []any{"a", "unknown"}, "reason", "r", "msg", "m"))
	if a.status != Canceled || a.err.Error() != "task a: result lost with its worker: r: m" {
		t.Errorf("cancelled: %v", a.err)
	}
	say(wire.NewDict("op", "task-erred", "key", "b", "exception", wire.Serialize{Value: exc}, "traceback", nil,
		"traceback_text", "here"))
	e, ok := b.err.(*failure)
	if !ok || b.status != Failed || e.exception != "RuntimeError: no" || e.traceback != "here" {
		t.Errorf("erred: %+v", b.err)
	}
	say(wire.NewDict("op", "task-retried", "key", "b"))
	if b.status != Pending || b.err != nil {
		t.Errorf("retried: got %+v, want pending without an error", b)
	}
	say(wire.NewDict("op", "restart"))
	if b.status != Canceled {
		t.Errorf("restarted: got %+v, want canceled", b)
	}
	if err := c.Receive(encoded(t, []any{wire.NewDict("op", "close")})); err == nil {
		t.Error("end of the stream: got nil, want an error")
	}
}

func FuzzReceive(f *testing.F) {
	for _, v := range []any{
		wire.NewDict("op", "key-in-memory", "key", "a", "workers", []any{"tcp://w"}, "type", []byte("x")),
		wire.NewDict("op", "task-erred", "key", "b", "exception", []byte("x"), "traceback", nil),
		wire.NewDict("op", "cancelled-keys", "keys", []any{"a"}, "reason", nil),
		wire.NewDict("op", "lost-data", "key", "a"),
		unrunnable(true, shortage("why", true, "a")),
		wire.NewDict("op", "task-retried", "key", "b"),
		wire.NewDict("op", "event", "topic", "t", "event", []any{1.5, "x"}),
	} {
		f.Add(encoded(f, []any{v}).Body())
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		_ = offline(t).Receive(&wire.Message{Frames: []wire.Frame{wire.HeapFrame(body)}})
	})
}
