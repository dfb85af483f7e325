package history

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/hosttest"
)

func finished(key string, start, stop float64) *message.TaskFinished {
	return &message.TaskFinished{Key: task.NewKey(key), StartStops: message.StartStops{Start: start, Stop: stop},
		NBytes: 7, Thread: 3, TypeName: "int", Type: []byte("pickle"), StimulusID: "stim"}
}

// The latest completed tasks are kept, with increasing numbers.
func TestTaskStream(t *testing.T) {
	h := hosttest.New(t)
	s := NewTaskStream(h.Loop, 3)
	h.Serve(s.Register)
	h.Do(func() {
		for i := range 5 {
			s.Finished("tcp://w", finished(fmt.Sprint("t", i), float64(i), float64(i)+0.5))
		}
	})
	if n := h.Call("get_task_stream_index"); n != int64(5) {
		t.Errorf("index: got %v, want 5", n)
	}
	keys := func(v any) (out []string) {
		for _, x := range v.([]any) {
			m := x.(msgpack.Map)
			out = append(out, m.GetString("key"))
		}
		return out
	}
	for want, args := range map[string][]any{
		"[t2 t3 t4]": {}, "[t4]": {"start_index", 4}, "[t3 t4]": {"count", 2}, "[t2 t3]": {"stop", 3.2},
		"[t3 t4] ": {"start", 3.4}, "[]": {"start_index", 9},
	} {
		if got := fmt.Sprint(keys(h.Call("get_task_stream", args...))); got != strings.TrimSpace(want) {
			t.Errorf("%v: got %s, want %s", args, got, want)
		}
	}
	one := h.Call("get_task_stream", "count", 1).([]any)[0].(msgpack.Map)
	if one.GetString("status") != "OK" || one.GetString("worker") != "tcp://w" || one.GetString("typename") != "int" ||
		one.GetString("stimulus_id") != "stim" {
		t.Errorf("task: got %v", one)
	}
	h.Do(func() {
		parts, err := msgpack.Append(nil, []any{msgpack.MapOf("action", "compute", "start", 8.0, "stop", 9.0)})
		if err != nil {
			t.Fatal(err)
		}
		s.Erred("tcp://w", &message.TaskErred{Key: task.NewKey("bad"), StartStops: message.StartStops{Raw: parts},
			Thread: 4, ExceptionText: strings.Repeat("e", 2*maxFailureText), TracebackText: "tb"})
	})
	one = h.Call("get_task_stream", "count", 1).([]any)[0].(msgpack.Map)
	if one.GetString("status") != "error" || len(one.GetString("exception_text")) != maxFailureText ||
		one.GetString("traceback_text") != "tb" {
		t.Errorf("failed task: got %.200v", one)
	}
	b, err := s.JSON(t.Context(), 5, 0)
	var answer struct {
		Next  int64
		Tasks []struct{ Key, Status string }
	}
	if err == nil {
		err = json.Unmarshal(b, &answer)
	}
	if err != nil || answer.Next != 6 || len(answer.Tasks) != 1 || answer.Tasks[0].Key != "bad" ||
		answer.Tasks[0].Status != "error" {
		t.Errorf("JSON: got %s, error %v", b, err)
	}
	none := NewTaskStream(h.Loop, -1)
	h.Do(func() {
		none.Finished("w", finished("x", 1, 2))
		none.Erred("w", &message.TaskErred{Key: "x"})
		none.since(0, 0, func(int64, *taskEnd) { t.Error("ring of length 0: got an entry") })
	})
}

