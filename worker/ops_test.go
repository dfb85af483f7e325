package worker_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker"
)

func TestScatterGather(t *testing.T) {
	transports(t, func(t *testing.T, d *director) {
		a, seen := d.worker(t, worker.Config{})
		b, _ := d.worker(t, worker.Config{Dial: comm.DialConfig{Timeout: 200 * time.Millisecond}})
		big := bytes.Repeat([]byte("m"), 1<<20)
		data := msgpack.Map{{Key: "n", Value: 5}, {Key: "big", Value: wire.Serialize{Value: big}},
			{Key: []any{"x", 1}, Value: wire.Serialize{Value: "tuple"}}}
		var reply msgpack.Map
		d.call(t, a.Address(), "update_data", msgpack.MapOf("data", data), &reply)
		sizes, _ := reply.Get("nbytes")
		if reply.GetString("status") != "OK" || len(sizes.(msgpack.Map)) != 3 {
			t.Fatalf("update_data: %v", reply)
		}
		d.call(t, b.Address(), "gather", msgpack.MapOf("who_has", msgpack.MapOf("big",
			[]any{"tcp://127.0.0.1:1", a.Address()}, "n", []any{a.Address()})), &reply)
		if reply.GetString("status") != "OK" {
			t.Fatalf("gather: %v", reply)
		}
		got := d.fetch(t, b.Address(), "big", "n")
		if !bytes.Equal(value(t, got, "big").([]byte), big) || value(t, got, "n") != int64(5) {
			t.Error("got other values than were sent")
		}
		d.call(t, b.Address(), "gather", msgpack.MapOf("who_has", msgpack.MapOf("nothing", []any{a.Address()})), &reply)
		if keys, _ := reply.Get("keys"); reply.GetString("status") != "partial-fail" || len(keys.([]any)) != 1 {
			t.Errorf("gather of nothing: %v", reply)
		}
		d.call(t, a.Address(), "free_keys", msgpack.MapOf("keys", []any{"big"}, "stimulus_id", "x"), nil)
		var keys []any
		d.call(t, a.Address(), "keys", nil, &keys)
		if len(keys) != 2 {
			t.Errorf("keys %v", keys)
		}
		// Scattered data is input to tasks.
		seen.send(t, compute("next", 1, spec(t, inc, ref[int]("n")), map[string][]string{"n": {a.Address()}}))
		seen.receive(t, "task-finished")
		if v := value(t, d.fetch(t, a.Address(), "next"), "next"); v != int64(6) {
			t.Errorf("next: got %v", v)
		}
	})
}

func TestRun(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	w, _ := d.worker(t, worker.Config{})
	var reply msgpack.Map
	d.call(t, w.Address(), "run", msgpack.MapOf("function", spec(t, add, val(2), val(3)), "wait", true), &reply)
	if v, _ := reply.Get("result"); reply.GetString("status") != "OK" || v != int64(5) {
		t.Errorf("run: %v", reply)
	}
	// A Python function is not run, which is not an error: it would fail the call for all workers.
	d.call(t, w.Address(), "run", msgpack.MapOf("function", []byte("\x80\x05\x8c\x02os\x94."), "wait", true), &reply)
	if v, _ := reply.Get("result"); reply.GetString("status") != "OK" ||
		!strings.Contains(fmt.Sprint(v), "without Python") {
		t.Errorf("Python on a Go worker: %v", reply)
	}
	for what, function := range map[string][]byte{
		"the milk is spoilt":     spec(t, spoil),
		"over the edge":          spec(t, fall),
		"futures as arguments":   spec(t, inc, ref[int]("a")),
		"worker_test.connection": spec(t, handle),
	} {
		d.call(t, w.Address(), "run", msgpack.MapOf("function", function, "args", nil, "kwargs", nil), &reply)
		if reply.GetString("status") != "error" || !strings.Contains(reply.GetString("exception_text"), what) {
			t.Errorf("%s: %v", what, reply)
		}
	}
}

