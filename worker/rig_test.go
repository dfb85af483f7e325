package worker_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/comm"
	_ "go.millstream.dev/internal/comm/inproc"
	_ "go.millstream.dev/internal/comm/tcp"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker"
)

// patience bounds the wait for events that must happen. Tests assert nothing about durations.
const patience = 30 * time.Second

func TestMain(m *testing.M) {
	task.Freeze()
	os.Exit(leak.Main(m))
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func quiet() *slog.Logger {
	if os.Getenv("LOUD") != "" {
		return slog.Default()
	}
	return slog.New(slog.DiscardHandler)
}

// director is a scheduler that a test controls: it replies to requests of workers and sends the messages of the test.
// It does not track tasks.
type director struct {
	t       testing.TB
	server  *rpc.Server
	pool    *rpc.Pool
	address string

	mu      sync.Mutex
	workers map[string]*directed
	arrived chan *directed
	beats   chan msgpack.Map
	retired chan msgpack.Map
	missing bool          // reply to heartbeats that the worker is unknown
	replied chan struct{} // a token after each such reply
}

// directed is a worker as the director sees it.
type directed struct {
	address string
	hello   msgpack.Map
	writer  *rpc.Writer
	ops     chan msgpack.Map // its messages
	gone    chan struct{}
}

func direct(t testing.TB, listen string) *director {
	t.Helper()
	ctx := testContext(t)
	l, err := comm.Listen(ctx, listen, comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	return directOn(t, l)
}

func directOn(t testing.TB, l comm.Listener) *director {
	d := &director{t: t, workers: map[string]*directed{}, arrived: make(chan *directed, 16),
		beats: make(chan msgpack.Map, 1024), replied: make(chan struct{}, 1), retired: make(chan msgpack.Map, 16),
		address: l.ContactAddr()}
	d.server = rpc.NewServer(rpc.Config{Type: "Scheduler", Logger: quiet(), Decode: wire.DecodeOptions{Keep: true}})
	d.pool = rpc.NewPool(comm.Default, rpc.PoolConfig{})
	d.server.Handle("register-worker", d.register)
	d.server.Handle("heartbeat_worker", func(_ context.Context, r *rpc.Request) (any, error) {
		m, err := r.Values()
		if err != nil {
			return nil, err
		}
		select {
		case d.beats <- wire.Clone(m).(msgpack.Map):
		default:
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.missing {
			select {
			case d.replied <- struct{}{}:
			default:
			}
			return msgpack.MapOf("status", "missing"), nil
		}
		return msgpack.MapOf("status", "OK", "time", 0.0, "heartbeat-interval", 0.02), nil
	})
	d.server.Handle("retire_workers", func(_ context.Context, r *rpc.Request) (any, error) {
		m, err := r.Values()
		d.retired <- wire.Clone(m).(msgpack.Map)
		return msgpack.Map{}, err
	})
	go func() { _ = d.server.Serve(context.Background(), l) }()
	t.Cleanup(d.close)
	return d
}

func (d *director) close() {
	_ = d.server.Close()
	_ = d.pool.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.workers {
		w.writer.Abort(nil)
	}
}

func (d *director) register(ctx context.Context, r *rpc.Request) (any, error) {
	r.Takeover()
	m, err := r.Values()
	if err != nil {
		return nil, err
	}
	hello := wire.Clone(m).(msgpack.Map)
	if hello.GetString("name") == "taken" {
		return rpc.NoReply, write(ctx, r.Comm, msgpack.MapOf("status", "error", "message", "name taken, taken", "time",
			0.0))
	}
	if err := write(ctx, r.Comm, msgpack.MapOf("status", "OK", "time", 0.0, "heartbeat-interval", 0.02,
		"worker-plugins", msgpack.Map{})); err != nil {
		return nil, err
	}
	w := &directed{address: hello.GetString("address"), hello: hello, writer: rpc.NewWriter(r.Comm, rpc.WriterConfig{}),
		ops: make(chan msgpack.Map, 10000), gone: make(chan struct{})}
	w.writer.Start()
	defer close(w.gone)
	d.mu.Lock()
	d.workers[w.address] = w
	d.mu.Unlock()
	d.arrived <- w
	return rpc.NoReply, rpc.ServeStream(ctx, lastMessageComm{r.Comm, w.ops},
		rpc.StreamConfig{Decode: wire.DecodeOptions{},
			Default: func(_ context.Context, b *rpc.Body) error {
				m, err := b.Values()
				if err != nil {
					return err
				}
				m = wire.Clone(m).(msgpack.Map)
				m.Set("op", b.Op)
				w.ops <- m
				return nil
			}})
}

// lastMessageComm is a stream of a worker that also delivers its last message, which ends the stream in package rpc.
type lastMessageComm struct {
	comm.Comm
	ops chan<- msgpack.Map
}

func (c lastMessageComm) Read(ctx context.Context) (*wire.Message, error) {
	m, err := c.Comm.Read(ctx)
	if err != nil {
		return nil, err
	}
	if v, err := wire.Decode(m, wire.DecodeOptions{Keep: true}); err == nil {
		list, _ := v.([]any)
		for _, x := range list {
			if op, ok := x.(msgpack.Map); ok && op.GetString("op") == "close-stream" {
				c.ops <- wire.Clone(op).(msgpack.Map)
			}
		}
	}
	return m, nil
}

func write(ctx context.Context, c comm.Comm, v any) error {
	m, err := wire.Encode(v, c.Info().EncodeOptions())
	if err != nil {
		return err
	}
	defer m.Release()
	return c.Write(ctx, m)
}

// worker starts a worker of the director and returns both views of it.
func (d *director) worker(t testing.TB, cfg worker.Config) (*worker.Worker, *directed) {
	t.Helper()
	cfg.Scheduler = d.address
	if cfg.Logger == nil {
		cfg.Logger = quiet()
	}
	if cfg.Threads == 0 {
		cfg.Threads = 1
	}
	cfg.Validate = true
	cfg.LocalDirectory = t.TempDir()
	w, err := worker.Start(testContext(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w, d.next(t)
}

func (d *director) next(t testing.TB) *directed {
	t.Helper()
	select {
	case w := <-d.arrived:
		return w
	case <-time.After(patience):
		t.Fatal("got no registration")
		return nil
	}
}

// send sends messages on the stream of a worker.
func (w *directed) send(t testing.TB, messages ...msgpack.Map) {
	t.Helper()
	for _, m := range messages {
		if err := w.writer.SendValue(m); err != nil {
			t.Fatal(err)
		}
	}
}

// receive waits for the next message with an op, and skips others.
func (w *directed) receive(t testing.TB, op string) msgpack.Map {
	t.Helper()
	var seen []string
	for {
		select {
		case m := <-w.ops:
			if m.GetString("op") == op {
				return m
			}
			seen = append(seen, fmt.Sprint(m))
		case <-time.After(patience):
			t.Fatalf("got messages %v, want %s", seen, op)
		}
	}
}

// compute returns the message that assigns a call.
func compute(key string, run int64, spec []byte, whoHas map[string][]string) msgpack.Map {
	deps, sizes := msgpack.Map{}, msgpack.Map{}
	for k, list := range whoHas {
		deps.Set(k, list)
		sizes.Set(k, 100)
	}
	return msgpack.MapOf("op", "compute-task", "key", key, "run_id", run, "priority", []any{0, 1, run}, "stimulus_id",
		"test",
		"who_has", deps, "nbytes", sizes, "run_spec", spec, "resource_restrictions", msgpack.Map{}, "actor", false,
		"annotations", msgpack.Map{}, "span_id", "s")
}

// call calls an op of a worker.
func (d *director) call(t testing.TB, address, op string, args msgpack.Map, reply any) {
	t.Helper()
	if err := d.pool.Call(testContext(t), address, op, args, reply); err != nil {
		t.Fatalf("%s: %v", op, err)
	}
}

// fetch gets values from a worker as a client does: get_data, then the acknowledgement.
func (d *director) fetch(t testing.TB, address string, keys ...string) msgpack.Map {
	t.Helper()
	ctx := testContext(t)
	c, err := d.pool.Acquire(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	defer d.pool.Release(address, c)
	var reply msgpack.Map
	if err := rpc.Call(ctx, c, "get_data", msgpack.MapOf("keys", keys, "who", nil), &reply); err != nil {
		t.Fatal(err)
	}
	if reply.GetString("status") != "OK" {
		t.Fatalf("get_data: %v", reply)
	}
	if err := write(ctx, c, "OK"); err != nil {
		t.Fatal(err)
	}
	data, _ := reply.Get("data")
	return data.(msgpack.Map)
}

// value returns the value of a key in such data.
func value(t testing.TB, data msgpack.Map, key string) any {
	t.Helper()
	v, ok := data.Get(key)
	if !ok {
		t.Fatalf("no %s in %v", key, data)
	}
	return v
}
