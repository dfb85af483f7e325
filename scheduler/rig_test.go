package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/comm"
	_ "go.millstream.dev/internal/comm/inproc"
	_ "go.millstream.dev/internal/comm/tcp"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/task/taskgraph"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/scheduler/internal/data"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/wire"
)

func TestMain(m *testing.M) {
	if journal := os.Getenv(childVariable); journal != "" {
		childScheduler(journal)
		return
	}
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	os.Exit(leak.Main(m))
}

// patience bounds how long a test waits for a condition.
const patience = 30 * time.Second

// transports are the addresses that the end-to-end tests run over.
var transports = map[string]string{"inproc": "inproc://", "tcp": "tcp://127.0.0.1:0"}

func each(t *testing.T, f func(t *testing.T, listen string)) {
	for name, listen := range transports {
		t.Run(name, func(t *testing.T) { f(t, listen) })
	}
}

// start runs a scheduler that checks its state after each event.
func start(t testing.TB, cfg Config) *Scheduler {
	t.Helper()
	if len(cfg.Listen) == 0 {
		cfg.Listen = []string{"tcp://127.0.0.1:0"}
	}
	cfg.Validate = true
	cfg.StealingInterval = 20 * time.Millisecond          // ticks are no slower
	cfg.ReplicaInterval = cmp.Or(cfg.ReplicaInterval, -1) // replicas stay
	s, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Err(); err != nil {
			t.Errorf("Err after the test: got %v, want none", err)
		}
	})
	return s
}

// peer is the common part of clients and workers of the tests: a stream with the scheduler, whose messages are kept in
// order, and a pool for requests.
type peer struct {
	t    testing.TB
	addr string // of the scheduler
	comm comm.Comm
	pool *rpc.Pool

	mu     sync.Mutex
	inbox  []msgpack.Map // guarded by mu
	news   chan struct{} // one token: a message has arrived
	closed chan struct{} // the stream has ended
	on     func(msgpack.Map)
}

func newPeer(t testing.TB, addr string) *peer {
	t.Helper()
	c, err := comm.Default.Dial(t.Context(), addr, comm.DialConfig{})
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, addr: addr, comm: c, pool: rpc.NewPool(comm.Default, rpc.PoolConfig{}),
		news: make(chan struct{}, 1), closed: make(chan struct{})}
	t.Cleanup(p.close)
	return p
}

func (p *peer) close() {
	p.comm.Abort()
	_ = p.pool.Close()
}

// read reads the stream until it ends.
func (p *peer) read() {
	defer close(p.closed)
	for {
		m, err := p.comm.Read(context.Background())
		if err != nil {
			return
		}
		v, err := wire.Decode(m, wire.DecodeOptions{Keep: true})
		if err != nil {
			p.t.Errorf("decode message: %v", err)
			return
		}
		list, ok := wire.Clone(v).([]any)
		if !ok {
			list = []any{wire.Clone(v)}
		}
		m.Release()
		for _, x := range list {
			msg := x.(msgpack.Map)
			if p.on != nil {
				p.on(msg)
			}
			p.mu.Lock()
			p.inbox = append(p.inbox, msg)
			p.mu.Unlock()
		}
		select {
		case p.news <- struct{}{}:
		default:
		}
	}
}

// send sends messages on the stream.
func (p *peer) send(messages ...any) {
	p.t.Helper()
	m, err := wire.Encode(messages, p.comm.Info().EncodeOptions())
	if err != nil {
		p.t.Fatal(err)
	}
	defer m.Release()
	if err := p.comm.Write(context.Background(), m); err != nil && !errors.Is(err, comm.ErrClosed) {
		p.t.Errorf("send: %v", err)
	}
}

// expect waits for a message that matches and removes it with all before it.
func (p *peer) expect(what string, fits func(msgpack.Map) bool) msgpack.Map {
	p.t.Helper()
	over := time.After(patience)
	for {
		p.mu.Lock()
		for i, m := range p.inbox {
			if fits(m) {
				p.inbox = p.inbox[i+1:]
				p.mu.Unlock()
				return m
			}
		}
		p.mu.Unlock()
		select {
		case <-p.news:
		case <-over:
			p.mu.Lock()
			seen := fmt.Sprint(p.inbox)
			p.mu.Unlock()
			p.t.Fatalf("no %s; got %.2000s", what, seen)
		}
	}
}

// expectOp waits for an op.
func (p *peer) expectOp(op string) msgpack.Map {
	p.t.Helper()
	return p.expect(op, func(m msgpack.Map) bool { return m.GetString("op") == op })
}

