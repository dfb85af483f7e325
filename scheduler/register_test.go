package scheduler

import (
	"context"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
)

// What is wrong with a registration is told to the worker, and the scheduler goes on.
func TestBadRegistration(t *testing.T) {
	s := start(t, Config{})
	a := join(t, s, "a")
	for _, test := range []struct {
		what, want string
		options    []option
	}{
		{"the name of another", "name taken", []option{with("name", "a")}},
		{"the address of another", "Worker already exists", []option{with("address", a.address)}},
		{"no threads", "nthreads is 0", []option{with("nthreads", 0)}},
		{"no such status", "status", []option{with("status", "asleep")}},
		{"no address", "address", []option{with("address", "nowhere at all")}},
		{"a memory limit that is none", "memory_limit", []option{with("memory_limit", "much")}},
		{"resources that are none", "resources", []option{with("resources", msgpack.MapOf("GPU", -1))}},
		{"an argument too many", "colour", []option{with("colour", "red")}},
	} {
		t.Run(test.what, func(t *testing.T) {
			w := serveWorker(t, s, "b")
			r := w.register(test.options...)
			text := r.GetString("message") + r.GetString("exception_text")
			if r.GetString("status") == "OK" || !strings.Contains(text, test.want) {
				t.Errorf("answer %v, want one with %q", r, test.want)
			}
		})
	}
	n, _ := a.call("ncores").(msgpack.Map)
	if len(n) != 1 {
		t.Errorf("there are %v", n)
	}
}

// The answer has what Dask's workers look at, and for ours which life this is.
func TestRegistrationAnswer(t *testing.T) {
	s := start(t, Config{WorkerTTL: 40 * time.Second})
	w := serveWorker(t, s, "a")
	r := w.register(with("name", 7), with("versions", releases("2026.7.1")))
	for _, key := range []string{"status", "time", "heartbeat-interval", "worker-plugins", "warning", "error",
		"millstream"} {
		if !r.Has(key) {
			t.Errorf("no %s in %v", key, r)
		}
	}
	if v, _ := r.Get("heartbeat-interval"); v != 0.5 {
		t.Errorf("the heartbeat interval is %v", v)
	}
	b := serveWorker(t, s, "b")
	if r := b.register(with("versions", releases("2026.8.0"))); !strings.Contains(r.GetString("warning"), "dask") {
		t.Errorf("other versions are not warned of: %v", r)
	}
}

// A worker that comes back before its end was noticed takes its place again.
func TestRegisterAgain(t *testing.T) {
	s := start(t, Config{})
	a := serveWorker(t, s, "a")
	a.register()
	b := serveWorker(t, s, "a")
	r := b.register(with("server_id", "Worker-a"), with("address", a.address))
	if r.GetString("status") != "OK" {
		t.Fatalf("it is refused: %v", r)
	}
	m, err := a.comm.Read(t.Context())
	for err == nil { // whatever it was told before
		m.Release()
		m, err = a.comm.Read(t.Context())
	}
	if n := b.call("ncores").(msgpack.Map); len(n) != 1 {
		t.Errorf("there are %v", n)
	}
}

// Heartbeats of strangers are answered with "missing"; those of workers are looked at.
func TestHeartbeat(t *testing.T) {
	s := start(t, Config{})
	w := join(t, s, "a")
	metrics := msgpack.MapOf("memory", 1234, "managed_bytes", 34, "spilled_bytes",
		msgpack.MapOf("memory", 0, "disk", 5), "bandwidth", msgpack.MapOf("total", 2e8))
	r := w.call("heartbeat_worker", "address", w.address, "now", 1.0, "metrics", metrics, "executing",
		msgpack.MapOf("x", 0.5),
		"extensions", msgpack.MapOf("millstream", msgpack.MapOf("transfers",
			[]any{[]any{10.0, 12.5, 100, "shm", "tcp://b", "incoming", 3}})), "resources",
		msgpack.MapOf("GPU", 1)).(msgpack.Map)
	if r.GetString("status") != "OK" {
		t.Errorf("answer %v", r)
	}
	r = w.call("heartbeat_worker", "address", "tcp://127.0.0.1:1", "metrics", metrics).(msgpack.Map)
	if r.GetString("status") != "missing" {
		t.Errorf("a stranger is answered %v", r)
	}
	id := s.Identity()
	workers, _ := id.Get("workers")
	info, _ := workers.(msgpack.Map).Get(w.address)
	res, _ := info.(msgpack.Map).Get("resources")
	if v, _ := res.(msgpack.Map).Get("GPU"); v != 1.0 {
		t.Errorf("resources are %v", res)
	}
}

