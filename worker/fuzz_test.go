package worker

import (
	"context"
	"log/slog"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker/internal/execution"
	"go.millstream.dev/worker/internal/memory"
	"go.millstream.dev/worker/internal/registration"
	"go.millstream.dev/worker/internal/transfer"
)

// newFuzzWorker returns a worker that has only what a turn needs: no network, no goroutine.
func newFuzzWorker(t testing.TB) *Worker {
	w := &Worker{cfg: Config{Threads: 1}, inbox: newInbox(), stopped: make(chan struct{}),
		log: slog.New(slog.DiscardHandler)}
	w.status.Store(statusRunning)
	w.state = state.New(state.Config{Address: "tcp://127.0.0.1:1", Threads: 1, Validate: true})
	w.taskCtx, w.stopTask = context.WithCancelCause(context.Background())
	w.ctx, w.cancel = context.WithCancelCause(context.Background())
	w.cancel(ErrClosed) // goroutines that are started end at once
	w.done = make(chan struct{})
	w.cfg.LocalDirectory = t.TempDir()
	w.cfg.Memory = Memory(memory.Fractions(w.cfg.Memory).WithDefaults())
	var err error
	if w.memory, err = memory.New(w.memoryConfig()); err != nil {
		t.Fatal(err)
	}
	w.data = w.memory.Store()
	w.cfg.Network = comm.Default
	w.scheduler = registration.New(w.registrationConfig())
	w.exec = execution.New(w.executionConfig())
	w.transfers = transfer.New(w.transferConfig())
	return w
}

// FuzzStream decodes messages of the scheduler: any input must keep the invariants of the state, without a panic.
func FuzzStream(f *testing.F) {
	add := func(v any) {
		b, err := msgpack.Append(nil, v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	add([]any{msgpack.MapOf("op", "compute-task", "key", "k", "run_id", 1, "priority", []any{0, 1.5, 2}, "who_has",
		msgpack.MapOf("d", []any{"tcp://h:1"}),
		"nbytes", msgpack.MapOf("d", 5), "run_spec", []byte("MS\x01"), "resource_restrictions", msgpack.MapOf("GPU", 1),
		"actor", true, "annotations", msgpack.MapOf("timeout", 1), "stimulus_id", "s")})
	add([]any{msgpack.MapOf("op", "free-keys", "keys", []any{"k", 1, []any{"t", 2}}),
		msgpack.MapOf("op", "steal-request", "key", "k", "stimulus_id", "x")})
	add(msgpack.MapOf("op", "acquire-replicas", "who_has", msgpack.MapOf("a", []any{"tcp://h:1"}), "nbytes",
		msgpack.MapOf("a", nil)))
	add([]any{msgpack.MapOf("op", "refresh-who-has", "who_has", msgpack.MapOf("a", []any{})),
		msgpack.MapOf("op", "remove-replicas", "keys", msgpack.MapOf("__Set__", true, "as-list", []any{"a"}))})
	add([]any{msgpack.MapOf("op", "remove-worker", "worker", "tcp://h:1"),
		msgpack.MapOf("op", "cancel-compute", "key", "k"), msgpack.MapOf("op", "worker-status-change", "status",
			"paused")})
	add([]any{msgpack.MapOf("op", "close-stream"), msgpack.MapOf("nothing", 1)})
	f.Fuzz(func(t *testing.T, body []byte) {
		w := newFuzzWorker(t)
		w.turn.Lock()
		w.begin(nil)
		for range 2 { // the reader reuses its memory
			_ = w.applyBatch(&wire.Message{Frames: []wire.Frame{wire.HeapFrame(body)}})
		}
		w.finish()
		err := w.state.Check()
		w.turn.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		w.shutDown(ErrClosed)
		<-w.done
	})
}
