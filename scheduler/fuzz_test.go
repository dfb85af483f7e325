package scheduler

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/task/taskgraph"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/wire"
)

// Whatever a registered peer sends, the scheduler keeps running and its state is valid.
func FuzzStream(f *testing.F) {
	seed := func(worker bool, messages ...any) {
		b, err := msgpack.Append(nil, messages)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(worker, b, []byte(nil))
	}
	seed(true, msgpack.MapOf("op", "task-finished", "key", "x", "run_id", 1, "nbytes", 3, "startstops",
		[]any{msgpack.MapOf("action", "compute", "start", 1.0, "stop", 2.0)}))
	seed(true, msgpack.MapOf("op", "task-erred", "key", "x", "run_id", 1, "exception", nil, "startstops", 3))
	seed(true, msgpack.MapOf("op", "add-keys", "keys", names("x", "y"), "nbytes", []any{1, 2}, "adopt", true))
	seed(true, msgpack.MapOf("op", "long-running", "key", "x", "run_id", 1, "compute_duration", 1e300))
	seed(true, msgpack.MapOf("op", "steal-response", "key", "x", "state", "ready", "stimulus_id", "steal-1"),
		msgpack.MapOf("op", "release-worker-data", "key", "x"))
	seed(true, msgpack.MapOf("op", "reschedule", "key", "x"),
		msgpack.MapOf("op", "request-refresh-who-has", "keys", names("x")))
	seed(true, msgpack.MapOf("op", "worker-status-change", "status", "paused"),
		msgpack.MapOf("op", "log-event", "topic", "t", "msg", 1), msgpack.MapOf("op", "close-stream"))
	seed(false, msgpack.MapOf("op", "client-desires-keys", "keys", names("x")),
		msgpack.MapOf("op", "client-releases-keys", "keys", names("x")))
	seed(false, msgpack.MapOf("op", "cancel-keys", "keys", msgpack.MapOf("__Set__", true, "as-list", names("x")),
		"force", true, "reason", "r", "msg", nil))
	seed(false, msgpack.MapOf("op", "update-data", "who_has", msgpack.MapOf("x", names("tcp://a")), "nbytes",
		msgpack.MapOf("x", 1)))
	seed(false, msgpack.MapOf("op", "report-key", "key", []any{"x", 1}), msgpack.MapOf("op", "heartbeat-client"),
		msgpack.MapOf("op", "variable_delete", "name", "v"))
	var w taskgraph.Writer
	w.Spec(task.NewKey("x"), []byte(specHead+"spec"), []task.Key{task.NewKey("y")},
		w.Annotations(&taskgraph.Annotations{Workers: []string{"a"}, Retries: 1}), 0)
	g := w.Serialized()
	body, err := msgpack.Append(nil, msgpack.MapOf("op", "update-graph", "expr_ser",
		msgpack.MapOf("__Serialized__", 1), "keys", names("x"), "fifo_timeout", "1 s", "actors", names("x"),
		"user_priority", 3))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(false, body, g.Frames[1].Bytes())

	s, err := Start(context.Background(), Config{Listen: []string{"inproc://"}, Validate: true})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close() })
	var count atomic.Int64
	f.Fuzz(func(t *testing.T, worker bool, body, nodes []byte) {
		c, err := comm.Default.Dial(t.Context(), s.Address(), comm.DialConfig{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Abort()
		n := count.Add(1)
		op, args := "register-client", msgpack.MapOf("client", fmt.Sprint("client-", n), "versions", nil)
		if worker {
			op, args = "register-worker", msgpack.MapOf("address", fmt.Sprintf("tcp://127.0.0.1:%d", n%60000+1),
				"nthreads", 1, "name", n, "server_id", fmt.Sprint(n),
				"extra", msgpack.MapOf("millstream", msgpack.MapOf("registry", task.Hash())))
		}
		if err := rpc.Notify(t.Context(), c, op, args); err != nil {
			t.Fatal(err)
		}
		if m, err := c.Read(t.Context()); err == nil {
			m.Release()
		}
		m := &wire.Message{Frames: []wire.Frame{wire.HeapFrame(body)}}
		if nodes != nil {
			for _, b := range [][]byte{g.Header, g.Frames[0].Bytes(), nodes} {
				m.Frames = append(m.Frames, wire.HeapFrame(b))
			}
		}
		if err := c.Write(t.Context(), m); err != nil {
			return
		}
		_ = c.Close()
		if err := s.loop.Do(t.Context(), func() {}); err != nil || s.Err() != nil {
			t.Fatalf("after the messages: got error %v, Err %v, want a running scheduler", err, s.Err())
		}
	})
}
