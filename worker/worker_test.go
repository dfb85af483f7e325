package worker_test

import (
	"errors"
	"strings"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker"
)

// transports runs a test over each transport that needs nothing installed.
func transports(t *testing.T, f func(t *testing.T, d *director)) {
	for _, listen := range []string{"inproc://", "tcp://127.0.0.1:0"} {
		t.Run(listen[:strings.Index(listen, ":")], func(t *testing.T) { f(t, direct(t, listen)) })
	}
}

func TestRegistersAndBeats(t *testing.T) {
	transports(t, func(t *testing.T, d *director) {
		w, seen := d.worker(t, worker.Config{Name: "7", Threads: 3, MemoryLimit: 1 << 40,
			Resources: map[string]float64{"GPU": 2}})
		for name, want := range map[string]any{"address": w.Address(), "name": int64(7), "nthreads": int64(3),
			"memory_limit": int64(1 << 40), "status": "running"} {
			if got, _ := seen.hello.Get(name); got != want {
				t.Errorf("registered with %s=%v, want %v", name, got, want)
			}
		}
		metrics, _ := seen.hello.Get("metrics")
		for _, name := range []string{"task_counts", "bandwidth", "digests_total_since_heartbeat", "managed_bytes",
			"spilled_bytes", "transfer", "event_loop_interval",
			"cpu", "memory", "time", "host_net_io", "host_disk_io", "num_fds"} {
			if !metrics.(msgpack.Map).Has(name) {
				t.Errorf("no %s among the metrics", name)
			}
		}
		beat := <-d.beats
		if beat.GetString("address") != w.Address() {
			t.Errorf("heartbeat of %v", beat)
		}
		var id msgpack.Map
		d.call(t, w.Address(), "identity", nil, &id)
		if id.GetString("type") != "Worker" || id.GetString("scheduler") != d.address {
			t.Errorf("identity %v", id)
		}
	})
}

// Values that the scheduler passes are used instead of fetching them, and short results are sent with the report.
func TestValues(t *testing.T) {
	transports(t, func(t *testing.T, d *director) {
		w, seen := d.worker(t, worker.Config{})
		nowhere := []string{"tcp://127.0.0.1:1", w.Address()}
		seen.send(t,
			msgpack.MapOf("op", "millstream-values", "data", msgpack.MapOf("a", 5, "b", 7), "stimulus_id", "s"),
			compute("c", 1, spec(t, add, ref[int]("a"), ref[int]("b")),
				map[string][]string{"a": nowhere, "b": nowhere}))
		if got, _ := seen.receive(t, "task-finished").Get("value"); got != int64(12) {
			t.Errorf("value of c: got %v, want 12", got)
		}
		if got := value(t, d.fetch(t, w.Address(), "a", "c"), "a"); got != int64(5) {
			t.Errorf("a: got %v, want 5", got)
		}
		seen.send(t, compute("long", 2, spec(t, fill, val(200)), nil))
		if m := seen.receive(t, "task-finished"); m.Has("value") {
			t.Errorf("long result: got %v, want no value", m)
		}
	})
}

// A task that is assigned ahead of its input runs after it; the input is reported first, and nothing is requested.
func TestAhead(t *testing.T) {
	transports(t, func(t *testing.T, d *director) {
		_, seen := d.worker(t, worker.Config{})
		none := []string{}
		seen.send(t, compute("a", 1, spec(t, inc, val(1)), nil),
			compute("b", 2, spec(t, inc, ref[int]("a")), map[string][]string{"a": none}),
			compute("c", 3, spec(t, inc, ref[int]("b")), map[string][]string{"b": none}))
		for i, key := range []string{"a", "b", "c"} {
			m := <-seen.ops
			if v, _ := m.Get("value"); m.GetString("op") != "task-finished" || m.GetString("key") != key ||
				v != int64(i+2) {
				t.Errorf("message %d: got %v, want %s finished with %d", i, m, key, i+2)
			}
		}
	})
}

func TestRefused(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	_, err := worker.Start(testContext(t), worker.Config{Scheduler: d.address, Name: "taken", Threads: 1,
		Logger: quiet(), LocalDirectory: t.TempDir()})
	if !errors.Is(err, worker.ErrRefused) || !strings.Contains(err.Error(), "name taken") {
		t.Errorf("got %v", err)
	}
}

func TestComputes(t *testing.T) {
	transports(t, func(t *testing.T, d *director) {
		w, seen := d.worker(t, worker.Config{Threads: 2})
		seen.send(t, compute("a", 11, spec(t, inc, val(1)), nil), compute("b", 12, spec(t, inc, val(10)), nil))
		want := map[string]int64{"a": 11, "b": 12, "c": 13}
		for i := range 3 {
			if i == 2 {
				here := []string{w.Address()}
				seen.send(t, compute("c", 13, spec(t, add, ref[int]("b"), ref[int]("a")),
					map[string][]string{"a": here, "b": here}))
			}
			m := seen.receive(t, "task-finished")
			run, _ := m.Get("run_id")
			if want[m.GetString("key")] != run || m.GetString("status") != "OK" || m.GetString("typename") != "int" {
				t.Errorf("finished %v", m)
			}
			starts, _ := m.Get("startstops")
			parts := starts.([]any) // preceded by a part for opening dependencies, if that took long
			last := parts[len(parts)-1].(msgpack.Map)
			if last.GetString("action") != "compute" || !last.Has("start") || !last.Has("stop") {
				t.Errorf("startstops: got %v, want compute with start and stop at the end", starts)
			}
		}
		if got := value(t, d.fetch(t, w.Address(), "c", "nothing"), "c"); got != int64(13) {
			t.Errorf("c is %v", got)
		}
		var keys []any
		d.call(t, w.Address(), "keys", nil, &keys)
		if len(keys) != 3 {
			t.Errorf("keys %v", keys)
		}
		seen.send(t, msgpack.MapOf("op", "free-keys", "keys", []any{"a", "b", "c"}, "stimulus_id", "x"),
			compute("d", 14, spec(t, inc, val(0)), nil))
		seen.receive(t, "task-finished")
		d.call(t, w.Address(), "keys", nil, &keys)
		if len(keys) != 1 || keys[0] != "d" {
			t.Errorf("keys %v after free-keys", keys)
		}
	})
}

