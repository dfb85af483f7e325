package scheduler

import (
	"strings"
	"testing"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/wire"
)

// Data of a client is sent to the workers in turn, and with broadcast to all.
func TestScatter(t *testing.T) {
	each(t, func(t *testing.T, listen string) {
		s := start(t, Config{Listen: []string{listen}})
		a, b := join(t, s, "a"), join(t, s, "b")
		c := connect(t, s, "client-1")
		data := msgpack.MapOf("one", wire.Serialize{Value: "eins"}, "two", wire.Serialize{Value: "zwei"})
		keys := c.call("scatter", "data", data, "workers", nil, "client", "client-1", "broadcast", false, "timeout",
			5).([]any)
		if len(keys) != 2 {
			t.Fatalf("keys: got %v, want 2", keys)
		}
		c.expectOp("key-in-memory")
		if a.holds("one") == b.holds("one") || a.holds("one") == a.holds("two") {
			t.Error("scattered data: got both pieces on one worker, want one on each")
		}
		if got := c.gather("one", "two"); got["one"] != "eins" || got["two"] != "zwei" {
			t.Errorf("gather: got %v, want eins and zwei", got)
		}
		c.call("scatter", "data", msgpack.MapOf("all", wire.Serialize{Value: "x"}), "workers", nil, "client",
			"client-1", "broadcast", true)
		until(t, "both workers hold the data", func() bool { return a.holds("all") && b.holds("all") })
		who := c.call("who_has", "keys", names("all", "unknown")).(msgpack.Map)
		if all, _ := who.Get("all"); len(all.([]any)) != 2 {
			t.Errorf("who_has of broadcast data: got %v, want 2 holders", who)
		}
		if u, _ := who.Get("unknown"); len(u.([]any)) != 0 {
			t.Errorf("who_has of an unknown key: got %v, want no holders", who)
		}
		// A task can use it, and it is freed when no client holds it.
		c.submit([]node{{key: "use", spec: "u", deps: []string{"one"}}})
		c.expectKey("key-in-memory", "use")
		c.send(msgpack.MapOf("op", "client-releases-keys", "keys", names("one", "two", "all", "use")))
		until(t, "nothing is held", func() bool {
			return !a.holds("one") && !b.holds("one") && !a.holds("all") && !b.holds("all")
		})
	})
}

func TestScatterWithoutWorkers(t *testing.T) {
	s := start(t, Config{})
	c := connect(t, s, "client-1")
	c.fails("No valid workers", "scatter", "data", msgpack.MapOf("one", 1), "workers", nil, "client", "client-1",
		"timeout", 0.05)
}

// A client may put data on workers itself and report it.
func TestUpdateData(t *testing.T) {
	s := start(t, Config{})
	a := join(t, s, "a")
	c := connect(t, s, "client-1")
	a.put("mine", "m")
	c.call("update_data", "who_has", msgpack.MapOf("mine", names(a.address)), "nbytes", msgpack.MapOf("mine", 9),
		"client", "client-1")
	c.expectKey("key-in-memory", "mine")
	if n, _ := c.call("nbytes", "keys", names("mine"), "summary", false).(msgpack.Map).Get("mine"); n != int64(9) {
		t.Errorf("nbytes: got %v, want 9", n)
	}
	a.put("yours", "y")
	c.send(msgpack.MapOf("op", "update-data", "who_has", msgpack.MapOf("yours", names(a.address)), "nbytes",
		msgpack.MapOf("yours", 3)))
	c.expectKey("key-in-memory", "yours")
}

func TestReplicateAndRebalance(t *testing.T) {
	s := start(t, Config{})
	a := join(t, s, "a")
	c := connect(t, s, "client-1")
	var keys []string
	var nodes []node
	for _, k := range strings.Split("abcdefgh", "") {
		keys = append(keys, k)
		nodes = append(nodes, node{key: k, spec: strings.Repeat(k, 1000)})
	}
	c.submit(nodes)
	until(t, "all results are held", func() bool { return a.holds("h") && len(c.call("has_what").(msgpack.Map)) == 1 })
	for range keys {
		c.expectOp("key-in-memory")
	}
	b := join(t, s, "b")
	c.call("replicate", "keys", names("a"), "n", 2)
	if !b.holds("a") {
		t.Error("replicate: b does not hold a, want it to")
	}
	c.fails("no worker", "replicate", "keys", names("a"), "workers", names("nobody"))
	c.fails("delete data", "replicate", "keys", names("a"), "n", 0)
	if r := c.call("rebalance", "keys", nil, "workers", nil).(msgpack.Map); r.GetString("status") != "OK" {
		t.Errorf("rebalance: got %v, want status OK", r)
	}
	if r := c.call("rebalance", "keys", []any{}).(msgpack.Map); r.GetString("status") != "OK" {
		t.Errorf("rebalance of no keys: got %v, want status OK", r)
	}
	if got := c.gather(keys...); len(got) != len(keys) {
		t.Errorf("gather: got %v, want all keys", got)
	}
}