// A worker that is silent for too long is told to end; what it says late is not heard, and
// its task runs elsewhere.
func TestSilentWorker(t *testing.T) {
	s := start(t, Config{WorkerTTL: 100 * time.Millisecond})
	a := serveWorker(t, s, "a")
	a.register()
	go a.read()
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "x", spec: "x"}})
	task := a.expectOp("compute-task")
	if m := a.expectOp("close"); m.GetString("reason") == "" {
		t.Errorf("it is told %v", m)
	}
	runID, _ := task.Get("run_id")
	a.send(msgpack.MapOf("op", "task-finished", "key", "x", "run_id", runID, "status", "OK", "nbytes", 1,
		"stimulus_id", "late"))
	if r := a.call("heartbeat_worker", "address", a.address, "metrics",
		msgpack.Map{}).(msgpack.Map); r.GetString("status") != "missing" {
		t.Errorf("its heartbeat is answered %v", r)
	}
	b := serveWorker(t, s, "b")
	b.register()
	b.on = b.work
	go b.read()
	beat(t, b)
	c.expectKey("key-in-memory", "x")
	if got := c.gather("x"); got["x"] != "x" || b.count("x") != 1 {
		t.Errorf("x is %v, computed %d times by the other", got, b.count("x"))
	}
}

// beat sends heartbeats until the test ends.
func beat(t *testing.T, w *testWorker) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	pool := rpc.NewPool(comm.Default, rpc.PoolConfig{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = pool.Call(ctx, w.addr, "heartbeat_worker",
				msgpack.MapOf("address", w.address, "metrics", msgpack.Map{}), nil)
			time.Sleep(5 * time.Millisecond)
		}
	}()
	t.Cleanup(func() { cancel(); <-done; _ = pool.Close() })
}

// A worker may pause, go on and leave.
func TestWorkerStatus(t *testing.T) {
	s := start(t, Config{})
	a := join(t, s, "a")
	c := connect(t, s, "client-1")
	a.send(msgpack.MapOf("op", "worker-status-change", "status", "paused", "stimulus_id", "x"))
	until(t, "it is paused", func() bool { return len(c.call("ncores_running").(msgpack.Map)) == 0 })
	c.submit([]node{{key: "x", spec: "x"}})
	if st := c.call("get_task_status", "keys", names("x")).(msgpack.Map); len(st) != 1 {
		t.Errorf("status %v", st)
	}
	a.send(msgpack.MapOf("op", "worker-status-change", "status", "running", "stimulus_id", "x"))
	c.expectKey("key-in-memory", "x")
	if r := c.call("unregister", "address", a.address); r != "OK" {
		t.Errorf("unregister: %v", r)
	}
	a.waitClosed()
	if r := c.call("unregister", "address", a.address); r != "already-removed" {
		t.Errorf("unregister again: %v", r)
	}
}

// A peer that says what is no message loses its stream, and nobody else anything.
func TestHostileStreams(t *testing.T) {
	s := start(t, Config{})
	good := join(t, s, "good")
	c := connect(t, s, "client-1")
	for name, bad := range map[string]any{
		"unknown op": msgpack.MapOf("op", "explode"),
		"no key":     msgpack.MapOf("op", "task-finished", "run_id", 1),
		"wrong type": msgpack.MapOf("op", "add-keys", "keys", 7),
		"foreign steal": msgpack.MapOf("op", "steal-response", "key", "x", "state", "ready", "stimulus_id",
			"nonsense"),
		"sizes too few":   msgpack.MapOf("op", "add-keys", "keys", names("a", "b"), "nbytes", []any{1}),
		"unknown status":  msgpack.MapOf("op", "worker-status-change", "status", "asleep", "stimulus_id", ""),
		"no map":          "hello",
		"key is a map":    msgpack.MapOf("op", "release-worker-data", "key", msgpack.Map{}, "stimulus_id", ""),
		"erred, no key":   msgpack.MapOf("op", "task-erred", "run_id", 3),
		"graph of worker": msgpack.MapOf("op", "update-graph", "keys", []any{}),
	} {
		t.Run(name, func(t *testing.T) {
			w := join(t, s, "w-"+name)
			w.send(bad)
			w.waitClosed()
		})
	}
	for name, bad := range map[string]any{
		"unknown op":     msgpack.MapOf("op", "explode"),
		"wrong type":     msgpack.MapOf("op", "client-desires-keys", "keys", 7),
		"wrong keys":     msgpack.MapOf("op", "update-graph", "keys", 7),
		"unnamed":        msgpack.MapOf("op", "variable_delete", "name", msgpack.Map{}),
		"a worker's op":  msgpack.MapOf("op", "task-finished", "key", "x"),
		"topic is a map": msgpack.MapOf("op", "subscribe-topic", "topic", msgpack.Map{}),
	} {
		t.Run("client: "+name, func(t *testing.T) {
			x := connect(t, s, "x-"+name)
			x.send(bad)
			x.waitClosed()
		})
	}
	c.submit([]node{{key: "x", spec: "x"}})
	c.expectKey("key-in-memory", "x")
	if good.count("x") != 1 {
		t.Error("the good worker did not run the task")
	}
}
