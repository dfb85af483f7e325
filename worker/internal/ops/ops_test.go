package ops

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/peernet"
	_ "go.millstream.dev/internal/comm/tcp"
	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/secure"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker/internal/execution"
	"go.millstream.dev/worker/internal/logs"
	"go.millstream.dev/worker/internal/memory"
	"go.millstream.dev/worker/internal/monitor"
	"go.millstream.dev/worker/internal/transfer"
)

func TestMain(m *testing.M) {
	task.Freeze()
	os.Exit(leak.Main(m))
}

var (
	double = task.Register1("ops.double", func(_ context.Context, x int) (int, error) { return 2 * x, nil })
	fall   = task.Register0("ops.fall", func(context.Context) (int, error) { panic("over the edge") })
)

var errClosed = errors.New("the worker is closed")

// rig is a server without a worker: it records the requests to it.
type rig struct {
	t       *testing.T
	address string
	pool    *rpc.Pool
	data    *store.Store
	logs    *logs.Records

	mu         sync.Mutex
	closed     bool
	stored     []state.Stored
	freed      []byte
	terminated string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, logs: logs.NewRecords()}
	log := slog.New(logs.NewHandler(slog.DiscardHandler, r.logs))
	m, err := memory.New(memory.Config{Logger: log, Directory: t.TempDir(), Records: 10,
		Fractions: memory.Fractions{Usage: func() int64 { return 0 }}.WithDefaults()})
	if err != nil {
		t.Fatal(err)
	}
	r.data = m.Store()
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	do := func(f func()) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.closed {
			f()
		}
		return !r.closed
	}
	exec := execution.New(execution.Config{Threads: 1, Memory: m, Logger: log, Records: 10,
		Worker: execution.Worker{Tasks: ctx, Go: all.Go, Do: do}})
	transfers := transfer.New(transfer.Config{Logger: log, Network: comm.Default, Outgoing: 10, AckTimeout: time.Minute,
		Records: 10, Data: r.data, Worker: transfer.Worker{Context: ctx, Go: all.Go,
			Paused:  func() bool { return false },
			Lost:    func(task.Key, error) {},
			Encode:  func(held []*store.Entry) []*store.Entry { return held },
			IsActor: func(task.Key) bool { return false },
		}})
	s := rpc.NewServer(rpc.Config{Type: "Worker", Logger: log, Decode: Decode, Waiting: Waiting, Detached: Detached})
	Register(s, Config{Logger: log, Memory: m, Exec: exec, Transfers: transfers, Logs: r.logs,
		Monitor: monitor.New(nil, nil),
		Host:    &task.Host{}, Peers: &peernet.Peers{}, GPU: "GPU-1", Trusted: true,
		Worker: Worker{
			Address: func() string { return "tcp://me:1" }, Closed: errClosed, Do: do,
			Store: func(values []*task.Value, stored []state.Stored) bool {
				return do(func() {
					for i, v := range values {
						r.data.Put(stored[i].Key, v, stored[i].NBytes)
					}
					r.stored = append(r.stored, stored...)
				})
			},
			FreeKeys: func(raw []byte) error { r.freed = append([]byte(nil), raw...); return nil },
			Story: func(keys []task.Key, stimuli []string) []state.Transition {
				return []state.Transition{{Key: keys[0], Stimulus: fmt.Sprint(stimuli), Time: time.Unix(5, 0)}}
			},
			Versions:  func() msgpack.Map { return msgpack.MapOf("host", "me") },
			Terminate: func(peer string) { do(func() { r.terminated = peer }) },
		}})
	l, err := comm.Listen(t.Context(), "tcp://127.0.0.1:0", comm.ListenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	r.address = l.ContactAddr()
	if err := transfers.Listen(t.Context(), r.address); err != nil {
		t.Fatal(err)
	}
	all.Go(func() { _ = s.Serve(ctx, l) })
	r.pool = rpc.NewPool(comm.Default, rpc.PoolConfig{})
	t.Cleanup(func() {
		_ = r.pool.Close()
		cancel()
		_ = s.Close()
		transfers.Close()
		all.Wait()
		m.Close()
	})
	return r
}

// call calls an op that must not fail.
func (r *rig) call(op string, args msgpack.Map, reply any) {
	r.t.Helper()
	if err := r.pool.Call(r.t.Context(), r.address, op, args, reply); err != nil {
		r.t.Errorf("%s: %v", op, err)
	}
}