// The data of a worker that retires is moved first; the last worker cannot retire.
func TestRetire(t *testing.T) {
	s := start(t, Config{})
	a := join(t, s, "a")
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "x", spec: "x"}})
	c.expectKey("key-in-memory", "x")
	b := join(t, s, "b")
	r := c.call("retire_workers", "names", names("a"), "close_workers", true, "remove", true).(msgpack.Map)
	if !r.Has(a.address) {
		t.Errorf("retired: got %v, want worker a", r)
	}
	if !b.holds("x") {
		t.Error("data of a retired worker: b does not hold x, want it to")
	}
	a.waitClosed()
	if r := c.call("retire_workers", "workers", names("unknown")).(msgpack.Map); len(r) != 0 {
		t.Errorf("retired: got %v, want none", r)
	}
	c.fails("exclusive", "retire_workers", "workers", names("b"), "names", names("b"))
	if got := c.gather("x"); got["x"] != "x" {
		t.Errorf("gather: got %v, want x", got)
	}
	if list := c.call("workers_to_close", "n", 1, "attribute", "name").([]any); len(list) != 1 || list[0] != "b" {
		t.Errorf("workers to close: got %v, want b", list)
	}
	c.fails("attribute", "workers_to_close", "n", 1, "attribute", "color")
	if n := c.call("adaptive_target", "target_duration", "5 s").(int64); n < 1 {
		t.Errorf("adaptive target with data in memory: got %d, want at least 1", n)
	}
}

// Requests reach workers through the scheduler, and their errors are returned.
func TestBroadcast(t *testing.T) {
	s := start(t, Config{})
	a, b := join(t, s, "a"), join(t, s, "b")
	c := connect(t, s, "client-1")
	run := func(what string) msgpack.Map { return msgpack.MapOf("op", "run", "function", what) }
	out := c.call("broadcast", "msg", run("hello")).(msgpack.Map)
	for w, want := range map[*testWorker]string{a: "a:hello", b: "b:hello"} {
		v, _ := out.Get(w.address)
		if d, _ := v.(msgpack.Map); d.GetString("result") != want {
			t.Errorf("reply of worker %s: got %v, want its name", w.name, v)
		}
	}
	if out := c.call("broadcast", "msg", run("x"), "workers", names("b")).(msgpack.Map); len(out) != 1 ||
		!out.Has(b.address) {
		t.Errorf("replies: got %v, want one of each worker", out)
	}
	if out := c.call("broadcast", "msg", run("x"), "hosts", names("127.0.0.1")).(msgpack.Map); len(out) != 2 {
		t.Errorf("replies by host: got %v, want 2", out)
	}
	c.fails("failed on purpose", "broadcast", "msg", run("fail"))
	if out := c.call("broadcast", "msg", run("fail"), "on_error", "ignore").(msgpack.Map); len(out) != 0 {
		t.Errorf("replies with on_error=ignore: got %v, want none", out)
	}
	if out := c.call("broadcast", "msg", run("fail"), "on_error", "return_pickle").(msgpack.Map); len(out) != 2 {
		t.Errorf("replies with on_error=return_pickle: got %v, want 2", out)
	}
	c.fails("on_error", "broadcast", "msg", run("x"), "on_error", "explode")
	c.fails("no worker", "broadcast", "msg", run("x"), "workers", names("nobody"))
	if d := c.call("proxy", "msg", run("p"), "worker", a.address).(msgpack.Map); d.GetString("result") != "a:p" {
		t.Errorf("proxy: got %v, want a:p", d)
	}
	b.crash()
	until(t, "b is removed", func() bool { return len(c.call("ncores").(msgpack.Map)) == 1 })
	if out := c.call("broadcast", "msg", run("x")).(msgpack.Map); len(out) != 1 {
		t.Errorf("replies: got %v, want 1", out)
	}
}

