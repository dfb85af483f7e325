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

// Errors of a registration are sent to the worker, and the scheduler continues.
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
		{"an argument too many", "color", []option{with("color", "red")}},
	} {
		t.Run(test.what, func(t *testing.T) {
			w := serveWorker(t, s, "b")
			r := w.register(test.options...)
			text := r.GetString("message") + r.GetString("exception_text")
			if r.GetString("status") == "OK" || !strings.Contains(text, test.want) {
				t.Errorf("reply: got %v, want one with %q", r, test.want)
			}
		})
	}
	n, _ := a.call("ncores").(msgpack.Map)
	if len(n) != 1 {
		t.Errorf("workers: got %v, want 1", n)
	}
}

// The reply has the fields that Dask workers use, and for Millstream workers the epoch.
func TestRegistrationAnswer(t *testing.T) {
	s := start(t, Config{WorkerTTL: 40 * time.Second})
	w := serveWorker(t, s, "a")
	r := w.register(with("name", 7), with("versions", releases("2026.7.1")))
	for _, key := range []string{"status", "time", "heartbeat-interval", "worker-plugins", "warning", "error",
		"millstream"} {
		if !r.Has(key) {
			t.Errorf("no %s in the reply %v", key, r)
		}
	}
	if v, _ := r.Get("heartbeat-interval"); v != 0.5 {
		t.Errorf("heartbeat interval: got %v, want 0.5", v)
	}
	b := serveWorker(t, s, "b")
	if r := b.register(with("versions", releases("2026.8.0"))); !strings.Contains(r.GetString("warning"), "dask") {
		t.Errorf("other versions: got %v, want a warning", r)
	}
}

// A worker that reconnects before its loss was noticed replaces its previous registration.
func TestRegisterAgain(t *testing.T) {
	s := start(t, Config{})
	a := serveWorker(t, s, "a")
	a.register()
	b := serveWorker(t, s, "a")
	r := b.register(with("server_id", "Worker-a"), with("address", a.address))
	if r.GetString("status") != "OK" {
		t.Fatalf("registration: got %v, want status OK", r)
	}
	m, err := a.comm.Read(t.Context())
	for err == nil { // skip earlier messages
		m.Release()
		m, err = a.comm.Read(t.Context())
	}
	if n := b.call("ncores").(msgpack.Map); len(n) != 1 {
		t.Errorf("workers: got %v, want 1", n)
	}
}

// Heartbeats of unknown workers are answered with "missing"; those of registered ones are used.
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
		t.Errorf("reply: got %v, want status OK", r)
	}
	r = w.call("heartbeat_worker", "address", "tcp://127.0.0.1:1", "metrics", metrics).(msgpack.Map)
	if r.GetString("status") != "missing" {
		t.Errorf("reply to an unknown worker: got %v, want status missing", r)
	}
	id := s.Identity()
	workers, _ := id.Get("workers")
	info, _ := workers.(msgpack.Map).Get(w.address)
	res, _ := info.(msgpack.Map).Get("resources")
	if v, _ := res.(msgpack.Map).Get("GPU"); v != 1.0 {
		t.Errorf("resources: got %v, want 1 of GPU", res)
	}
}

// A worker whose heartbeats stop receives an order to close; its late messages are ignored, and its task runs
// elsewhere.
func TestSilentWorker(t *testing.T) {
	s := start(t, Config{WorkerTTL: 100 * time.Millisecond})
	a := serveWorker(t, s, "a")
	a.register()
	go a.read()
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "x", spec: "x"}})
	task := a.expectOp("compute-task")
	if m := a.expectOp("close"); m.GetString("reason") == "" {
		t.Errorf("close: got %v, want a reason", m)
	}
	runID, _ := task.Get("run_id")
	a.send(msgpack.MapOf("op", "task-finished", "key", "x", "run_id", runID, "status", "OK", "nbytes", 1,
		"stimulus_id", "late"))
	if r := a.call("heartbeat_worker", "address", a.address, "metrics",
		msgpack.Map{}).(msgpack.Map); r.GetString("status") != "missing" {
		t.Errorf("reply to a late heartbeat: got %v, want status missing", r)
	}
	b := serveWorker(t, s, "b")
	b.register()
	b.on = b.work
	go b.read()
	beat(t, b)
	c.expectKey("key-in-memory", "x")
	if got := c.gather("x"); got["x"] != "x" || b.count("x") != 1 {
		t.Errorf("x: got %v, computed %d times by the other worker, want x and 1", got, b.count("x"))
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

// A worker may pause, resume and leave.
func TestWorkerStatus(t *testing.T) {
	s := start(t, Config{})
	a := join(t, s, "a")
	c := connect(t, s, "client-1")
	a.send(msgpack.MapOf("op", "worker-status-change", "status", "paused", "stimulus_id", "x"))
	until(t, "the worker is paused", func() bool { return len(c.call("ncores_running").(msgpack.Map)) == 0 })
	c.submit([]node{{key: "x", spec: "x"}})
	if st := c.call("get_task_status", "keys", names("x")).(msgpack.Map); len(st) != 1 {
		t.Errorf("status: got %v, want one task", st)
	}
	a.send(msgpack.MapOf("op", "worker-status-change", "status", "running", "stimulus_id", "x"))
	c.expectKey("key-in-memory", "x")
	if r := c.call("unregister", "address", a.address); r != "OK" {
		t.Errorf("unregister: got %v, want OK", r)
	}
	a.waitClosed()
	if r := c.call("unregister", "address", a.address); r != "already-removed" {
		t.Errorf("second unregister: got %v, want already-removed", r)
	}
}

// A peer that sends an invalid message loses its stream; other peers are not affected.
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
		t.Error("other worker: did not run the task")
	}
}
