package sidecar

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// newIncarnation returns a process whose replies are read.
func newIncarnation() *incarnation {
	s := New(Config{Logger: slog.New(slog.DiscardHandler), AllowedFailures: 3,
		Worker: Worker{Tasks: context.Background()}})
	s.w.Address = func() string { return "tcp://a:1" }
	return &incarnation{s: s, values: map[uint64]*value{}}
}

func answer(t testing.TB, parts ...any) []byte {
	b, err := msgpack.Append(nil, parts)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestReply(t *testing.T) {
	inc, key := newIncarnation(), task.NewKey("k")
	var r Result
	if err := r.read(inc, key, 2, &pyproc.Message{Body: answer(t, 0, 1.5, 2.5, 7, 28, "int", []byte("T"), true,
		5)}); err != nil {
		t.Fatal(err)
	}
	if v, _ := r.Value.Live(); v != int64(5) || r.NBytes != 28 || r.TypeName != "int" || r.Start != 1_500_000_000 ||
		r.Stop != 2_500_000_000 || r.Thread != 3 {
		t.Errorf("%v %+v", v, r)
	}
	if string(inc.s.Class("int")) != "T" {
		t.Error("got no class")
	}
	inc, r = newIncarnation(), Result{}
	if err := r.read(inc, key, 4, &pyproc.Message{Body: answer(t, 0, 1.5, 2.5, 7, 28, "X", []byte("T"), false,
		nil)}); err != nil {
		t.Fatal(err)
	}
	if v, ok := r.Value.Remote().(*value); !ok || v.handle != 4 || inc.values[4] != v || r.Value.Type() != "X" {
		t.Errorf("%+v", r.Value)
	}
	if lost := inc.markDead(); len(lost) != 1 || lost[0].key != key {
		t.Errorf("lost %v", lost)
	}
	header := answerHeader(t)
	err := r.read(inc, key, 6, &pyproc.Message{Body: answer(t, 1, 1.5, 2.5, 7, "E('x')", "trace", 2, 0),
		Frames: [][]byte{header, []byte("e")}})
	var raised *Error
	if !errors.As(err, &raised) {
		t.Fatal(err)
	}
	if f := raised.Failure; f.ExceptionText != "E('x')" || f.TracebackText != "trace" ||
		f.Exception.(*wire.Serialized).Size() == 0 || f.Traceback != nil {
		t.Errorf("%v: %+v", err, f)
	}
	if err := r.read(inc, key, 8, &pyproc.Message{Body: answer(t, 2, 1.5, 2.5, 7)}); err != task.ErrReschedule {
		t.Error(err)
	}
	// A value in a process that has died meanwhile is not kept: the task runs again.
	err = r.read(inc, key, 10, &pyproc.Message{Body: answer(t, 0, 1.5, 2.5, 7, 28, "X", []byte("T"), false, nil)})
	if !errors.Is(err, task.ErrReschedule) || inc.s.suspects[key] != 1 {
		t.Errorf("got %v, with %d crashes", err, inc.s.suspects[key])
	}
}

func TestReplyRejects(t *testing.T) {
	for name, body := range map[string][]byte{
		"no list":         answer(t)[:0],
		"too short":       answer(t, 0, 1.5, 2.5),
		"another kind":    answer(t, 9, 1.5, 2.5, 7),
		"text for a time": answer(t, 0, "now", 2.5, 7, 28, "int", []byte("T"), true, 5),
		"a time long ago": answer(t, 2, -1.0, 2.5, 7),
		"a negative size": answer(t, 0, 1.5, 2.5, 7, -28, "int", []byte("T"), true, 5),
		"too few parts":   answer(t, 0, 1.5, 2.5, 7, 28, "int", []byte("T"), true),
		"too many frames": answer(t, 1, 1.5, 2.5, 7, "E('x')", "trace", 2, 0),
	} {
		var r Result
		if err := r.read(newIncarnation(), task.NewKey("k"), 2, &pyproc.Message{Body: body}); err == nil ||
			!strings.Contains(err.Error(), "invalid reply") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func answerHeader(t testing.TB) []byte {
	b, err := msgpack.Append(nil, msgpack.MapOf("serializer", "pickle", "num-sub-frames", 1))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Replies of a sidecar are made by user code: none may crash the worker, and implausible values are rejected.
func FuzzReply(f *testing.F) {
	f.Add(answer(f, 0, 1.5, 2.5, 7, 28, "int", []byte("T"), true, 5), answerHeader(f))
	f.Add(answer(f, 0, 1.5, 2.5, 7, -1, "int", []byte("T"), false, nil), answerHeader(f))
	f.Add(answer(f, 1, 1.5, 2.5, 7, "E('x')", "trace", 1, 0), answerHeader(f))
	f.Add(answer(f, 1, 1.5, 2.5, 7, "E('x')", "trace", 1<<60, 1<<60), []byte{})
	f.Add(answer(f, 2, 1e300, -1.0, 7), []byte{0xc1})
	f.Add([]byte{}, []byte{})
	f.Fuzz(func(t *testing.T, body, frame []byte) {
		var r Result
		err := r.read(newIncarnation(), task.NewKey("k"), 2, &pyproc.Message{Body: body, Frames: [][]byte{frame}})
		if err == nil && (r.Value == nil || r.NBytes < 0 || r.Stop < r.Start) {
			t.Errorf("%x: %+v", body, r)
		}
		var a sideArgs
		_ = a.read(body)
		_ = failedPlugins(body)
		_, _ = serializedOf([][]byte{frame})
	})
}

func TestKilledWorker(t *testing.T) {
	var raised *Error
	if !errors.As(killedWorker(task.NewKey("k"), "tcp://a:1", 3), &raised) {
		t.Fatal("got no Python exception")
	}
	f := raised.Failure
	s, ok := f.Exception.(*wire.Serialized)
	if !ok || !strings.Contains(f.ExceptionText, "4 times") {
		t.Fatalf("%+v", f)
	}
	v, err := s.Decode(wire.DecodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b, _ := v.([]byte)
	if !bytes.Contains(b, []byte("KilledWorker")) || !bytes.Contains(b, []byte("tcp://a:1")) {
		t.Errorf("%q", b)
	}
}
