package message_test

import (
	"bytes"
	"fmt"
	"testing"

	"go.millstream.dev/internal/testkit/wiretest"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// finished is a worker's report as Python writes it.
func finished(i int) wire.Dict {
	return wire.NewDict("op", "task-finished", "key", []any{"inc-0123456789abcdef0123456789abcdef", int64(i)}, "run_id",
		int64(100+i), "nbytes", int64(28),
		"type", []byte("\x80\x05\x95\x14\x00\x00\x00\x00\x00\x00\x00\x8c\x08builtins\x94\x8c\x03int\x94\x93\x94."),
		"typename", "int", "metadata", wire.Dict{},
		"thread", int64(140245678901234), "startstops", []any{wire.NewDict("action", "compute", "start", 1700000000.25,
			"stop", 1700000000.5)},
		"status", "OK", "stimulus_id", fmt.Sprintf("task-finished-%d.5", 1700000000+i))
}

// golden are the messages that the real packages wrote.
func golden(t testing.TB) []wiretest.Case {
	t.Helper()
	cases, err := wiretest.Load("../../../wire/testdata/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	return cases
}

func body(t testing.TB, v any) []byte {
	t.Helper()
	b, err := msgpack.Append(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// batchOf is a stream message of n reports.
func batchOf(t testing.TB, n int) []byte {
	var list []any
	for i := range n {
		list = append(list, finished(i))
	}
	return body(t, list)
}

func TestTaskFinished(t *testing.T) {
	ops := message.ReadOps(batchOf(t, 3))
	var f message.TaskFinished
	n := 0
	for ops.Next() {
		if string(ops.Op()) != "task-finished" {
			t.Fatalf("op %q", ops.Op())
		}
		if err := f.Read(&ops); err != nil {
			t.Fatal(err)
		}
		key, err := msgpack.KeyBytes([]any{"inc-0123456789abcdef0123456789abcdef", n})
		if err != nil {
			t.Fatal(err)
		}
		if f.Key != message.Key(key) || f.RunID != int64(100+n) || f.NBytes != 28 || f.TypeName != "int" ||
			f.Thread != 140245678901234 ||
			f.Status != "OK" || f.StartStops.Start != 1700000000.25 || f.StartStops.Stop != 1700000000.5 ||
			len(f.Type) == 0 ||
			len(f.StartStops.Raw) == 0 ||
			!bytes.Equal(f.Metadata, []byte{0x80}) || f.StimulusID != fmt.Sprintf("task-finished-%d.5",
			1700000000+n) {
			t.Errorf("message %d: %+v", n, f)
		}
		n++
	}
	if ops.Err() != nil || n != 3 {
		t.Errorf("%d messages, %v", n, ops.Err())
	}
}

// TestGoldenOps walks over what Python sent.
func TestGoldenOps(t *testing.T) {
	seen := make(map[string]int)
	for _, c := range golden(t) {
		if c.Kind != "message" {
			continue
		}
		m := c.Message()
		ops := message.ReadOps(m.Body())
		for ops.Next() {
			var err error
			switch op := string(ops.Op()); op {
			case "task-finished":
				var f message.TaskFinished
				if err = f.Read(&ops); err == nil && (f.RunID == 0 || f.StartStops.Stop == 0 || len(f.Key) == 0) {
					t.Errorf("%s: %+v", c.Name, f)
				}
				seen[op]++
			case "compute-task":
				var f message.ComputeTask
				if err = f.Read(&ops); err != nil {
					break
				}
				v, err := f.RunSpec.Decode(m, wire.DecodeOptions{})
				if err != nil || wiretest.Describe(v, false) != "(i1,s73706563)" || !f.RunSpec.Pickled ||
					f.RunID != 21 || f.SpanID != "u-1" || f.Actor || f.Annotations.Frame != 0 {
					t.Errorf("%s: %+v, %v, %v", c.Name, f, v, err)
				}
				seen[op]++
			case "update-graph":
				var f message.UpdateGraph
				if err = f.Read(&ops); err != nil {
					break
				}
				var keys []string
				err = message.EachKey(f.Keys.Raw, func(k []byte) error { keys = append(keys, string(k)); return nil })
				if fmt.Sprint(keys) != "[\xa5add-1]" || f.Expr.Frame != 1 || f.Expr.Pickled ||
					f.SubmittingTask != "" || f.InternalPriority == nil || !f.Code.Pickled {
					t.Errorf("%s: %+v, %q", c.Name, f, keys)
				}
				v, err2 := f.SpanMetadata.Decode(m, wire.DecodeOptions{})
				if err2 != nil || v == nil {
					t.Errorf("%s: %v, %v", c.Name, v, err2)
				}
				seen[op]++
			default:
				var raw []byte
				if raw, err = ops.Raw(); err == nil {
					_, err = msgpack.Decode(raw)
				}
			}
			if err != nil {
				t.Errorf("%s: %v", c.Name, err)
			}
		}
	}
	if seen["task-finished"] != 3 || seen["compute-task"] != 1 || seen["update-graph"] != 1 {
		t.Errorf("seen %v", seen)
	}
}

func TestOpsShapes(t *testing.T) {
	// A bare map, an op that is not first, none at all, skipped messages, other keys.
	list := []any{wire.NewDict("key", "a", "op", "x"), wire.NewDict("key", "b"), wire.NewDict(int64(5), 1, "op", "y"),
		wire.Dict{}}
	ops := message.ReadOps(body(t, list))
	var got []string
	for ops.Next() {
		got = append(got, string(ops.Op()))
	}
	if fmt.Sprint(got) != "[x  y ]" || ops.Err() != nil {
		t.Errorf("got %q, %v", got, ops.Err())
	}
	ops = message.ReadOps(body(t, finished(1)))
	n := 0
	for ops.Next() {
		if raw, err := ops.Raw(); err != nil || !bytes.Equal(raw, body(t, finished(1))) {
			t.Errorf("raw: %v", err)
		}
		n++
	}
	if n != 1 || ops.Err() != nil {
		t.Errorf("a bare map: %d messages, %v", n, ops.Err())
	}
	for _, bad := range [][]byte{nil, body(t, "OK"), body(t, []any{int64(1)}), append(batchOf(t, 1), 0),
		batchOf(t, 2)[:100], {0xdd, 0xff, 0xff, 0xff, 0xff}} {
		ops := message.ReadOps(bad)
		for ops.Next() {
			var f message.TaskFinished
			_ = f.Read(&ops)
		}
		if ops.Err() == nil {
			t.Errorf("%.20q: no error", bad)
		}
	}
	for _, wrong := range []wire.Dict{
		wire.NewDict("op", "task-finished", "key", nil), wire.NewDict("op", "task-finished", "run_id", "x"),
		wire.NewDict("op", "task-finished", "startstops", []any{int64(1)}),
	} {
		ops := message.ReadOps(body(t, wrong))
		var f message.TaskFinished
		if !ops.Next() || f.Read(&ops) == nil || ops.Err() == nil {
			t.Errorf("%v: no error", wrong)
		}
	}
}

// walk is what a scheduler does with a batch.
func walk(t testing.TB, b []byte, f *message.TaskFinished) (n int) {
	ops := message.ReadOps(b)
	for ops.Next() {
		if err := f.Read(&ops); err != nil {
			t.Fatal(err)
		}
		n++
	}
	if ops.Err() != nil {
		t.Fatal(ops.Err())
	}
	return n
}

func TestOpsAllocateNothing(t *testing.T) {
	b := batchOf(t, 100)
	var f message.TaskFinished
	if n := testing.AllocsPerRun(20, func() { walk(t, b, &f) }); n != 0 {
		t.Errorf("%v allocations for a batch", n)
	}
	compute := body(t, []any{wire.NewDict("op", "compute-task", "key", "k", "run_spec", wire.NewDict("__Pickled__", 1),
		"who_has", wire.NewDict("a", []any{"x"}), "annotations", wire.Dict{})})
	graph := body(t, []any{wire.NewDict("op", "update-graph", "keys", []any{"a", []any{"b", 1}}, "expr_ser",
		wire.NewDict("__Serialized__", 1), "submitting_task", nil)})
	var c message.ComputeTask
	var u message.UpdateGraph
	if n := testing.AllocsPerRun(20, func() {
		ops := message.ReadOps(compute)
		if !ops.Next() || c.Read(&ops) != nil || c.RunSpec.Frame != 1 {
			t.Fatal("compute-task")
		}
		ops = message.ReadOps(graph)
		if !ops.Next() || u.Read(&ops) != nil || u.Expr.Frame != 1 {
			t.Fatal("update-graph")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkTaskFinished decodes batches of 100 reports.
func BenchmarkTaskFinished(b *testing.B) {
	batch := batchOf(b, 100)
	var f message.TaskFinished
	b.SetBytes(int64(len(batch)))
	b.ReportAllocs()
	for b.Loop() {
		if walk(b, batch, &f) != 100 {
			b.Fatal("lost some")
		}
	}
}
