package primitives

import (
	"os"
	"testing"
	"time"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/hosttest"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/wire"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// rig are primitives with a host in memory. known are the existing tasks.
type rig struct {
	*hosttest.Host
	*Primitives
	budget Budget
	known  map[task.Key]bool // owner: the loop
}

func start(t testing.TB) *rig {
	t.Helper()
	r := &rig{Host: hosttest.New(t), known: map[task.Key]bool{}}
	r.Primitives = New(Host{
		Loop: r.Loop, Log: r.Log, Journal: r.Journal, Clients: r.Wants, Budget: &r.budget, Tasks: &r.Host.Tasks,
		Known: func(k task.Key) bool { return r.known[k] },
		Describe: func(k task.Key) msgpack.Map {
			if !r.known[k] {
				return msgpack.MapOf("state", "lost")
			}
			return msgpack.MapOf("state", "memory")
		},
		LeaseTimeout: time.Hour,
	})
	r.Serve(r.Register)
	return r
}

// task makes a task known.
func (r *rig) task(key string) {
	r.Do(func() {
		r.known[task.NewKey(key)] = true
		r.Host.Tasks.Fire()
	})
}

// bytes returns the counted bytes.
func (r *rig) bytes() (n int64) {
	r.Do(func() { n = r.budget.Bytes() })
	return n
}

// counts returns the numbers of primitives.
func (r *rig) counts() (c Counts) {
	r.Do(func() { c = r.Counts() })
	return c
}

// op applies a message of a stream.
func (r *rig) op(t *testing.T, client string, fields ...any) error {
	t.Helper()
	m, err := wire.Encode([]any{msgpack.MapOf(fields...)}, wire.EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ops := message.ReadOps(m.Body())
	if !ops.Next() {
		t.Fatal("message: got no op")
	}
	r.Do(func() { err = r.Op(&ops, client) })
	return err
}

// call runs an op in a goroutine and returns its result.
func (r *rig) call(op string, args ...any) <-chan answer {
	ch := make(chan answer, 1)
	go func() {
		v, err := r.Try(op, args...)
		ch <- answer{v, err}
	}()
	return ch
}

type answer struct {
	v   any
	err error
}

// get returns a field of a reply.
func get(v any, name string) any {
	m, _ := v.(msgpack.Map)
	x, _ := m.Get(name)
	return x
}

// again replays all changes into new primitives, as a restart does.
func (r *rig) again(t *testing.T) *rig {
	t.Helper()
	n := start(t)
	type change struct {
		op   string
		args msgpack.Map
	}
	var list []change
	r.Do(func() { r.EachChange(func(op string, args msgpack.Map) { list = append(list, change{op, args}) }) })
	n.Do(func() {
		for _, c := range list {
			if known, err := n.Replay(c.op, roundTrip(t, c.args)); !known || err != nil {
				t.Errorf("Replay of %s: got %v, error %v", c.op, known, err)
			}
		}
	})
	return n
}

// roundTrip encodes and decodes values like the journal.
func roundTrip(t *testing.T, m msgpack.Map) msgpack.Map {
	t.Helper()
	msg, err := wire.Encode(m, wire.EncodeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	v, err := wire.Decode(msg, val.KeepClosed)
	if err != nil {
		t.Fatal(err)
	}
	return v.(msgpack.Map)
}

// Ops that do not belong to primitives are rejected, on streams and in the journal.
func TestUnknownOps(t *testing.T) {
	r := start(t)
	if err := r.op(t, "c", "op", "variable_explode", "name", "x"); err != rpc.ErrUnknownOp {
		t.Errorf("on a stream: got %v, want ErrUnknownOp", err)
	}
	r.Do(func() {
		if known, err := r.Replay("explode", msgpack.MapOf("name", "x")); known || err != nil {
			t.Errorf("in the journal: got %v, %v, want false", known, err)
		}
		if known, err := r.Replay("variable_set", msgpack.MapOf("name", msgpack.MapOf("a", 1))); !known || err == nil {
			t.Errorf("a name that cannot be one: got %v, %v, want an error", known, err)
		}
	})
	for _, op := range []string{"variable-future-received-confirm", "queue-future-release"} {
		if err := r.op(t, "c", "op", op, "name", "x"); err == nil {
			t.Errorf("%s without a key: got no error", op)
		}
	}
	for _, op := range []string{"event_set", "event_is_set", "event_wait", "variable_set", "variable_get",
		"queue_create", "queue_put", "queue_get", "semaphore_value"} {
		r.Fails("TypeError", op, "name", msgpack.MapOf("a", 1))
	}
}

// Changes that are rejected because of the budget leave nothing.
func TestBudget(t *testing.T) {
	r := start(t)
	r.Call("queue_create", "name", "q")
	before := r.bytes()
	r.Do(func() { r.budget.SetLimit(before + 10) })
	r.Journal.Changes()
	for _, c := range [][]any{
		{"variable_set", "name", "v", "data", "x"},
		{"queue_put", "name", "q", "data", "x"},
		{"queue_create", "name", "another"},
		{"event_set", "name", "e"},
		{"semaphore_register", "name", "s", "max_leases", 1},
		{"multi_lock_acquire", "locks", []any{"a"}, "id", "u"},
		{"publish_put", "name", "d", "keys", []any{}, "data", "x"},
		{"set_metadata", "keys", []any{"m"}, "value", "x"},
	} {
		r.Fails("millstream.scheduler.primitives", c[0].(string), c[1:]...)
	}
	if got := r.bytes(); got != before {
		t.Errorf("got %d bytes, want %d", got, before)
	}
	if got := r.Journal.Changes(); got != "" {
		t.Errorf("journal: got %s, want nothing", got)
	}
	if c := r.counts(); c.Variables+c.Semaphores+c.Datasets+c.Locks+c.LockUsers != 0 || c.Queues != 1 {
		t.Errorf("primitives: got %+v, want one queue only", c)
	}
	r.Do(func() { r.budget.SetLimit(0) })
	r.Call("variable_set", "name", "v", "data", "x") // no limit
}