// fails calls an op whose error must contain a text.
func (r *rig) fails(op string, args msgpack.Map, want string) {
	r.t.Helper()
	var reply msgpack.Map
	err := r.pool.Call(r.t.Context(), r.address, op, args, &reply)
	text := fmt.Sprint(err)
	if err == nil && reply.GetString("status") != "OK" {
		text = fmt.Sprint(reply)
	}
	if !strings.Contains(text, want) {
		r.t.Errorf("%s with %v: got %.500s, want %s", op, args, text, want)
	}
}

func spec(t *testing.T, f *task.Func, args ...func(*task.Builder) error) []byte {
	t.Helper()
	var b task.Builder
	b.Begin(f)
	for _, a := range args {
		if err := a(&b); err != nil {
			t.Fatal(err)
		}
	}
	return b.Append(nil)
}

func TestData(t *testing.T) {
	r := newRig(t)
	var reply msgpack.Map
	r.call("update_data", msgpack.MapOf("data", msgpack.MapOf("a", 5, "b", wire.Serialize{Value: []byte("xyz")})),
		&reply)
	sizes, _ := reply.Get("nbytes")
	if len(r.stored) != 2 || !r.data.Has(task.NewKey("b")) || len(sizes.(msgpack.Map)) != 2 {
		t.Errorf("stored %v, reply %v", r.stored, reply)
	}
	var keys []any
	if r.call("keys", nil, &keys); len(keys) != 2 {
		t.Errorf("keys %v", keys)
	}
	r.call("free_keys", msgpack.MapOf("keys", []any{"a"}), nil)
	if v, err := msgpack.Decode(r.freed); err != nil || fmt.Sprint(v) != "[a]" {
		t.Errorf("freed %v, %v", v, err)
	}
	r.call("gather", msgpack.MapOf("who_has", msgpack.MapOf("a", []any{r.address})), &reply)
	if reply.GetString("status") != "OK" { // already on the worker
		t.Errorf("gather: %v", reply)
	}
	r.call("gather", msgpack.MapOf("who_has", msgpack.MapOf("none", []any{r.address})), &reply)
	if failed, _ := reply.Get("keys"); reply.GetString("status") != "partial-fail" || fmt.Sprint(failed) != "[none]" {
		t.Errorf("gather: %v", reply)
	}
	for op, name := range map[string]string{"update_data": "data", "gather": "who_has", "free_keys": "keys"} {
		r.fails(op, msgpack.Map{}, name)
	}
	r.fails("update_data", msgpack.MapOf("data", 5), "data")
	r.fails("gather", msgpack.MapOf("who_has", 5), "who_has")
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.fails("update_data", msgpack.MapOf("data", msgpack.MapOf("a", 5)), errClosed.Error())
}

func TestRun(t *testing.T) {
	r := newRig(t)
	var reply msgpack.Map
	arg := func(b *task.Builder) error { return task.NewParam[int]().Val(b, 21) }
	r.call("run", msgpack.MapOf("function", spec(t, double, arg)), &reply)
	if x, _ := reply.Get("result"); reply.GetString("status") != "OK" || fmt.Sprint(x) != "42" {
		t.Errorf("got %v", reply)
	}
	r.fails("run", msgpack.MapOf("function", spec(t, fall)), "over the edge")
	ref := func(b *task.Builder) error {
		return task.NewParam[int]().Arg(b, task.RefTo[int](task.NewKey("x")))
	}
	r.fails("run", msgpack.MapOf("function", spec(t, double, ref)), "futures as arguments")
	// A Python function is not run, and that does not fail: Client.run calls all workers.
	r.call("run", msgpack.MapOf("function", []byte("\x80\x05N.")), &reply)
	if x, _ := reply.Get("result"); !strings.Contains(fmt.Sprint(x), "without Python") {
		t.Errorf("got %v", reply)
	}
}