// Results of one worker are fetched by another, which announces them.
func TestFetchesFromPeers(t *testing.T) {
	transports(t, func(t *testing.T, d *director) {
		listen, _ := commaddr.Parse(d.address)
		a, seenA := d.worker(t, worker.Config{Listen: listen + "://" + map[string]string{"tcp": "127.0.0.1:0"}[listen]})
		b, seenB := d.worker(t, worker.Config{})
		seenA.send(t, compute("small", 1, spec(t, inc, val(4)), nil), compute("large", 2, spec(t, fill, val(3_000_000)),
			nil))
		seenA.receive(t, "task-finished")
		seenA.receive(t, "task-finished")
		seenB.send(t, compute("n", 3, spec(t, length, ref[[]byte]("large")),
			map[string][]string{"large": {a.Address()}}),
			compute("m", 4, spec(t, inc, ref[int]("small")), map[string][]string{"small": {a.Address()}}))
		seenB.receive(t, "add-keys")
		for range 2 {
			// The time of the transfer is reported with the task that has waited for it.
			list, _ := seenB.receive(t, "task-finished").Get("startstops")
			parts, _ := list.([]any)
			if len(parts) < 2 {
				t.Fatalf("parts of a task: got %v", list)
			}
			// Between them is the part for reading the value, if that took long.
			first, _ := parts[0].(msgpack.Map)
			last, _ := parts[len(parts)-1].(msgpack.Map)
			if first.GetString("action") != "transfer" || last.GetString("action") != "compute" {
				t.Errorf("parts of a task: got %v", list)
			}
		}
		data := d.fetch(t, b.Address(), "n", "m")
		if value(t, data, "n") != int64(3_000_000) || value(t, data, "m") != int64(6) {
			t.Errorf("got %v", data)
		}
		in := b.Transfers()
		var bytes int64
		for _, x := range in {
			if x.Incoming {
				bytes += x.Bytes
			}
		}
		if bytes < 3_000_000 {
			t.Errorf("transfers %+v", in)
		}
		if len(a.Transfers()) == 0 || a.Transfers()[0].Incoming {
			t.Errorf("transfers of the other side: got %+v", a.Transfers())
		}
		lines := b.Timelines()
		if len(lines) != 2 || lines[0].Spans[0].Action != "transfer" ||
			lines[0].Spans[len(lines[0].Spans)-1].Action != "compute" || lines[0].Name == "" {
			t.Errorf("timelines %+v", lines)
		}
	})
}

// A peer that is gone is reported; the worker requests other holders of the key.
func TestPeerGone(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	_, seen := d.worker(t, worker.Config{Dial: comm.DialConfig{Timeout: 200e6}})
	other, _ := d.worker(t, worker.Config{})
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	seen.send(t, compute("x", 1, spec(t, inc, ref[int]("lost")), map[string][]string{"lost": {other.Address()}}))
	ask := seen.receive(t, "request-refresh-who-has")
	if keys, _ := ask.Get("keys"); len(keys.([]any)) != 1 {
		t.Errorf("got request %v", ask)
	}
}

func TestTaskErrors(t *testing.T) {
	d := direct(t, "tcp://127.0.0.1:0")
	_, seen := d.worker(t, worker.Config{})
	cases := []struct {
		key  string
		spec any
		want string
	}{
		{"own", spec(t, spoil), "the milk is spoilt"},
		{"panic", spec(t, fall), "over the edge"},
		{"unknown", []byte("MS\x01\xa7no.such\x90\x00"), "is not registered"},
		{"broken", []byte("MS\x01\xff"), "call"},
		{"pickled", wire.ToPickle{Value: "x"}, "Python"},
	}
	for i, c := range cases {
		m := compute(c.key, int64(i), nil, nil)
		m.Set("run_spec", c.spec)
		seen.send(t, m)
		e := seen.receive(t, "task-erred")
		raw, _ := e.Get("exception")
		x, err := pickle.LoadException(raw.([]byte), wire.DecodeOptions{}.Pickle)
		if err != nil {
			t.Fatalf("%s: exception %v: %v", c.key, raw, err)
		}
		if e.GetString("key") != c.key || !strings.Contains(x.Text, c.want) ||
			!strings.Contains(e.GetString("exception_text"), c.want) {
			t.Errorf("%s: %v: %q", c.key, e, x.Text)
		}
		if c.key == "panic" && !strings.Contains(e.GetString("traceback_text"), "funcs_test.go") {
			t.Errorf("no stack in %q", e.GetString("traceback_text"))
		}
	}
}