// expectKey waits for an op about a key.
func (p *peer) expectKey(op, key string) msgpack.Map {
	p.t.Helper()
	return p.expect(op+" "+key, func(m msgpack.Map) bool {
		return m.GetString("op") == op &&
			m.GetString("key") == key
	})
}

// waitClosed waits for the end of the stream.
func (p *peer) waitClosed() {
	p.t.Helper()
	select {
	case <-p.closed:
	case <-time.After(patience):
		p.t.Fatal("stream: not closed")
	}
}

// call calls an op of the scheduler.
func (p *peer) call(op string, args ...any) any {
	p.t.Helper()
	v, err := p.try(op, args...)
	if err != nil {
		p.t.Fatalf("%s: %v", op, err)
	}
	return v
}

func (p *peer) try(op string, args ...any) (any, error) {
	var out any
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err := p.pool.Call(ctx, p.addr, op, msgpack.MapOf(args...), &out)
	return out, err
}

// fails calls an op that must fail with an error that contains a text.
func (p *peer) fails(text, op string, args ...any) {
	p.t.Helper()
	_, err := p.try(op, args...)
	if err == nil || !strings.Contains(err.Error(), text) {
		p.t.Errorf("%s: got error %v, want one with %q", op, err, text)
	}
}

// testClient is a client that implements only the protocol.
type testClient struct{ *peer }

func connect(t testing.TB, s *Scheduler, name string) *testClient {
	t.Helper()
	c := &testClient{newPeer(t, s.Address())}
	if err := rpc.Notify(t.Context(), c.comm, "register-client",
		msgpack.MapOf("client", name, "versions", msgpack.Map{})); err != nil {
		t.Fatal(err)
	}
	go c.read()
	c.expectOp("stream-start")
	return c
}

// node is a task of a test's graph: the action of its worker, and its dependencies.
type node struct {
	key, spec string
	deps      []string
	notes     *taskgraph.Annotations
}

// specHead begins a spec that is a call of a Go function, see task.IsSpec.
const specHead = "MS\x01"

func names(list ...string) []any {
	out := make([]any, len(list))
	for i, k := range list {
		out[i] = k
	}
	return out
}

// submit sends an update-graph for some nodes, of which keys are requested (none: all).
func (c *testClient) submit(nodes []node, keys ...string) {
	c.t.Helper()
	var w taskgraph.Writer
	for i, n := range nodes {
		notes := taskgraph.None
		if n.notes != nil {
			notes = w.Annotations(n.notes)
		}
		var deps []task.Key
		for _, d := range n.deps {
			deps = append(deps, task.NewKey(d))
		}
		w.Spec(task.NewKey(n.key), []byte(specHead+n.spec), deps, notes, int64(i))
	}
	if len(keys) == 0 {
		for _, n := range nodes {
			keys = append(keys, n.key)
		}
	}
	c.send(msgpack.MapOf("op", "update-graph", "expr_ser", w.Serialized(), "keys", names(keys...), "internal_priority",
		nil,
		"submitting_task", nil, "fifo_timeout", "100 ms", "actors", false, "code", []any{}, "annotations",
		msgpack.Map{},
		"span_metadata", msgpack.MapOf("collections", []any{})))
}

// gather returns results through the scheduler.
func (c *testClient) gather(keys ...string) map[string]string {
	c.t.Helper()
	d, _ := c.call("gather", "keys", names(keys...)).(msgpack.Map)
	if d.GetString("status") != "OK" {
		c.t.Fatalf("gather: got %v, want status OK", d)
	}
	v, _ := d.Get("data")
	out := map[string]string{}
	for _, p := range v.(msgpack.Map) {
		out[p.Key.(string)] = fmt.Sprint(p.Value)
	}
	return out
}

// testWorker is a worker that implements the protocol: it receives tasks, fetches their dependencies from its peers,
// and computes texts. The spec of a task is its action: "fail" fails, "hang" never ends, anything else is put before
// the inputs.
type testWorker struct {
	*peer
	name    string
	address string
	server  *rpc.Server

	mu   sync.Mutex
	data map[string]string // guarded by mu
	runs map[string]int    // guarded by mu: how often a task was computed
}

type option func(msgpack.Map) msgpack.Map

// with adds to, or replaces in, a worker's registration.
func with(key string, value any) option {
	return func(m msgpack.Map) msgpack.Map {
		m.Set(key, value)
		return m
	}
}

