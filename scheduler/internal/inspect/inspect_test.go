package inspect

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/history"
	"go.millstream.dev/scheduler/internal/hosttest"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/primitives"
	"go.millstream.dev/scheduler/internal/recovery"
	"go.millstream.dev/scheduler/internal/shortage"
	"go.millstream.dev/scheduler/internal/topics"
)

type rig struct {
	*hosttest.Host
	*Inspector
	budget primitives.Budget
	totals Totals
	worker *peers.Worker
}

// start returns an Inspector of a state in which x is done and its dependent y runs on the only worker.
func start(t *testing.T) *rig {
	r := &rig{Host: hosttest.New(t)}
	workers, clients := peers.NewWorkers(r.Host.State), peers.NewClients(r.Host.State)
	topic := topics.New(topics.Host{
		Loop: r.Host.Loop, Log: r.Host.Log, Length: 10, Bytes: 1 << 20, Send: func(string, msgpack.Map) {},
	})
	r.Inspector = New(Host{
		Loop: r.Host.Loop, Log: r.Host.Log, State: r.Host.State, Workers: workers, Clients: clients, Topics: topic,
		Primitives: primitives.New(primitives.Host{
			Loop: r.Host.Loop, Log: r.Host.Log, Journal: r.Host.Journal, Clients: r.Host.Wants, Budget: &r.budget,
			Tasks: &r.Host.Tasks,
		}),
		Journal:    recovery.NewLog(r.Host.Log, nil),
		TaskStream: history.NewTaskStream(r.Host.Loop, 10), Transfers: history.NewTransfers(r.Host.Loop, 10),
		Shortages: shortage.New(shortage.Host{
			Loop: r.Host.Loop, Log: r.Host.Log, State: r.Host.State, Workers: workers, Clients: clients,
			Contact: func() string { return "tcp://s:1" }, WorkersAdded: func() int64 { return 1 },
		}),
		Totals: &r.totals, Context: t.Context(), ID: "the-id", Contact: func() string { return "tcp://127.0.0.1:1" },
		Started: func() time.Time { return time.Unix(100, 0) }, WorkerTTL: time.Minute,
		Broadcast: func(_ context.Context, msg msgpack.Map) (any, error) {
			return msgpack.MapOf("tcp://w", msgpack.MapOf("id", "w", "asked", msg.GetString("op"))), nil
		},
		Versions: func(context.Context) (any, error) { return msgpack.MapOf("packages", msgpack.Map{}), nil },
		Usage:    func(*peers.Worker) msgpack.Map { return msgpack.MapOf("process", 1) },
		Lines:    func(int) []any { return []any{[]any{"INFO", "hello"}} },
	})
	r.Host.Serve(r.Register)
	r.Do(func() {
		r.worker = &peers.Worker{Address: "tcp://w", Name: "w", Alias: "\xa1w", Host: "h", Extra: msgpack.MapOf("e", 1)}
		r.worker.ID = r.AddWorker("tcp://w", r.worker)
		workers.Add(r.worker)
		r.Submit(r.AddClient("c", nil), []string{"x"}, []string{"y", "x"})
		r.Finish(r.worker.ID, "x")
		topic.Publish("hello", "all")
	})
	return r
}

func TestQuestions(t *testing.T) {
	r := start(t)
	for _, c := range []struct {
		op   string
		args []any
		want string
	}{
		{"who_has", []any{"keys", []any{"x", "y", "z"}}, "[{x [tcp://w]} {y []} {z []}]"},
		{"who_has", nil, "x [tcp://w]"},
		{"has_what", nil, "[{tcp://w [x]}]"},
		{"has_what", []any{"workers", []any{"nobody"}}, "[]"},
		{"ncores", nil, "[{tcp://w 1}]"},
		{"ncores_running", []any{"workers", []any{"w"}}, "[{tcp://w 1}]"},
		{"processing", nil, "[{tcp://w [y]}]"},
		{"nbytes", []any{"keys", []any{"x"}, "summary", false}, "[{x 8}]"},
		{"nbytes", nil, "{x 8}"},
		{"get_task_status", []any{"keys", []any{"x", "y", "z"}}, "[{x memory} {y processing} {z <nil>}]"},
		{"get_error_cause", []any{"keys", []any{"x", "z"}}, "<nil>"},
		{"get_task_prefix_states", nil, "memory 1"},
		{"get_story", []any{"keys_or_stimuli", []any{}}, "[]"},
	} {
		if got := fmt.Sprint(r.Call(c.op, c.args...)); !strings.Contains(got, c.want) {
			t.Errorf("%s: got %s, want %s", c.op, got, c.want)
		}
	}
	if story := r.Call("get_story", "keys_or_stimuli", []any{"x"}).([]any); len(story) < 3 {
		t.Errorf("story: got %v, want at least 3 entries", story)
	}
	r.Fails("KeyError", "nbytes", "keys", []any{"z"})
	r.Fails("KeyError", "get_runspec", "key", "z")
	for _, op := range []string{"who_has", "nbytes", "get_task_status", "get_error_cause"} {
		r.Fails("TypeError", op, "keys", []any{msgpack.MapOf("a", 1)})
	}
	r.Do(func() {
		x := r.Host.State.Worker(r.worker.ID)
		r.Host.Apply(&state.WorkerStatusChange{Worker: x.ID(), Status: state.StatusPaused})
	})
	if got := fmt.Sprint(r.Call("ncores_running")); got != "[]" {
		t.Errorf("ncores_running of a paused worker: got %s, want none", got)
	}
}

