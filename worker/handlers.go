package worker

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/lane"
	"go.millstream.dev/internal/peernet"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/secure"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker/internal/execution"
	"go.millstream.dev/worker/internal/hardware"
	"go.millstream.dev/worker/internal/record"
	"go.millstream.dev/worker/internal/stream"
	"go.millstream.dev/worker/internal/transfer"
)

// roles says who may ask what, on connections whose peers are known by certificate.
var roles = rpc.Roles{
	"get_data":            {secure.Worker, secure.Client, secure.Scheduler},
	lane.Op:               {secure.Worker},
	peernet.ChannelOp:     {secure.Worker},
	"shuffle_receive":     {secure.Worker, secure.Scheduler}, // the next two are of P2P shuffles
	"shuffle_inputs_done": {secure.Worker, secure.Scheduler},
	"update_data":         {secure.Worker, secure.Client, secure.Scheduler}, // clients within tasks scatter
	"actor_execute":       {secure.Worker, secure.Client, secure.Scheduler},
	"actor_attribute":     {secure.Worker, secure.Client, secure.Scheduler},
	"identity":            {secure.Worker, secure.Client, secure.Scheduler, secure.Viewer},
	"ping":                {secure.Worker, secure.Client, secure.Scheduler, secure.Viewer},
	"":                    {secure.Client, secure.Scheduler},
}

// waitingOps are requests that wait for other peers or for Python: they hold none of the
// server's slots.
var waitingOps = []string{
	"gather", "run", "run_coroutine", "actor_execute", "actor_attribute", "call_stack", "upload_file", "versions",
	"shuffle_receive", "shuffle_inputs_done", "plugin-add", "plugin-remove", "benchmark_disk", "benchmark_memory",
	"benchmark_network", peernet.ChannelOp,
}

// detachedOps are requests that are finished when their callers hang up: they change the
// worker in several steps, or take their comm over and read its end themselves.
var detachedOps = []string{
	"actor_execute", "terminate", "update_data", "free_keys", "plugin-add", "plugin-remove", "upload_file",
	"shuffle_receive", "shuffle_inputs_done", peernet.ChannelOp, lane.Op,
}

// addHandlers sets what the worker answers: all that Dask's workers do. What needs Python
// is refused with a reason, as no answer at all would leave the caller waiting.
func (w *Worker) addHandlers() {
	s := w.server
	s.Handle("get_data", w.transfers.GetData)
	s.Handle("update_data", w.updateData)
	s.Handle("gather", w.gatherOp)
	s.Handle("free_keys", w.freeKeys)
	s.Handle(lane.Op, w.transfers.TellLanes)
	rpc.Handle(s, peernet.ChannelOp, w.channel)
	s.Handle(DiagnosisOp, w.diagnosis)
	s.Handle("run", w.inPython(w.runOp, runsPython))
	s.Handle("run_coroutine", w.inPython(w.runOp, runsPython))
	s.Handle("actor_execute", w.inPython(w.actorExecute, w.isPythonActor))
	s.Handle("actor_attribute", w.inPython(w.actorAttribute, w.isPythonActor))
	s.Handle("call_stack", w.inPython(w.callStack, w.onlyPythonRuns))
	s.Handle("get_story", w.story)
	s.Handle("keys", func(context.Context, *rpc.Request) (any, error) { return keyValues(w.data.Keys()), nil })
	s.Handle("ping", func(context.Context, *rpc.Request) (any, error) { return "pong", nil })
	s.Handle("versions", w.inPython(func(context.Context, *rpc.Request) (any, error) { return w.versions(), nil }, nil))
	s.Handle("profile", func(context.Context, *rpc.Request) (any, error) { return emptyProfile, nil })
	s.Handle("profile_metadata", func(context.Context, *rpc.Request) (any, error) {
		return msgpack.MapOf("counts", []any{}, "keys", []any{}), nil
	})
	rpc.Handle(s, "get_logs", func(_ context.Context, _ *rpc.Request, in logsArgs) ([]any, error) {
		return w.logs.records.List(in.Start, in.N, in.Timestamps), nil
	})
	rpc.Handle(s, "get_monitor_info", func(_ context.Context, _ *rpc.Request, in monitorArgs) (msgpack.Map, error) {
		return w.usage.Info(in.Recent, in.Start), nil
	})
	s.Handle("terminate", func(_ context.Context, r *rpc.Request) (any, error) {
		// The answer must leave before the server ends.
		w.after(50*time.Millisecond, func() {
			w.endLater(fmt.Errorf("%w: terminate from %s", ErrSchedulerClosed, r.Comm.PeerAddr()))
		})
		return "OK", nil
	})
	s.Handle("plugin-add", w.pluginAdd)
	s.Handle("plugin-remove", w.pluginRemove)
	s.Handle("upload_file", w.inPython(w.uploadFile, nil))
	s.Handle("benchmark_disk", func(ctx context.Context, _ *rpc.Request) (any, error) {
		return hardware.Disk(ctx, w.memory.Directory())
	})
	s.Handle("benchmark_memory", func(ctx context.Context, _ *rpc.Request) (any, error) { return hardware.Memory(ctx) })
	rpc.Handle(s, "benchmark_network", w.benchmarkNetwork)
	for op, why := range map[string]string{
		"shuffle_receive":     "P2P shuffles are Python's (set dataframe.shuffle.method to tasks)",
		"shuffle_inputs_done": "P2P shuffles are Python's (set dataframe.shuffle.method to tasks)",
	} {
		s.Handle(op, w.inPython(func(context.Context, *rpc.Request) (any, error) {
			return rpc.ErrorMessage(&rpc.Exception{Type: "NotImplementedError", Message: fmt.Sprintf("%s is a Go worker and has no %s: %s", w.address, op, why)}, "error")
		}, nil))
	}
	if w.sidecar != nil {
		s.Handle("plugin-add", w.sidecar.PluginAdd)
		s.Handle("plugin-remove", w.sidecar.PluginRemove)
	}
}

