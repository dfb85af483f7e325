package worker_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/worker"
)

// One sidecar serves all of these tests, because its start is expensive.
func TestSidecar(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	w, seen := d.worker(t, worker.Config{Threads: 2, Python: python(t)})
	extra, _ := seen.hello.Get("extra")
	own, _ := extra.(msgpack.Map).Get("millstream")
	if p, _ := own.(msgpack.Map).Get("python"); p != true {
		t.Errorf("registration: got %v, want python", own)
	}
	versions, _ := seen.hello.Get("versions")
	if packages, _ := versions.(msgpack.Map).Get("packages"); packages.(msgpack.Map).GetString("distributed") == "" {
		t.Errorf("versions are %v", versions)
	}
	run := int64(0)
	do := func(t *testing.T, key, source string, args ...any) msgpack.Map {
		t.Helper()
		run++
		seen.send(t, pyCompute(t, key, run, source, args...))
		m := seen.finished(t, key)
		if n, _ := m.Get("run_id"); n != run {
			t.Errorf("%s has run %v, want %d", key, n, run)
		}
		return m
	}
	t.Run("plain results are stored in Go", func(t *testing.T) {
		m := do(t, "five", "lambda x: x + 4", int64(1))
		class, _ := m.Get("type")
		if m.GetString("typename") != "int" || !bytes.Contains(class.([]byte), []byte("int")) {
			t.Errorf("%v", m)
		}
		if v := value(t, d.fetch(t, w.Address(), "five"), "five"); v != int64(5) {
			t.Errorf("five is %v", v)
		}
	})
	t.Run("other results stay in Python until they are needed", func(t *testing.T) {
		do(t, "list", "lambda: [1, 2, {'a': 3}]")
		do(t, "sum", "lambda l, five: l[0] + l[1] + l[2]['a'] + five", of("list"), of("five"))
		data := d.fetch(t, w.Address(), "list", "sum", "nobody")
		if v := value(t, data, "sum"); v != int64(11) || len(data) != 2 {
			t.Errorf("%v", data)
		}
		if v := fmt.Sprint(value(t, data, "list")); !strings.Contains(v, "a 3") && !strings.Contains(v, "a:3") {
			t.Errorf("list is %v", v)
		}
	})
	t.Run("Go and Python use results of each other", func(t *testing.T) {
		do(t, "bytes", "lambda: b'x' * 100_000")
		seen.send(t, compute("length", 100, spec(t, length, ref[[]byte]("bytes")),
			map[string][]string{"bytes": {w.Address()}}))
		seen.finished(t, "length")
		if v := value(t, d.fetch(t, w.Address(), "length"), "length"); v != int64(100_000) {
			t.Errorf("Go counts %v", v)
		}
		seen.send(t, compute("filled", 101, spec(t, fill, val(200_000)), nil))
		seen.finished(t, "filled")
		do(t, "count", "len", of("filled"))
		if v := value(t, d.fetch(t, w.Address(), "count"), "count"); v != int64(200_000) {
			t.Errorf("Python counts %v", v)
		}
	})
	t.Run("worker.state shows the tasks", func(t *testing.T) {
		do(t, "shown", "lambda: 'x' * 50")
		do(t, "using", "lambda x: len(x)", of("shown"))
		got := d.run(t, w.Address(), `lambda dask_worker: (lambda s: " ".join(map(str, [
			s.tasks["shown"].state, s.tasks["using"].key, s.tasks["using"].nbytes > 0,
			s.story("shown")[-1][3], len(s.executing), s.executed_count > 1, set(dask_worker.data) <= set(s.tasks)
		])))(dask_worker.state)`)
		if want := "memory using True memory 0 True True"; got != want {
			t.Errorf("state: got %v, want %s", got, want)
		}
	})
	t.Run("buffers of a task", func(t *testing.T) {
		run++
		m := pyCompute(t, "buffers", run, "lambda b: bytes(b)", &pickle.Buffer{Index: -1,
			Data: []byte(strings.Repeat("y", 1000))})
		seen.send(t, m)
		seen.finished(t, "buffers")
		if v := value(t, d.fetch(t, w.Address(), "buffers"), "buffers"); len(v.([]byte)) != 1000 {
			t.Errorf("%d bytes", len(v.([]byte)))
		}
	})
	t.Run("exceptions", func(t *testing.T) {
		seen.send(t, pyCompute(t, "bad", 200, "lambda: {}['no such key']"))
		m := seen.receive(t, "task-erred")
		x, _ := m.Get("exception")
		if !strings.Contains(m.GetString("exception_text"), "KeyError") ||
			!strings.Contains(m.GetString("traceback_text"), "<lambda>") ||
			strings.Contains(m.GetString("traceback_text"), "sidecar") {
			t.Errorf("%v", m)
		}
		b, _ := x.([]byte)
		e, err := pickle.LoadException(b, pickle.Limits{})
		if err != nil || e.Type != "KeyError" {
			t.Errorf("%v %v", e, err)
		}
		seen.send(t, pyCompute(t, "lock", 201, "__import__('threading').Lock"))
		seen.finished(t, "lock")
		c, err := d.pool.Acquire(testContext(t), w.Address())
		if err != nil {
			t.Fatal(err)
		}
		err = rpc.Call(testContext(t), c, "get_data", msgpack.MapOf("keys", []any{"lock"}), new(msgpack.Map))
		c.Abort() // without an acknowledgement
		d.pool.Release(w.Address(), c)
		if err == nil || !strings.Contains(err.Error(), "lock") {
			t.Errorf("fetch of a lock: got %v", err)
		}
	})
	t.Run("long-running and rescheduled", func(t *testing.T) {
		seen.send(t,
			pyCompute(t, "long", 300,
				"lambda: (__import__('distributed').secede(), __import__('threading').Event().wait(0.2))[1]"))
		if m := seen.receive(t, "long-running"); m.GetString("key") != "long" {
			t.Errorf("%v", m)
		}
		seen.finished(t, "long")
		seen.send(t, pyCompute(t, "back", 301, "lambda: (_ for _ in ()).throw(__import__('distributed').Reschedule())"))
		if m := seen.receive(t, "reschedule"); m.GetString("key") != "back" {
			t.Errorf("%v", m)
		}
	})
	t.Run("executors", func(t *testing.T) {
		m := pyCompute(t, "where", 400, "lambda: __import__('threading').current_thread().name")
		m.Set("annotations", msgpack.MapOf("executor", "offload"))
		seen.send(t, m)
		seen.finished(t, "where")
		if v := value(t, d.fetch(t, w.Address(), "where"), "where"); !strings.Contains(v.(string), "Offload") {
			t.Errorf("executor: got %v", v)
		}
		m = pyCompute(t, "nowhere", 401, "lambda: 1")
		m.Set("annotations", msgpack.MapOf("executor", "none such"))
		seen.send(t, m)
		if m := seen.receive(t, "task-erred"); !strings.Contains(m.GetString("exception_text"), "Invalid executor") {
			t.Errorf("%v", m)
		}
	})
	t.Run("the worker object of tasks", func(t *testing.T) {
		do(t, "me", "lambda: __import__('distributed').get_worker().address")
		if v := value(t, d.fetch(t, w.Address(), "me"), "me"); v != w.Address() {
			t.Errorf("address: got %v", v)
		}
		if v := d.run(t, w.Address(),
			"lambda dask_worker: sorted(map(str, dask_worker.data))"); !strings.Contains(fmt.Sprint(v), "five") {
			t.Errorf("data: got %v", v)
		}
		if v := d.run(t, w.Address(),
			"lambda dask_worker: dask_worker.data['five'] + len(dask_worker.data['list'])"); v != int64(8) {
			t.Errorf("five and three: got %v", v)
		}
		d.run(t, w.Address(), "lambda dask_worker: dask_worker.log_event('topic', {'x': 1})")
		if m := seen.receive(t, "log-event"); m.GetString("topic") != "topic" {
			t.Errorf("%v", m)
		}
		d.run(t, w.Address(), "lambda dask_worker: dask_worker.update_data({'put': [1]})")
		until(t, "the worker has the value", func() bool {
			_, ok := d.fetch(t, w.Address(), "put").Get("put")
			return ok
		})
		d.run(t, w.Address(), "lambda: __import__('logging').getLogger('distributed.worker').warning('from Python')")
		until(t, "the log has it", func() bool {
			var logs []any
			d.call(t, w.Address(), "get_logs", msgpack.MapOf("n", nil), &logs)
			return strings.Contains(fmt.Sprint(logs), "from Python")
		})
	})
	t.Run("messages that plugins handle", func(t *testing.T) {
		d.run(t, w.Address(),
			"lambda dask_worker: dask_worker.stream_handlers.update({'hello': lambda who: setattr(dask_worker, "+
				"'who', who)})")
		seen.send(t, msgpack.MapOf("op", "hello", "who", "world"))
		until(t, "the message is handled", func() bool {
			return d.run(t, w.Address(), "lambda dask_worker: getattr(dask_worker, 'who', '')") == "world"
		})
	})
	t.Run("freed values are removed", func(t *testing.T) {
		seen.send(t, msgpack.MapOf("op", "free-keys", "keys", []any{"list", "bytes", "filled", "lock"}, "stimulus_id",
			"x"))
		until(t, "Python has freed the values", func() bool {
			return d.run(t, w.Address(),
				"lambda dask_worker: [k for k in dask_worker._values.keys if k in ('list', 'bytes', 'filled', "+
					"'lock')] == []") == true
		})
	})
}
