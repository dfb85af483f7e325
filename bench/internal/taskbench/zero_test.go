package taskbench

import (
	"testing"

	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
)

// orders is the body of a message to a worker.
func orders(t testing.TB, list ...msgpack.Map) []byte {
	t.Helper()
	items := make([]any, len(list))
	for i, m := range list {
		items[i] = m
	}
	b, err := msgpack.Append(nil, items)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func compute(key any, run int) msgpack.Map {
	return msgpack.MapOf("op", "compute-task", "key", key, "run_id", run, "priority", []any{0, 1, 2}, "stimulus_id",
		"s-1", "who_has", msgpack.Map{},
		"nbytes", msgpack.Map{}, "run_spec", []byte("spec"), "resource_restrictions", nil, "actor", false,
		"annotations", msgpack.Map{}, "span_id", nil)
}

// Every order is answered, in order, by what a worker says that has computed it.
func TestZeroAnswers(t *testing.T) {
	w := &zeroWorker{}
	err := w.answer(orders(t,
		compute("inc-1", 7), msgpack.MapOf("op", "free-keys", "keys", []any{"old"}, "stimulus_id", "s"),
		compute([]any{"x", 1}, 8), msgpack.MapOf("op", "steal-request", "key", "inc-1", "stimulus_id", "steal-3")))
	if err != nil {
		t.Fatal(err)
	}
	if w.count != 3 {
		t.Fatalf("%d answers", w.count)
	}
	body := append(msgpack.AppendArrayHeader(nil, w.count), w.body.Body...)
	ops := message.ReadOps(body)
	var f message.TaskFinished
	for i, want := range []any{"inc-1", []any{"x", 1}} {
		key, err := msgpack.KeyBytes(want)
		if err != nil {
			t.Fatal(err)
		}
		if !ops.Next() || string(ops.Op()) != "task-finished" {
			t.Fatalf("answer %d is %q, %v", i, ops.Op(), ops.Err())
		}
		if err := f.Read(&ops); err != nil {
			t.Fatal(err)
		}
		if string(f.Key) != string(key) || f.RunID != int64(7+i) || f.Status != "OK" || f.NBytes != 8 ||
			f.StartStops.Stop < f.StartStops.Start || f.StartStops.Start == 0 || f.StimulusID != "s-1" {
			t.Errorf("answer %d: %+v", i, f)
		}
	}
	if !ops.Next() || string(ops.Op()) != "steal-response" {
		t.Fatalf("the theft is answered by %q, %v", ops.Op(), ops.Err())
	}
	raw, err := ops.Raw()
	if err != nil {
		t.Fatal(err)
	}
	v, err := msgpack.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	if m := v.(msgpack.Map); m.GetString("state") != "memory" || m.GetString("stimulus_id") != "steal-3" ||
		m.GetString("key") != "inc-1" {
		t.Errorf("%v", v)
	}
	if err := w.answer(orders(t, msgpack.MapOf("op", "close", "reason", "x"))); err != errClose {
		t.Errorf("close: %v", err)
	}
}

// Whatever a scheduler says, a worker answers or ends.
func FuzzZeroAnswer(f *testing.F) {
	f.Add(orders(f, compute("inc-1", 7), compute(1, 2)))
	f.Add(orders(f, msgpack.MapOf("op", "steal-request", "key", "a", "stimulus_id", "b")))
	f.Add([]byte{0x91, 0x81})
	f.Fuzz(func(t *testing.T, body []byte) {
		w := &zeroWorker{}
		if err := w.answer(body); err != nil {
			return
		}
		ops := message.ReadOps(append(msgpack.AppendArrayHeader(nil, w.count), w.body.Body...))
		n := 0
		for ops.Next() {
			n++
		}
		if ops.Err() != nil || n != w.count {
			t.Errorf("%d answers of %d can be read: %v", n, w.count, ops.Err())
		}
	})
}