type logsArgs struct {
	Start      int  `rpc:"start,optional"`
	N          *int `rpc:"n"`
	Timestamps bool `rpc:"timestamps,optional"`
}

type networkArgs struct {
	Address string `rpc:"address"`
}

// benchmarkNetwork measures the connection to a peer.
func (w *Worker) benchmarkNetwork(ctx context.Context, _ *rpc.Request, in networkArgs) (msgpack.Map, error) {
	address := strings.Clone(in.Address) // it borrows from the request
	return hardware.Network(ctx, func(data []byte) error { return w.transfers.Echo(ctx, address, data) })
}

type monitorArgs struct {
	Recent bool `rpc:"recent,optional"`
	Start  int  `rpc:"start,optional"`
}

// emptyProfile is the root of Dask's statistical profile: Go's is at /debug/pprof.
var emptyProfile = msgpack.MapOf("count", 0, "children", msgpack.Map{}, "identifier", "root",
	"description", msgpack.MapOf("filename", "", "name", "", "line_number", 0, "line", ""))

func (w *Worker) identity() msgpack.Map {
	var limit any
	if w.cfg.MemoryLimit > 0 {
		limit = w.cfg.MemoryLimit
	}
	return msgpack.MapOf("scheduler", w.cfg.Scheduler, "nthreads", w.cfg.Threads, "memory_limit", limit,
		"address", w.address, "name", w.name, "status", w.Status(), "millstream", msgpack.MapOf("registry", task.Hash(), "functions", task.Names()))
}

func keyValues(keys []task.Key) []any {
	out := make([]any, len(keys))
	for i, k := range keys {
		out[i] = k.Value()
	}
	return out
}

// updateData takes values from a client or the scheduler: scatter.
func (w *Worker) updateData(ctx context.Context, r *rpc.Request) (any, error) {
	raw, ok := r.Field("data")
	if !ok {
		return nil, &rpc.ArgumentError{Op: r.Op, Name: "data", Reason: "missing"}
	}
	fields := msgpack.NewReader(raw)
	values, stored, err := transfer.ReadValues(r.Message(), &fields, nil)
	if err != nil {
		return nil, &rpc.ArgumentError{Op: r.Op, Name: "data", Reason: err.Error()}
	}
	sizes := make(msgpack.Map, len(stored))
	for i, s := range stored {
		sizes[i] = msgpack.Pair{Key: s.Key.Value(), Value: s.NBytes}
	}
	if err := w.memory.MakeRoom(ctx, values, stored); err != nil {
		return nil, fmt.Errorf("worker: %s has no room for scattered data: %w", w.address, err)
	}
	if !w.store(values, stored) {
		return nil, ErrClosed
	}
	return msgpack.MapOf("nbytes", sizes, "status", "OK"), nil
}

// store puts values from outside into the data and tells the state.
func (w *Worker) store(values []*task.Value, stored []state.Stored) bool {
	return w.do(func() {
		for i, v := range values {
			w.data.Put(stored[i].Key, v, stored[i].NBytes)
		}
		w.apply(&state.UpdateData{Stimulus: w.stimulus, Data: stored})
	})
}

