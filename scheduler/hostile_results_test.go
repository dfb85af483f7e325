package scheduler

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task/taskgraph"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/wire"
)

func onlyOn(worker string) *taskgraph.Annotations {
	return &taskgraph.Annotations{Workers: []string{worker}}
}

// A worker reports a task with implausible figures: they are clamped, the worker is logged, and sums over all tasks
// stay valid.
func TestHostileFigures(t *testing.T) {
	s, log, honest := hostile(t)
	w := idle(t, s, "liar")
	c := connect(t, s, "c")
	now := val.Seconds(time.Now())
	figures := []struct {
		nbytes      any
		start, stop float64
	}{
		{int64(math.MaxInt64), now, now + 1}, {int64(math.MinInt64), now, now + 1}, {int64(1) << 62, now, 1e300},
		{-5, now, math.Inf(1)}, {7, math.NaN(), math.NaN()}, {7, now, -1e300},
	}
	for i, f := range figures {
		key := fmt.Sprintf("absurd-%d", i)
		c.submit([]node{{key: key, spec: "x", notes: onlyOn("liar")}})
		m := w.expectKey("compute-task", key)
		run, _ := m.Get("run_id")
		w.send(msgpack.MapOf("op", "task-finished", "key", key, "run_id", run, "status", "OK", "nbytes", f.nbytes,
			"type", nil, "typename", strings.Repeat("t", 1<<16),
			"metadata", msgpack.Map{}, "thread", 1, "startstops",
			[]any{msgpack.MapOf("action", "compute", "start", f.start, "stop", f.stop)}, "stimulus_id", "x"))
		c.expectKey("key-in-memory", key)
	}
	w.send(msgpack.MapOf("op", "add-keys", "keys", names("absurd-0"), "nbytes", []any{int64(math.MaxInt64)},
		"stimulus_id", "x"))
	for _, rate := range []float64{math.Inf(1), math.NaN(), -1, 1e300} {
		w.call("heartbeat_worker", "address", w.address, "now", now, "metrics",
			msgpack.MapOf("bandwidth", msgpack.MapOf("total", rate), "memory", int64(math.MinInt64)))
	}
	bandwidth, err := loop.Ask(t.Context(), s.loop, func() (float64, error) { return s.state.Bandwidth(), nil })
	if err != nil || !(bandwidth > 0 && bandwidth <= peers.MaxRate) {
		t.Errorf("bandwidth: got %v, error %v, want a value within bounds", bandwidth, err)
	}
	honest()
	if !log.has("worker=" + w.address + " nbytes=") {
		t.Error("log: got no line with the worker")
	}
	sizes := c.call("nbytes", "keys", names("absurd-0", "absurd-1", "absurd-2"), "summary", false).(msgpack.Map)
	for _, p := range sizes {
		if n, ok := p.Value.(int64); !ok || n < 0 || n > peers.MaxResult {
			t.Errorf("size of %v: got %v bytes, want a value within bounds", p.Key, p.Value)
		}
	}
	if len(sizes) != 3 {
		t.Errorf("sizes: got %v, want 3", sizes)
	}
	// A later task of the same prefix is still assigned.
	c.submit([]node{{key: "absurd-again", spec: "x", notes: onlyOn("honest")}})
	c.expectKey("key-in-memory", "absurd-again")
}

// A worker reports values that cannot be passed on: clients and workers do not receive them.
func TestHostileValues(t *testing.T) {
	s, _, honest := hostile(t)
	w := idle(t, s, "liar")
	c := connect(t, s, "c")
	for i, v := range []any{
		nil, msgpack.MapOf("__Serialized__", 5), []any{1, 2}, strings.Repeat("x", 1000), []byte("bytes"),
		7, 1.5, "text", true,
	} {
		key := fmt.Sprintf("value-%d", i)
		c.submit([]node{{key: key, spec: "x", notes: onlyOn("liar")}})
		m := w.expectKey("compute-task", key)
		run, _ := m.Get("run_id")
		w.send(msgpack.MapOf("op", "task-finished", "key", key, "run_id", run, "status", "OK", "nbytes", 8, "type", nil,
			"typename", "t", "metadata", msgpack.Map{}, "thread", 1, "startstops", []any{}, "stimulus_id", "x",
			"value", v))
		m = c.expectKey("key-in-memory", key)
		if _, got := m.Get("value"); got != (i >= 5) {
			t.Errorf("value %.20v: got %v in %v, want %v", v, got, m, i >= 5)
		}
	}
	honest()
}

// A worker does not have results that it has reported, or sends other ones: the client receives an error with the keys,
// and results of other workers are not affected.
func TestHostileData(t *testing.T) {
	s, log, honest := hostile(t)
	w := join(t, s, "liar")
	c := connect(t, s, "c")
	c.submit([]node{{key: "mine", spec: "m", notes: onlyOn("liar")}})
	c.expectKey("key-in-memory", "mine")
	c.submit([]node{{key: "theirs", spec: "t", notes: onlyOn("honest")}})
	c.expectKey("key-in-memory", "theirs")
	answer := func(v any) rpc.Handler {
		return func(ctx context.Context, r *rpc.Request) (any, error) {
			m, err := wire.Encode(v, r.Comm.Info().EncodeOptions())
			if err != nil {
				return nil, err
			}
			defer m.Release()
			if err := r.Comm.Write(ctx, m); err != nil {
				return nil, err
			}
			if ok, err := r.Comm.Read(ctx); err == nil {
				ok.Release()
			}
			return rpc.NoReply, nil
		}
	}
	for name, v := range map[string]any{
		"nothing": msgpack.MapOf("status", "OK", "data", msgpack.Map{}),
		"others": msgpack.MapOf("status", "OK", "data",
			msgpack.MapOf("theirs", wire.Serialize{Value: "forged"}, "unknown", wire.Serialize{Value: "forged"})),
		"a number":  msgpack.MapOf("status", "OK", "data", 7),
		"no status": msgpack.MapOf("data", msgpack.MapOf("mine", wire.Serialize{Value: "m"})),
		"a list":    []any{1, 2},
		"keys":      msgpack.MapOf("status", "OK", "data", msgpack.Map{{Key: msgpack.Map{}, Value: 1}}),
	} {
		w.server.Handle("get_data", answer(v))
		r := c.call("gather", "keys", names("mine", "theirs")).(msgpack.Map)
		if keys, _ := r.Get("keys"); r.GetString("status") != "error" || fmt.Sprint(keys) != "[mine]" {
			t.Errorf("%s: gather: got %v, want an error for mine", name, r)
		}
		if got := c.gather("theirs"); got["theirs"] != "t" {
			t.Errorf("%s: result of the other worker: got %v, want t", name, got)
		}
	}
	if !log.has("worker=" + w.address) {
		t.Error("log: got no line with the worker")
	}
	w.server.Handle("get_data", w.getData)
	if got := c.gather("mine", "theirs"); got["mine"] != "m" || got["theirs"] != "t" {
		t.Errorf("results of valid replies: got %v, want m and t", got)
	}
	honest()
}