// Queries about the state of the scheduler.
func TestQuestions(t *testing.T) {
	s := start(t, Config{Python: PythonConfig{Off: true}})
	w := join(t, s, "a")
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "inc-1", spec: "x"}, {key: "hang", spec: "hang"}})
	c.expectKey("key-in-memory", "inc-1")
	until(t, "the other task is processing", func() bool {
		p, _ := c.call("processing").(msgpack.Map).Get(w.address)
		return len(p.([]any)) == 1
	})
	if st, _ := c.call("get_task_status", "keys", names("inc-1",
		"nothing")).(msgpack.Map).Get("inc-1"); st != "memory" {
		t.Errorf("status: got %v, want memory", st)
	}
	states, _ := c.call("get_task_prefix_states").(msgpack.Map).Get("inc")
	if n, _ := states.(msgpack.Map).Get("memory"); n != int64(1) {
		t.Errorf("states of inc: got %v, want 1 in memory", states)
	}
	story := c.call("get_story", "keys_or_stimuli", names("inc-1")).([]any)
	if len(story) < 3 {
		t.Errorf("story: got %v, want at least 3 entries", story)
	}
	spec := c.call("get_runspec", "key", "inc-1").(msgpack.Map)
	if b, _ := spec.Get("task"); string(b.([]byte)) != specHead+"x" {
		t.Errorf("runspec: got %v, want the spec of the task", spec)
	}
	index := c.call("get_task_stream_index").(int64)
	stream := c.call("get_task_stream").([]any)
	if index != 1 || len(stream) != 1 || stream[0].(msgpack.Map).GetString("key") != "inc-1" {
		t.Errorf("task stream: got index %d, %v, want one entry of inc-1", index, stream)
	}
	c.fails("nothing", "nbytes", "keys", names("nothing"))
	c.fails("nothing", "get_runspec", "key", "nothing")
	c.call("set_metadata", "keys", names("a", "b"), "value", 3)
	c.call("set_metadata", "keys", names("a", "c"), "value", "x")
	if v := c.call("get_metadata", "keys", names("a", "b")); v != int64(3) {
		t.Errorf("metadata: got %v, want 3", v)
	}
	if v := c.call("get_metadata", "keys", names("a", "z"), "default", 7); v != int64(7) {
		t.Errorf("metadata with a default: got %v, want 7", v)
	}
	c.fails("z", "get_metadata", "keys", names("z"))
	if v := c.call("versions").(msgpack.Map); !v.Has("packages") {
		t.Errorf("versions: got %v, want packages", v)
	}
	if logs := c.call("get_logs").([]any); len(logs) == 0 {
		t.Error("logs: got none")
	}
	c.fails("--no-python", "run_function", "function", []byte("x"))
	c.call("set_restrictions", "worker", msgpack.MapOf("hang", names("a")))
	c.fails("nothing", "set_restrictions", "worker", msgpack.MapOf("nothing", names("a")))
	c.call("set_resources", "worker", "a", "resources", msgpack.MapOf("GPU", 2))
	if id := c.call("identity", "n_workers", 0).(msgpack.Map); id.GetString("type") != "Scheduler" ||
		id.GetString("address") != s.Address() {
		t.Errorf("identity: got %v, want that of the scheduler", id)
	}
}

// Events are kept, and sent to subscribers.
func TestEvents(t *testing.T) {
	s := start(t, Config{LogLength: 3})
	c := connect(t, s, "client-1")
	c.send(msgpack.MapOf("op", "subscribe-topic", "topic", "news"))
	c.call("identity") // the stream has been read up to here or not: the event comes after both
	until(t, "subscribed", func() bool {
		ok, _ := loop.Ask(t.Context(), s.loop, func() (bool, error) {
			_,
				known := s.topics.Subscribers("news")
			return known, nil
		})
		return ok
	})
	for i := range 5 {
		c.call("log_event", "topic", names("news", "more"), "msg", msgpack.MapOf("n", i))
	}
	m := c.expectOp("event")
	if m.GetString("topic") != "news" {
		t.Errorf("event: got %v, want topic news", m)
	}
	if list := c.call("events", "topic", "news").([]any); len(list) != 3 {
		t.Errorf("kept events: got %d, want 3", len(list))
	}
	if all := c.call("events").(msgpack.Map); !all.Has("more") || !all.Has("all") {
		t.Errorf("topics: got %v, want more and all", all)
	}
	w := join(t, s, "a")
	w.send(msgpack.MapOf("op", "log-event", "topic", "news", "msg", msgpack.MapOf("x", 1)))
	c.expect("the worker's event", func(m msgpack.Map) bool {
		e, _ := m.Get("event")
		l, _ := e.([]any)
		if len(l) != 2 {
			return false
		}
		d, _ := l[1].(msgpack.Map)
		return d.GetString("worker") == w.address
	})
}

// All futures are invalid after a restart, and workers without a nanny close.
func TestRestart(t *testing.T) {
	s := start(t, Config{})
	w := join(t, s, "a")
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "x", spec: "x"}})
	c.expectKey("key-in-memory", "x")
	c.call("restart", "client", "client-1", "timeout", 5, "wait_for_workers", false, "stimulus_id", "x")
	c.expectOp("restart")
	w.waitClosed()
	if st := c.call("get_task_status", "keys", names("x")).(msgpack.Map); st[0].Value != nil {
		t.Errorf("state of x: got %v, want none", st[0].Value)
	}
	b := join(t, s, "b")
	c.fails("reconnect", "restart_workers", "timeout", 0.05)
	b.waitClosed()
}

// A client can close the whole cluster.
func TestTerminate(t *testing.T) {
	s, err := Start(t.Context(), Config{Listen: []string{"tcp://127.0.0.1:0"}})
	if err != nil {
		t.Fatal(err)
	}
	w := join(t, s, "a")
	c := connect(t, s, "client-1")
	c.call("terminate", "reason", "test")
	w.expectOp("close")
	<-s.Done()
	if err := s.Err(); err != nil {
		t.Error(err)
	}
}