// serveWorker serves the worker's own address.
func serveWorker(t testing.TB, s *Scheduler, name string) *testWorker {
	t.Helper()
	listen := "tcp://127.0.0.1:0"
	if strings.HasPrefix(s.Address(), "inproc") {
		listen = "inproc://"
	}
	l, err := comm.Default.Listen(t.Context(), listen, comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	w := &testWorker{peer: newPeer(t, s.Address()), name: name, address: l.ContactAddr(), data: map[string]string{},
		runs: map[string]int{}}
	w.server = rpc.NewServer(rpc.Config{Type: "Worker"})
	w.server.Handle("get_data", w.getData)
	w.server.Handle("update_data", w.updateData)
	rpc.Handle(w.server, "run", func(_ context.Context, _ *rpc.Request, in struct {
		Function string `rpc:"function"`
	}) (msgpack.Map, error) {
		if in.Function == "fail" {
			return nil, errors.New("failed on purpose")
		}
		return msgpack.MapOf("status", "OK", "result", name+":"+in.Function), nil
	})
	served := make(chan struct{})
	go func() { defer close(served); _ = w.server.Serve(context.Background(), l) }()
	t.Cleanup(func() { _ = w.server.Close(); <-served })
	return w
}

// register sends register-worker and returns the reply.
func (w *testWorker) register(options ...option) msgpack.Map {
	w.t.Helper()
	m := msgpack.MapOf("address", w.address, "status", "running", "nthreads", 1, "name", w.name, "now", 0.0,
		"resources", msgpack.Map{},
		"memory_limit", 1<<30, "local_directory", "", "services", msgpack.Map{}, "nanny", nil, "pid", 1, "versions",
		msgpack.MapOf("packages", msgpack.Map{}),
		"metrics", msgpack.Map{}, "extra", msgpack.MapOf("millstream", msgpack.MapOf("registry", task.Hash())),
		"stimulus_id", "test", "server_id", "Worker-"+w.name)
	for _, o := range options {
		m = o(m)
	}
	if err := rpc.Notify(w.t.Context(), w.comm, "register-worker", m); err != nil {
		w.t.Fatal(err)
	}
	r, err := w.comm.Read(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Release()
	v, err := wire.Decode(r, wire.DecodeOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return wire.Clone(v).(msgpack.Map)
}

// join registers a worker that runs tasks.
func join(t testing.TB, s *Scheduler, name string, options ...option) *testWorker {
	t.Helper()
	w := serveWorker(t, s, name)
	if r := w.register(options...); r.GetString("status") != "OK" {
		t.Fatalf("register-worker: got %v, want status OK", r)
	}
	w.on = w.work
	go w.read()
	return w
}

// crash ends the worker without closing messages.
func (w *testWorker) crash() {
	w.comm.Abort()
	_ = w.server.Close()
	<-w.closed
}

func (w *testWorker) count(key string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runs[key]
}

func (w *testWorker) holds(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, ok := w.data[key]
	return ok
}

func (w *testWorker) put(key, value string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.data[key] = value
}

// work handles the messages of the scheduler.
func (w *testWorker) work(m msgpack.Map) {
	switch m.GetString("op") {
	case "compute-task":
		w.compute(m)
	case "free-keys", "remove-replicas":
		keys, _ := m.Get("keys")
		w.mu.Lock()
		for _, k := range keys.([]any) {
			delete(w.data, fmt.Sprint(k))
		}
		w.mu.Unlock()
	case "acquire-replicas":
		who, _ := m.Get("who_has")
		var got []any
		for _, p := range who.(msgpack.Map) {
			if v, ok := w.fetch(p.Key.(string), p.Value); ok {
				w.put(p.Key.(string), v)
				got = append(got, p.Key)
			}
		}
		w.send(msgpack.MapOf("op", "add-keys", "keys", got, "stimulus_id", "acquired"))
	case "steal-request":
		key, _ := m.Get("key")
		w.send(msgpack.MapOf("op", "steal-response", "key", key, "state", nil, "stimulus_id",
			m.GetString("stimulus_id")))
	case "close":
		w.comm.Abort()
	}
}

// fetch gets a result from one of its holders.
func (w *testWorker) fetch(key string, holders any) (string, bool) {
	w.mu.Lock()
	v, ok := w.data[key]
	w.mu.Unlock()
	if ok {
		return v, true
	}
	for _, h := range holders.([]any) {
		s := data.NewRelay(data.RelayHost{Pool: w.pool})
		var a data.Answers
		got, _, err := s.GetDataOnce(context.Background(), h.(string), []task.Key{task.NewKey(key)}, &a)
		if err == nil && len(got) == 1 {
			text := fmt.Sprint(open(got[0].Value))
			a.Release()
			return text, true
		}
		a.Release()
	}
	return "", false
}

// open decodes a serialized value.
func open(v any) any {
	if c, ok := v.(*wire.Serialized); ok {
		o, err := c.Decode(wire.DecodeOptions{})
		if err != nil {
			return err
		}
		return wire.Clone(o)
	}
	return v
}

// compute runs one task and reports it.
func (w *testWorker) compute(m msgpack.Map) {
	key, spec := m.GetString("key"), ""
	if b, ok := m.Get("run_spec"); ok {
		spec = strings.TrimPrefix(string(b.([]byte)), specHead)
	}
	runID, _ := m.Get("run_id")
	if spec == "hang" {
		return
	}
	who, _ := m.Get("who_has")
	deps := who.(msgpack.Map)
	slices.SortFunc(deps, func(a, b msgpack.Pair) int { return strings.Compare(a.Key.(string), b.Key.(string)) })
	out := spec
	for _, p := range deps {
		v, ok := w.fetch(p.Key.(string), p.Value)
		if !ok {
			w.send(msgpack.MapOf("op", "reschedule", "key", key, "stimulus_id", "no input"))
			return
		}
		out += "(" + v + ")"
	}
	w.mu.Lock()
	w.runs[key]++
	w.mu.Unlock()
	now := val.Seconds(time.Now())
	times := []any{msgpack.MapOf("action", "compute", "start", now-0.001, "stop", now)}
	if spec == "fail" {
		exc, err := pickle.DumpException(errors.New("failed on purpose"))
		if err != nil {
			w.t.Error(err)
		}
		w.send(msgpack.MapOf("op", "task-erred", "key", key, "run_id", runID, "status", "error", "exception",
			wire.Serialize{Value: exc}, "traceback", nil,
			"exception_text", "failed on purpose", "traceback_text", "here", "thread", 1, "startstops", times,
			"stimulus_id", "x"))
		return
	}
	w.put(key, out)
	w.send(msgpack.MapOf("op", "task-finished", "key", key, "run_id", runID, "status", "OK", "nbytes", len(out),
		"type", nil, "typename", "str",
		"metadata", msgpack.Map{}, "thread", 1, "startstops", times, "stimulus_id", "x"))
}

// getData serves Dask's get_data with its confirmation.
func (w *testWorker) getData(ctx context.Context, r *rpc.Request) (any, error) {
	var in struct {
		Keys []string `rpc:"keys"`
		Who  any      `rpc:"who,optional"`
	}
	if err := r.Args(&in); err != nil {
		return nil, err
	}
	data := msgpack.Map{}
	w.mu.Lock()
	for _, k := range in.Keys {
		if v, ok := w.data[k]; ok {
			data = append(data, msgpack.Pair{Key: k, Value: wire.Serialize{Value: v}})
		}
	}
	w.mu.Unlock()
	m, err := wire.Encode(msgpack.MapOf("status", "OK", "data", data), r.Comm.Info().EncodeOptions())
	if err != nil {
		return nil, err
	}
	defer m.Release()
	if err := r.Comm.Write(ctx, m); err != nil {
		return nil, err
	}
	ok, err := r.Comm.Read(ctx)
	if err != nil {
		return nil, err
	}
	ok.Release()
	return rpc.NoReply, nil
}

func (w *testWorker) updateData(_ context.Context, r *rpc.Request) (any, error) {
	var in struct {
		Data     msgpack.Map `rpc:"data"`
		Stimulus any         `rpc:"stimulus_id,optional"`
	}
	if err := r.Args(&in); err != nil {
		return nil, err
	}
	sizes := msgpack.Map{}
	for _, p := range in.Data {
		v := fmt.Sprint(open(p.Value))
		w.put(p.Key.(string), v)
		sizes = append(sizes, msgpack.Pair{Key: p.Key, Value: len(v)})
	}
	return msgpack.MapOf("nbytes", sizes, "status", "OK"), nil
}

// until waits for a condition that no message reports.
func until(t testing.TB, what string, f func() bool) {
	t.Helper()
	over := time.Now().Add(patience)
	for !f() {
		if time.Now().After(over) {
			t.Fatalf("condition false after the time limit: %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}