func TestWithoutPython(t *testing.T) {
	r := newRig(t)
	for op, args := range map[string]msgpack.Map{
		"plugin-add": msgpack.MapOf("plugin", []byte("x"), "name", "p"), "plugin-remove": msgpack.MapOf("name", "p"),
		"upload_file": msgpack.MapOf("filename", "f.py", "data", []byte("x")),
	} {
		var reply msgpack.Map
		if r.call(op, args, &reply); reply.GetString("status") != "OK" {
			t.Errorf("%s: %v", op, reply)
		}
	}
	for _, op := range []string{"shuffle_receive", "shuffle_inputs_done"} {
		r.fails(op, msgpack.Map{}, op)
	}
	r.fails("actor_attribute", msgpack.MapOf("actor", "a", "attribute", "n"), "methods only")
	r.fails("actor_execute", msgpack.MapOf("actor", "a", "function", "f"), "no actor")
	r.fails("actor_execute", msgpack.MapOf("function", "f"), "actor")
}

func TestInspection(t *testing.T) {
	r := newRig(t)
	var pong string
	if r.call("ping", nil, &pong); pong != "pong" {
		t.Errorf("ping: %q", pong)
	}
	var story []any
	r.call("get_story", msgpack.MapOf("keys_or_stimuli", []any{"k", "s-1"}), &story)
	if row, _ := story[0].([]any); len(story) != 1 || row[0] != "k" || row[5] != "[k s-1]" || row[6] != 5.0 {
		t.Errorf("story %v", story)
	}
	var list []any
	n := 1
	r.call("get_logs", msgpack.MapOf("n", n), &list)
	if len(list) > 1 {
		t.Errorf("logs %v", list)
	}
	var m msgpack.Map
	if r.call("versions", nil, &m); m.GetString("host") != "me" {
		t.Errorf("versions %v", m)
	}
	if r.call("get_monitor_info", msgpack.MapOf("recent", true), &m); !m.Has("range_query") {
		t.Errorf("monitor %v", m)
	}
	if r.call("profile", nil, &m); m.GetString("identifier") != "root" {
		t.Errorf("profile %v", m)
	}
	if r.call("call_stack", msgpack.MapOf("keys", nil), &m); len(m) != 0 {
		t.Errorf("stacks %v", m)
	}
	r.fails("call_stack", msgpack.MapOf("keys", 5), "keys")
	if r.call(DiagnosisOp, nil, &m); m.GetString("gpu") != "GPU-1" || m.GetString("registry") != task.Hash() ||
		m.GetString("boot") == "" {
		t.Errorf("diagnosis %v", m)
	} else if trusted, _ := m.Get("trusted"); trusted != true {
		t.Errorf("diagnosis %v", m)
	}
	if r.call("benchmark_memory", nil, &m); len(m) != 5 {
		t.Errorf("benchmark_memory %v", m)
	}
	r.call("terminate", nil, nil)
	if r.terminated == "" {
		t.Error("terminate: worker not closed")
	}
}

func TestChannelHello(t *testing.T) {
	r := newRig(t)
	r.fails(peernet.ChannelOp, msgpack.MapOf("kind", "x", "hello", make([]byte, peernet.MaxHello+1)), "hello")
	r.fails(peernet.ChannelOp, msgpack.MapOf("kind", "x", "hello", []byte{}), "")
}

// Each op has its roles: ops that are not listed are for clients and schedulers.
func TestRoles(t *testing.T) {
	for op, want := range map[string]map[secure.Role]bool{
		"get_data":  {secure.Worker: true, secure.Client: true, secure.Scheduler: true, secure.Viewer: false},
		"identity":  {secure.Worker: true, secure.Client: true, secure.Scheduler: true, secure.Viewer: true},
		"run":       {secure.Worker: false, secure.Client: true, secure.Scheduler: true, secure.Viewer: false},
		"terminate": {secure.Worker: false, secure.Client: true, secure.Scheduler: true, secure.Viewer: false},
		peernet.ChannelOp: {secure.Worker: true, secure.Client: false, secure.Scheduler: false,
			secure.Viewer: false},
		"shuffle_receive":    {secure.Worker: true, secure.Client: false, secure.Scheduler: true, secure.Viewer: false},
		"millstream-unknown": {secure.Worker: false, secure.Client: true, secure.Scheduler: true, secure.Viewer: false},
	} {
		roles, ok := Roles[op]
		if !ok {
			roles = Roles[""]
		}
		for role, allowed := range want {
			got := false
			for _, r := range roles {
				got = got || r == role
			}
			if got != allowed {
				t.Errorf("%s for %v: %v, want %v", op, role, got, allowed)
			}
		}
	}
}
