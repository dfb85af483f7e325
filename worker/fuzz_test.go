package worker

import (
	"context"
	"log/slog"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/task"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker/internal/record"
)

// fuzzed is a worker that only has what a turn needs: no network, no goroutine.
func fuzzed(t testing.TB) *Worker {
	w := &Worker{cfg: Config{Threads: 1}, inbox: newInbox(), executing: map[task.Key]*run{}, actors: map[task.Key]*actor{},
		runs: make(chan *run, 1<<12), leave: make(chan chan struct{}), stopped: make(chan struct{}), log: slog.New(slog.DiscardHandler)}
	w.status.Store(statusRunning)
	w.state = state.New(state.Config{Address: "tcp://127.0.0.1:1", Threads: 1, Validate: true})
	w.taskCtx, w.stopTask = context.WithCancelCause(context.Background())
	w.ctx, w.cancel = context.WithCancelCause(context.Background())
	w.cancel(ErrClosed) // what is started in the background ends at once
	w.pool, w.peers = rpc.NewPool(comm.Default, rpc.PoolConfig{}), rpc.NewPool(comm.Default, rpc.PoolConfig{})
	w.transfers, w.timelines = record.NewRing[Transfer](10), record.NewRing[record.Run](10)
	w.done = make(chan struct{})
	var err error
	if w.data, err = store.New(store.Config{Dir: t.TempDir(), Logger: w.log}); err != nil {
		t.Fatal(err)
	}
	return w
}

// FuzzStream feeds the walk over the scheduler's messages: it must not panic, whatever comes,
// and the state's invariants hold.
func FuzzStream(f *testing.F) {
	add := func(v any) {
		b, err := msgpack.Append(nil, v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	add([]any{msgpack.MapOf("op", "compute-task", "key", "k", "run_id", 1, "priority", []any{0, 1.5, 2}, "who_has", msgpack.MapOf("d", []any{"tcp://h:1"}),
		"nbytes", msgpack.MapOf("d", 5), "run_spec", []byte("MS\x01"), "resource_restrictions", msgpack.MapOf("GPU", 1), "actor", true, "annotations", msgpack.MapOf("timeout", 1), "stimulus_id", "s")})
	add([]any{msgpack.MapOf("op", "free-keys", "keys", []any{"k", 1, []any{"t", 2}}), msgpack.MapOf("op", "steal-request", "key", "k", "stimulus_id", "x")})
	add(msgpack.MapOf("op", "acquire-replicas", "who_has", msgpack.MapOf("a", []any{"tcp://h:1"}), "nbytes", msgpack.MapOf("a", nil)))
	add([]any{msgpack.MapOf("op", "refresh-who-has", "who_has", msgpack.MapOf("a", []any{})), msgpack.MapOf("op", "remove-replicas", "keys", msgpack.MapOf("__Set__", true, "as-list", []any{"a"}))})
	add([]any{msgpack.MapOf("op", "remove-worker", "worker", "tcp://h:1"), msgpack.MapOf("op", "cancel-compute", "key", "k"), msgpack.MapOf("op", "worker-status-change", "status", "paused")})
	add([]any{msgpack.MapOf("op", "close-stream"), msgpack.MapOf("nothing", 1)})
	f.Fuzz(func(t *testing.T, body []byte) {
		w := fuzzed(t)
		w.turn.Lock()
		w.begin(nil)
		for range 2 { // the reader's memory is used again
			_ = w.walk(&wire.Message{Frames: []wire.Frame{wire.HeapFrame(body)}})
		}
		w.finish()
		err := w.state.Check()
		w.turn.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		w.end(ErrClosed)
		<-w.done
	})
}

// FuzzData feeds the reader of a peer's answer to get_data.
func FuzzData(f *testing.F) {
	add := func(v any) {
		m, err := wire.Encode(v, wire.EncodeOptions{})
		if err != nil {
			f.Fatal(err)
		}
		var frames [3][]byte
		for i := range min(3, len(m.Frames)) {
			frames[i] = m.Frames[i].Bytes()
		}
		f.Add(frames[0], frames[1], frames[2])
	}
	add(msgpack.MapOf("status", "OK", "data", msgpack.Map{{Key: "k", Value: wire.Serialize{Value: []byte("x")}}, {Key: "n", Value: 5}, {Key: []any{"t", 1}, Value: []any{1}}}))
	add(msgpack.MapOf("status", "busy"))
	add(msgpack.MapOf("status", "uncaught-error", "exception_text", "x"))
	add([]any{})
	f.Fuzz(func(t *testing.T, body, header, frame []byte) {
		m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame(body), wire.HeapFrame(header), wire.HeapFrame(frame)}}
		keys := []task.Key{task.NewKey("k"), task.NewKey("n")}
		values, stored, _, err := readData(m, keys)
		if err == nil && (len(values) != len(stored) || len(values) > len(keys)) {
			t.Fatalf("%d values for %d keys", len(values), len(keys))
		}
		for _, v := range values {
			_, _ = v.Encoded()
		}
	})
}
