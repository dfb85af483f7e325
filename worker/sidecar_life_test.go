package worker_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker"
)

// The values and runs of a killed sidecar are lost: the scheduler is notified of both, and the next process has the
// plugins of the previous one.
func TestSidecarDies(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	p := python(t)
	p.AllowedFailures = 1
	w, seen := d.worker(t, worker.Config{Threads: 2, Python: p})
	mark := filepath.Join(t.TempDir(), "mark")
	plugin := pickle.Call(pickle.Global{Module: "distributed.diagnostics.plugin", Name: "WorkerPlugin"})
	addPlugin(t, d, w.Address(), "mine", plugin)
	seen.send(t, pyCompute(t, "kept", 1, "lambda: 'plain'"), pyCompute(t, "lost", 2, "lambda: ['in Python']"),
		pyCompute(t, "runs", 3, "lambda p: (open(p, 'w').close(), __import__('threading').Event().wait())", mark))
	until(t, "the task runs", func() bool { _, err := os.Stat(mark); return err == nil })
	seen.finished(t, "lost")
	first := d.kill(t, w.Address())
	received := map[string]bool{}
	for !received["reschedule runs"] || !received["release-worker-data lost"] {
		m := seen.receiveAny(t, "reschedule", "release-worker-data", "task-erred")
		received[m.GetString("op")+" "+m.GetString("key")] = true
	}
	if v := value(t, d.fetch(t, w.Address(), "kept"), "kept"); v != "plain" {
		t.Errorf("kept: got %v", v)
	}
	seen.send(t, pyCompute(t, "lost", 4, "lambda: ['in Python']"))
	seen.finished(t, "lost")
	if v := d.run(t, w.Address(), "lambda dask_worker: 'mine' in dask_worker.plugins"); v != true {
		t.Error("next sidecar: got no plugin")
	}
	// The same task again: it exceeds the allowed number of crashes.
	_ = os.Remove(mark)
	seen.send(t, pyCompute(t, "runs", 5, "lambda p: (open(p, 'w').close(), __import__('threading').Event().wait())",
		mark))
	until(t, "the task runs again", func() bool { _, err := os.Stat(mark); return err == nil })
	if second := d.kill(t, w.Address()); second == first {
		t.Error("got the same process, want another one")
	}
	m := seen.receive(t, "task-erred")
	x, _ := m.Get("exception")
	if m.GetString("key") != "runs" || !strings.Contains(fmt.Sprintf("%s", x), "KilledWorker") {
		t.Errorf("%v", m)
	}
}

func addPlugin(t *testing.T, d *director, address, name string, plugin pickle.Value) {
	t.Helper()
	b, err := pickle.Dump(plugin)
	if err != nil {
		t.Fatal(err)
	}
	var reply msgpack.Map
	d.call(t, address, "plugin-add", msgpack.MapOf("plugin", b, "name", name), &reply)
	if reply.GetString("status") != "OK" {
		t.Fatalf("plugin-add: %v", reply)
	}
}

// Python values are spilled when there are too many of them, and read back; a task that exceeds the memory limit has
// its process killed, not the worker.
func TestSidecarMemory(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	w, seen := d.worker(t, worker.Config{Python: python(t), MemoryLimit: 400 << 20,
		Memory: worker.Memory{Usage: func() int64 { return 0 }, Target: 0.15, Spill: -1, Pause: -1}})
	const size = 20 << 20
	for i := range 8 {
		key := fmt.Sprint("big-", i)
		seen.send(t, pyCompute(t, key, int64(i), "lambda n, i: bytes([i]) * n", int64(size), int64(i)))
		seen.finished(t, key)
	}
	until(t, "a value is on disk", func() bool {
		m := <-d.beats
		metrics, _ := m.Get("metrics")
		spilled, _ := metrics.(msgpack.Map).Get("spilled_bytes")
		n, _ := spilled.(msgpack.Map).Get("disk")
		return n.(int64) > 0
	})
	for i := range 8 {
		key := fmt.Sprint("first-", i)
		seen.send(t, pyCompute(t, key, int64(100+i), "lambda b: b[0] + len(b)", of(fmt.Sprint("big-", i))))
		seen.finished(t, key)
		if v := value(t, d.fetch(t, w.Address(), key), key); v != int64(i+size) {
			t.Errorf("%s is %v", key, v)
		}
	}
	seen.send(t, pyCompute(t, "hog", 200, "lambda n: (b'x' * n, __import__('threading').Event().wait())",
		int64(500<<20)))
	if m := seen.receiveAny(t, "reschedule", "task-erred"); m.GetString("op") != "reschedule" ||
		m.GetString("key") != "hog" {
		t.Errorf("%v", m)
	}
	seen.send(t, pyCompute(t, "small", 201, "lambda: 1"))
	seen.finished(t, "small")
	if w.Err() != nil {
		t.Error(w.Err())
	}
}