// Slots are reused: their previous contents are deleted, and parts that are too long are left out.
func TestTaskStreamSlots(t *testing.T) {
	s := NewTaskStream(nil, 1)
	parts := func(n int) []byte {
		var list []any
		for range n {
			list = append(list, msgpack.MapOf("action", "transfer", "start", 1.0, "stop", 2.0))
		}
		b, err := msgpack.Append(nil, list)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	f := finished("long", 1, 2)
	f.StartStops.Raw = parts(3)
	s.Finished("a", f)
	if n := len(s.at(0).actions()); n != 3 {
		t.Errorf("got %d parts, want 3", n)
	}
	f = finished("x", 5, 6)
	f.StartStops.Raw = parts(maxParts)
	s.Finished("b", f)
	if e := s.at(0); string(e.key) != string(task.NewKey("x")) || e.worker != "b" || len(e.actions()) != 1 ||
		e.actions()[0] != (part{"compute", 5, 6}) {
		t.Errorf("slot: got %+v", e)
	}
	for i := range 2 * maxResultTypes {
		f.TypeName = fmt.Sprint("type", i)
		s.Finished("b", f)
	}
	if len(s.types) > maxResultTypes {
		t.Errorf("classes: got %d, want at most %d", len(s.types), maxResultTypes)
	}
}

// A collector has the states and the metadata of tasks that are submitted while it is active.
func TestCollectors(t *testing.T) {
	h := hosttest.New(t)
	s := NewCollectors(h.Loop, h.Apply)
	h.Serve(s.Register)
	h.Fails("found 0", "stop_task_metadata", "name", "m")
	h.Do(func() { s.Submitted([]task.Key{task.NewKey("before")}) })
	h.Call("start_task_metadata", "name", "m")
	x, y, other := task.NewKey("x"), task.NewKey("y"), task.NewKey("other")
	h.Do(func() {
		s.Submitted([]task.Key{x, y})
		if !s.Follows(x) || s.Follows(other) || s.Follows(task.NewKey("before")) {
			t.Error("Follows: got the wrong value")
		}
		s.Finished(x, []byte("\x81\xa1k\x01"))
		s.Finished(other, []byte("\x80"))
		for k, to := range map[task.Key]state.TaskState{x: state.Memory, y: state.Erred, other: state.Memory} {
			s.Moved(&state.Action{Key: k, To: state.Processing})
			s.Moved(&state.Action{Key: k, To: to})
		}
		if s.Follows(x) {
			t.Error("Follows of a task that is done: got true, want false")
		}
	})
	m := h.Call("stop_task_metadata", "name", "m").(msgpack.Map)
	meta, _ := m.Get("metadata")
	states, _ := m.Get("state")
	got := states.(msgpack.Map)
	if len(got) != 2 || got.GetString("x") != "memory" || got.GetString("y") != "erred" {
		t.Errorf("states: got %v, want x in memory and y erred", got)
	}
	if v, _ := meta.(msgpack.Map).Get("x"); v.(msgpack.Map)[0].Value != int64(1) {
		t.Errorf("metadata: got %v, want 1 of x", meta)
	}
	h.Fails("found 0", "stop_task_metadata", "name", "m")
	h.Do(func() {
		for i := range maxCollectors {
			s.byName[fmt.Sprint(i)] = &collector{}
		}
	})
	h.Fails("have not been stopped", "start_task_metadata", "name", "one more")
}

// The log keeps lines with their attributes and groups, also those that the next handler drops.
func TestLogHandler(t *testing.T) {
	next := slog.NewTextHandler(nil2{}, &slog.HandlerOptions{Level: slog.LevelError})
	r := NewLogHandler(next)
	log := slog.New(r).With("a", 1).WithGroup("g").With("b", 2)
	log.Info("one", "c", 3)
	log.Debug("dropped")
	log.Error("two\nlines")
	h := hosttest.New(t)
	h.Serve(r.Lines.Register)
	for _, op := range []string{"get_logs", "logs"} {
		list := h.Call(op).([]any)
		if len(list) != 2 {
			t.Fatalf("%s: got %v, want two lines", op, list)
		}
		first := fmt.Sprint(list[0].([]any)[1])
		for _, want := range []string{"one", "a=1", "b=2", "c=3"} {
			if !strings.Contains(first, want) {
				t.Errorf("got %q, want %s in it", first, want)
			}
		}
		if second := fmt.Sprint(list[1].([]any)[1]); strings.Contains(second, "\n") {
			t.Errorf("line: got %q, want no line break", second)
		}
	}
	if list := h.Call("get_logs", "n", 1, "timestamps", true).([]any); len(list) != 1 || len(list[0].([]any)) != 3 {
		t.Errorf("last line with its time: got %v", list)
	}
	if list := h.Call("get_logs", "start", float64(time.Now().Add(time.Hour).Unix())).([]any); len(list) != 0 {
		t.Errorf("lines after now: got %v, want none", list)
	}
	if !r.Enabled(context.Background(), slog.LevelInfo) || r.Enabled(context.Background(), slog.LevelDebug) {
		t.Error("Enabled: got the wrong value")
	}
}

type nil2 struct{}

func (nil2) Write(p []byte) (int, error) { return len(p), nil }

// JSON has all kept transfers.
func TestTransfersJSON(t *testing.T) {
	h := hosttest.New(t)
	l := NewTransfers(h.Loop, 2)
	h.Do(func() {
		for i := range 3 {
			l.Add("tcp://w", ReadTransfers(report([]any{[]any{1.0, 2.0, int64(i), "tcp", "tcp://p", "incoming",
				int64(1)}}, nil)))
		}
		if got := l.Totals()["tcp"]; got.Transfers != 3 || got.Bytes != 3 {
			t.Errorf("totals: got %+v, want 3 transfers of 3 bytes", got)
		}
	})
	b, err := l.JSON(t.Context())
	var v struct{ Transfers []struct{ Bytes int64 } }
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil || len(v.Transfers) != 2 || v.Transfers[0].Bytes != 1 || v.Transfers[1].Bytes != 2 {
		t.Errorf("got %s, %v, want the last two", b, err)
	}
}

// Transfers are summed by transport, by scheme where that is not known, and each once.
func TestTransports(t *testing.T) {
	l := NewTransfers(nil, 0)
	l.Add("tcp://w", ReadTransfers(report([]any{[]any{1.0, 2.0, int64(4), "tcp", "tcp://p", "incoming",
		int64(1)}}, nil)))
	l.Add("tcp://w", ReadTransfers(report(nil, msgpack.MapOf("ucx", []any{int64(2), int64(9), 1.0}))))
	l.Add("tcp://w", ReadTransfers(report([]any{[]any{1.0, 2.0, int64(7), "ucx", "tcp://p", "incoming", int64(1),
		"cma"}, []any{1.0, 2.0, int64(7), "ucx", "tcp://p", "outgoing", int64(1), "cma"}}, nil)))
	want := map[string]SchemeTotal{"tcp": {4, 1, 1}, "ucx": {9, 2, 1}, "cma": {7, 1, 1}}
	if got := l.Transports(); !maps.Equal(got, want) {
		t.Errorf("by transport: got %+v, want %+v", got, want)
	}
}