func TestIdentity(t *testing.T) {
	r := start(t)
	id := r.Call("identity").(msgpack.Map)
	workers, _ := id.Get("workers")
	w, _ := workers.(msgpack.Map)
	if id.GetString("id") != "the-id" || id.GetString("address") != "tcp://127.0.0.1:1" || len(w) != 1 {
		t.Errorf("identity: got %v", id)
	}
	one, _ := w[0].Value.(msgpack.Map)
	if one.GetString("name") != "w" || one.GetString("status") != "running" || !one.Has("e") || !one.Has("nthreads") {
		t.Errorf("identity of the worker: got %v", one)
	}
	id = r.Call("identity", "n_workers", 0).(msgpack.Map)
	if workers, _ = id.Get("workers"); len(workers.(msgpack.Map)) != 0 {
		t.Errorf("identity without workers: got %v", workers)
	}
	if n, _ := id.Get("n_workers"); n != int64(1) {
		t.Errorf("n_workers: got %v, want 1", n)
	}
	r.Do(func() {
		r.worker.Metrics = msgpack.MapOf("x", func() {})
		info := r.FacadeInfo()
		if _, err := msgpack.Append(nil, info); err != nil {
			t.Errorf("extra fields of a worker: got error %v, want none", err)
		}
		rows, err := r.FacadeTasks()
		if list, _ := rows.([]any); err != nil || len(list) != 2 {
			t.Errorf("tasks: got %v, error %v, want 2", rows, err)
		}
	})
}

// fetch gets a page of the HTTP server.
func (r *rig) fetch(t *testing.T, path string) (int, string) {
	t.Helper()
	resp, err := http.Get("http://" + r.Inspector.Address() + path)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestPages(t *testing.T) {
	r := start(t)
	if r.Inspector.Address() != "" {
		t.Error("Address without a server: got one")
	}
	r.Inspector.Close(t.Context()) // without a server
	if err := r.Inspector.Serve("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		http.DefaultClient.CloseIdleConnections()
		r.Inspector.Close(t.Context())
	}()
	for path, want := range map[string]string{
		"/": "/metrics", "/health": "ok", "/json/identity.json": `"id":"the-id"`, "/json/counts.json": `"tasks":2`,
		"/millstream/tasks": `"next":0`, "/millstream/transfers": `"transfers"`,
		"/millstream/unrunnable": `"unrunnable":[]`,
		"/millstream/events":     "hello", "/millstream/events?topic=none": `"events":[]`,
		"/metrics": `dask_scheduler_tasks{state="memory"} 1`,
	} {
		if status, body := r.fetch(t, path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: got %d, %.300s, want %s", path, status, body, want)
		}
	}
	for _, path := range []string{"/millstream/tasks?since=x", "/millstream/tasks?count=-1"} {
		if status, body := r.fetch(t, path); status != http.StatusBadRequest {
			t.Errorf("%s: got %d, %s, want 400", path, status, body)
		}
	}
	if status, _ := r.fetch(t, "/nowhere"); status != http.StatusNotFound {
		t.Errorf("unknown page: got status %d, want 404", status)
	}
	if err := New(r.Inspector.Host).Serve("256.0.0.1:x"); err == nil {
		t.Error("invalid address: got no error")
	}
}

// All values of msgpack are converted to JSON.
func TestPlain(t *testing.T) {
	v := msgpack.Map{
		{Key: "a", Value: []any{int64(1), nil, true, "s", 1.5}}, {Key: int64(2), Value: math.NaN()},
		{Key: "raw", Value: msgpack.Raw("\xa1x")}, {Key: "bad", Value: msgpack.Raw("\xc1")},
		{Key: "other", Value: struct{ A int }{1}}, {Key: "inf", Value: math.Inf(1)},
	}
	b, err := json.Marshal(plain(v))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"a":[1,null,true,"s",1.5]`, `"2":null`, `"raw":"x"`, `"bad":null`, `"other":"{1}"`,
		`"inf":null`} {
		if !strings.Contains(string(b), want) {
			t.Errorf("got %s, want %s", b, want)
		}
	}
}

// Names of peers in metrics are bounded in number and length.
func TestMetricBounds(t *testing.T) {
	list := make([]prefixSample, MaxPrefixSeries+10)
	for i := range list {
		list[i] = prefixSample{name: fmt.Sprint(i), compute: float64(i), bytes: 1, suspicious: 1}
	}
	used := mostUsed(list)
	last := used[len(used)-1]
	if len(used) != MaxPrefixSeries+1 || last.name != "(others)" || last.compute != 45 || last.bytes != 10 ||
		last.suspicious != 10 {
		t.Errorf("got %d series, the last %+v", len(used), last)
	}
	if n := len(mostUsed(list[:3])); n != 3 {
		t.Errorf("three prefixes: got %d series", n)
	}
	for in, most := range map[string]int{strings.Repeat("x", 1000): 210, "a\xffb": 10, "plain": 5} {
		if got := metricLabel(in); len(got) > most || !strings.HasPrefix(got, in[:1]) {
			t.Errorf("label of %.20q: got %.40q", in, got)
		}
	}
}