func TestSidecarActors(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	w, seen := d.worker(t, worker.Config{Python: python(t)})
	order := pyCompute(t, "actor", 1,
		"lambda: type('Counter', (), {'n': 0, 'add': lambda self, k: setattr(self, 'n', self.n + k) or self.n})()")
	order.Set("actor", true)
	seen.send(t, order)
	seen.finished(t, "actor")
	call := func(op string, args msgpack.Map) msgpack.Map {
		t.Helper()
		var reply msgpack.Map
		args.Set("actor", "actor")
		d.call(t, w.Address(), op, args, &reply)
		return reply
	}
	for want := int64(2); want <= 4; want += 2 {
		m := call("actor_execute", msgpack.MapOf("function", "add", "args", []any{wire.Serialize{Value: 2}}, "kwargs",
			msgpack.Map{}))
		if v, _ := m.Get("result"); v != want {
			t.Errorf("add returned %v", m)
		}
	}
	if v, _ := call("actor_attribute", msgpack.MapOf("attribute", "n")).Get("result"); v != int64(4) {
		t.Errorf("n is %v", v)
	}
	if m := call("actor_attribute", msgpack.MapOf("attribute", "none")); m.GetString("status") != "error" {
		t.Errorf("%v", m)
	}
	seen.send(t, pyCompute(t, "proxy", 2, "lambda a: type(a).__name__ + a.key", of("actor")))
	seen.finished(t, "proxy")
	if v := value(t, d.fetch(t, w.Address(), "proxy"), "proxy"); v != "Actoractor" {
		t.Errorf("actor in a task: got %v", v)
	}
	seen.send(t, msgpack.MapOf("op", "free-keys", "keys", []any{"actor"}, "stimulus_id", "x"))
	until(t, "the actor is gone", func() bool {
		return d.run(t, w.Address(), "lambda dask_worker: len(dask_worker.state.actors)") == int64(0)
	})
}

// A worker without Python returns the reason and the fix.
func TestSidecarRefused(t *testing.T) {
	old := filepath.Join(t.TempDir(), "python")
	if err := os.WriteFile(old, []byte("#!/bin/sh\necho 3.11.7 2024.12.1 2024.12.1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		python worker.Python
		want   string
	}{
		"none":      {worker.Python{}, "--no-python"},
		"not there": {worker.Python{Enabled: true, Interpreter: "/nowhere/python"}, "/nowhere/python"},
		"too old": {worker.Python{Enabled: true, Interpreter: old},
			"has Dask 2024.12.1, and Millstream works with 2025.4.1 to"},
	} {
		t.Run(name, func(t *testing.T) {
			d := direct(t, "tcp://127.0.0.1:0")
			_, seen := d.worker(t, worker.Config{Python: tc.python})
			extra, _ := seen.hello.Get("extra")
			own, _ := extra.(msgpack.Map).Get("millstream")
			if p, _ := own.(msgpack.Map).Get("python"); p != false {
				t.Errorf("registration of a worker without Python: got %v", own)
			}
			seen.send(t, pyCompute(t, "x", 1, "lambda: 1"))
			m := seen.receive(t, "task-erred")
			if text := m.GetString("exception_text"); !strings.Contains(text, tc.want) ||
				!strings.Contains(text, "keep such tasks on other workers") {
				t.Errorf("got error %s", text)
			}
		})
	}
}

// Tasks fail with the error of a sidecar that cannot start; the worker continues.
func TestSidecarDoesNotStart(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	p := python(t)
	// An interpreter that seems to have distributed, but has none.
	dir := t.TempDir()
	path := filepath.Join(dir, "python")
	script := "#!/bin/sh\ncase \"$2\" in *sys.version.split*) echo 3.11.7 2026.7.1 2026.7.1;; *json.dumps*) echo " +
		"'{}';; *) exit 3;; esac\n"
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	p.Interpreter, p.AllowedFailures = path, 1
	w, seen := d.worker(t, worker.Config{Python: p})
	for run := int64(1); ; run++ {
		seen.send(t, pyCompute(t, "x", run, "lambda: 1"))
		m := seen.receiveAny(t, "task-erred", "reschedule")
		if m.GetString("op") == "task-erred" {
			if run != 2 {
				t.Errorf("got a failure at run %d", run)
			}
			break
		}
	}
	var reply msgpack.Map
	err := d.pool.Call(testContext(t), w.Address(), "upload_file", msgpack.MapOf("filename", "x.py", "data",
		[]byte("x = 1")), &reply)
	if err == nil || !strings.Contains(err.Error(), "cannot start the Python process") {
		t.Errorf("upload_file: %v %v", reply, err)
	}
	seen.send(t, compute("go", 9, spec(t, inc, val(1)), nil))
	seen.finished(t, "go")
}

// Close does not wait for a Python task that never ends, and leaves no process.
func TestSidecarEndsWithItsWorker(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	w, seen := d.worker(t, worker.Config{Python: python(t), Threads: 2})
	mark := filepath.Join(t.TempDir(), "mark")
	seen.send(t, pyCompute(t, "forever", 1, "lambda p: (open(p, 'w').close(), __import__('threading').Event().wait())",
		mark))
	until(t, "the task runs", func() bool { _, err := os.Stat(mark); return err == nil })
	pid := int(d.run(t, w.Address(), "lambda: __import__('os').getpid()").(int64))
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil { // which only the worker handles
		t.Fatal(err)
	}
	if v := d.run(t, w.Address(), "lambda: __import__('os').getpid()"); v != int64(pid) {
		t.Errorf("pid after SIGTERM: got %v, want %d", v, pid)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
	if err := syscall.Kill(pid, 0); err == nil {
		t.Error("sidecar still running")
	}
}