// gatherOp fetches keys from those who have them: what Dask's scheduler asks for to
// replicate and rebalance.
func (w *Worker) gatherOp(ctx context.Context, r *rpc.Request) (any, error) {
	raw, ok := r.Field("who_has")
	if !ok {
		return nil, &rpc.ArgumentError{Op: r.Op, Name: "who_has", Reason: "missing"}
	}
	var in stream.Reader
	deps, err := in.Deps(raw, nil)
	if err != nil {
		return nil, &rpc.ArgumentError{Op: r.Op, Name: "who_has", Reason: err.Error()}
	}
	var failed []any
	for _, d := range deps {
		key := task.Key(append([]byte(nil), d.Key...)) // it borrows from the request
		if w.data.Has(key) {
			continue
		}
		if f, ok := w.transfers.FetchOne(ctx, key, d.WhoHas); !ok || !w.store(f.Values, f.Stored) {
			failed = append(failed, key.Value())
		}
	}
	if len(failed) > 0 {
		return msgpack.MapOf("status", "partial-fail", "keys", failed), nil
	}
	return msgpack.MapOf("status", "OK"), nil
}

func (w *Worker) freeKeys(_ context.Context, r *rpc.Request) (any, error) {
	raw, ok := r.Field("keys")
	if !ok {
		return nil, &rpc.ArgumentError{Op: r.Op, Name: "keys", Reason: "missing"}
	}
	var err error
	if !w.do(func() {
		var keys []task.Key
		if keys, err = w.in.Keys(raw); err == nil {
			w.apply(&state.FreeKeys{Stimulus: w.stimulus, Keys: keys})
		}
		w.in.Forget()
	}) {
		err = ErrClosed
	}
	return nil, err
}

// runOp runs a registered function now, beside the tasks: Client.Run.
func (w *Worker) runOp(ctx context.Context, r *rpc.Request) (any, error) {
	var spec []byte
	if _, err := r.Arg("function", &spec); err != nil {
		return nil, err
	}
	if !task.IsSpec(spec) {
		return w.notRun(r.Op)
	}
	v, err := w.runNow(ctx, spec)
	if err != nil {
		return rpc.ErrorMessage(execution.WithStack(err), "error")
	}
	return resultMessage(v)
}

func (w *Worker) runNow(ctx context.Context, spec []byte) (any, error) {
	call, err := task.ParseCall(append([]byte(nil), spec...))
	if err != nil {
		return nil, err
	}
	if len(call.Deps) > 0 {
		return nil, fmt.Errorf("worker: Run takes no futures: %s was given %d", call.Func.Name(), len(call.Deps))
	}
	return call.Run(task.WithInfo(ctx, &task.Info{Host: &w.host}), nil)
}

// resultMessage is {status, result} of a live value.
func resultMessage(v any) (any, error) {
	s, err := task.EncodeValue(v)
	if err != nil {
		return rpc.ErrorMessage(err, "error")
	}
	return msgpack.MapOf("status", "OK", "result", s), nil
}

// story tells what happened to keys, or by events: Dask's get_story.
func (w *Worker) story(_ context.Context, r *rpc.Request) (any, error) {
	var names []any
	if _, err := r.Arg("keys_or_stimuli", &names); err != nil {
		return nil, err
	}
	var keys []task.Key
	var stimuli []string
	for _, n := range names {
		if s, ok := n.(string); ok {
			stimuli = append(stimuli, s)
		}
		if k, err := task.KeyOf(n); err == nil {
			keys = append(keys, k)
		}
	}
	out := []any{}
	w.do(func() {
		for _, t := range w.state.Story(keys, stimuli) {
			out = append(out, storyRow(t))
		}
	})
	return out, nil
}

// decodeKeep leaves values closed.
var decodeKeep = wire.DecodeOptions{Keep: true}

// storyRow is a transition as Dask's get_story tells it.
func storyRow(t state.Transition) []any {
	return []any{t.Key.Value(), t.Start.String(), t.Finish.String(), t.Final.String(), msgpack.Map{}, t.Stimulus, record.Unix(t.Time)}
}

// callStack answers call_stack: where the running tasks are, of the keys that are asked for or all.
func (w *Worker) callStack(_ context.Context, r *rpc.Request) (any, error) {
	var wanted map[task.Key]bool
	if raw, ok := r.Field("keys"); ok && !(len(raw) == 1 && raw[0] == 0xc0) {
		wanted = map[task.Key]bool{}
		if err := wire.EachKey(raw, func(k []byte) error { wanted[task.Key(k)] = true; return nil }); err != nil {
			return nil, &rpc.ArgumentError{Op: r.Op, Name: "keys", Reason: err.Error()}
		}
	}
	return w.exec.CallStacks(wanted), nil
}