// Ops that need Python return an error, or are ignored where an error would fail a request to all workers; ops of
// Dask's tools are supported.
func TestOtherOps(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	w, seen := d.worker(t, worker.Config{})
	for op, args := range map[string]msgpack.Map{
		"plugin-add":    msgpack.MapOf("plugin", []byte{0x80}, "name", "p"),
		"plugin-remove": msgpack.MapOf("name", "p"),
		"upload_file":   msgpack.MapOf("filename", "a.py", "data", []byte("x = 1")),
	} {
		var reply msgpack.Map
		d.call(t, w.Address(), op, args, &reply)
		if reply.GetString("status") != "OK" {
			t.Errorf("%s: %v", op, reply)
		}
	}
	for op, args := range map[string]msgpack.Map{"benchmark_disk": nil, "benchmark_memory": nil,
		"benchmark_network": msgpack.MapOf("address", w.Address())} {
		var reply msgpack.Map
		d.call(t, w.Address(), op, args, &reply)
		if v, _ := reply.Get("1 MiB"); !(v.(float64) > 0) {
			t.Errorf("%s: %v", op, reply)
		}
	}
	for _, op := range []string{"shuffle_receive", "shuffle_inputs_done"} {
		var reply msgpack.Map
		d.call(t, w.Address(), op, nil, &reply)
		if reply.GetString("status") != "error" || !strings.Contains(reply.GetString("exception_text"), "Go worker") {
			t.Errorf("%s: %v", op, reply)
		}
	}
	for _, op := range []string{"versions", "ping", "profile", "profile_metadata", "get_monitor_info", "dump_state"} {
		var reply any
		d.call(t, w.Address(), op, nil, &reply)
		if reply == nil {
			t.Errorf("%s: got no reply", op)
		}
	}
	var info msgpack.Map
	d.call(t, w.Address(), "get_monitor_info", msgpack.MapOf("recent", true), &info)
	if q, _ := info.Get("range_query"); !q.(msgpack.Map).Has("cpu") {
		t.Errorf("monitor %v", info)
	}
	var logs []any
	d.call(t, w.Address(), "get_logs", msgpack.MapOf("n", 5), &logs)
	if len(logs) == 0 || !strings.Contains(logs[len(logs)-1].([]any)[1].(string), "worker started") {
		t.Errorf("logs %v", logs)
	}
	d.call(t, w.Address(), "get_logs", msgpack.MapOf("timestamps", true), &logs)
	if len(logs[0].([]any)) != 3 {
		t.Errorf("logs %v", logs)
	}

	name := gateName(t)
	seen.send(t, compute("held", 1, spec(t, gate, val(name)), nil))
	until(t, "the stack of the running task shows its function", func() bool {
		var stacks msgpack.Map
		d.call(t, w.Address(), "call_stack", msgpack.MapOf("keys", []any{"held"}), &stacks)
		s, ok := stacks.Get("held")
		return ok && strings.Contains(fmt.Sprint(s), "funcs_test.go")
	})
	until(t, "the profile of its prefix shows its function", func() bool {
		var tree msgpack.Map
		d.call(t, w.Address(), "profile", msgpack.MapOf("key", "held"), &tree)
		return strings.Contains(fmt.Sprint(tree), "worker_test.init.")
	})
	var tree, counts msgpack.Map
	d.call(t, w.Address(), "profile", msgpack.MapOf("key", "none"), &tree)
	if c, _ := tree.Get("count"); c != int64(0) {
		t.Errorf("profile of another prefix: %v", tree)
	}
	d.call(t, w.Address(), "profile", msgpack.MapOf("server", true, "start", 0.0), &tree)
	d.call(t, w.Address(), "profile_metadata", msgpack.MapOf("start", 0), &counts)
	if keys, _ := counts.Get("keys"); tree.GetString("identifier") != "root" || !strings.Contains(fmt.Sprint(keys),
		"held") {
		t.Errorf("profile of the server %v, metadata %v", tree, counts)
	}
	beat := func() bool {
		b := <-d.beats
		e, _ := b.Get("executing")
		return e.(msgpack.Map).Has("held")
	}
	until(t, "a heartbeat reports the running task", beat)
	close(gates(name))
	seen.receive(t, "task-finished")
	var story []any
	d.call(t, w.Address(), "get_story", msgpack.MapOf("keys_or_stimuli", []any{"held"}), &story)
	if len(story) < 3 {
		t.Errorf("story %v", story)
	}
}

// A worker with the maximum number of transfers replies that it is busy.
func TestBusy(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	a, _ := d.worker(t, worker.Config{Outgoing: 1})
	b, seen := d.worker(t, worker.Config{})
	var reply msgpack.Map
	d.call(t, a.Address(), "update_data", msgpack.MapOf("data", msgpack.MapOf("k", 1)), &reply)
	ctx := testContext(t)
	// Two is the limit on one host; these peers do not acknowledge.
	for range 2 {
		c, err := d.pool.Acquire(ctx, a.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer d.pool.Release(a.Address(), c)
		if err := rpc.Call(ctx, c, "get_data", msgpack.MapOf("keys", []any{"k"}), &reply); err != nil {
			t.Fatal(err)
		}
		defer c.Abort()
		defer func() { _ = write(ctx, c, "OK") }()
	}
	seen.send(t, compute("x", 1, spec(t, inc, ref[int]("k")), map[string][]string{"k": {a.Address()}}))
	until(t, "the first worker has replied that it is busy", func() bool {
		for _, x := range b.Transfers() {
			if x.Error == "busy" {
				return true
			}
		}
		return false
	})
}

func TestHTTP(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	w, seen := d.worker(t, worker.Config{Dashboard: "127.0.0.1:0"})
	seen.send(t, compute("a", 1, spec(t, inc, val(1)), nil))
	seen.receive(t, "task-finished")
	until(t, "the run is in the records", func() bool { return len(w.Timelines()) == 1 })
	for path, wants := range map[string][]string{
		"/metrics": {`dask_worker_tasks{state="memory"} 1`, `dask_worker_tasks{state="executing"} 0`,
			"dask_worker_threads 1", `dask_worker_memory_bytes{type="managed"}`,
			"dask_worker_latency_seconds", "dask_worker_transfer_incoming_count_total 0",
			"dask_worker_tasks_executed_total 1", "dask_worker_gc_collection_seconds_total"},
		"/health":                   {"ok"},
		"/status":                   {w.Address(), "Tasks memory"},
		"/system":                   {w.Address()},
		"/millstream/tasks":         {`"key":"a"`, `"action":"compute"`, inc.Name()},
		"/millstream/tasks?n=0":     {"[]"},
		"/millstream/transfers":     {"["},
		"/millstream/worker":        {w.Address(), `"memory":1`, task.Hash()},
		"/millstream/tasks?n=-1":    {"non-negative"},
		"/millstream/transfers?n=a": {"non-negative"},
	} {
		r, err := http.Get("http://" + w.Dashboard() + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r.Body)
		_ = r.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range wants {
			if !strings.Contains(string(body), want) {
				t.Errorf("%s: no %s in %s", path, want, body)
			}
		}
	}
	http.DefaultClient.CloseIdleConnections()
	if s, _ := seen.hello.Get("services"); !s.(msgpack.Map).Has("dashboard") {
		t.Errorf("services %v", s)
	}
}
