// Package ops answers the requests of a worker's server: all that Dask's workers answer, and Millstream's own.
package ops

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"go.millstream.dev/internal/comm/dataconn"
	"go.millstream.dev/internal/comm/peernet"
	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/message"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/secure"
	"go.millstream.dev/wire"
	"go.millstream.dev/worker/internal/execution"
	"go.millstream.dev/worker/internal/hardware"
	"go.millstream.dev/worker/internal/logs"
	"go.millstream.dev/worker/internal/memory"
	"go.millstream.dev/worker/internal/monitor"
	"go.millstream.dev/worker/internal/record"
	"go.millstream.dev/worker/internal/sidecar"
	"go.millstream.dev/worker/internal/stream"
	"go.millstream.dev/worker/internal/transfer"
)

// Config has the subsystems of a worker that requests are about.
type Config struct {
	Logger    *slog.Logger
	Memory    *memory.Manager
	Exec      *execution.Pool
	Transfers *transfer.Manager
	Sidecar   *sidecar.Sidecar // nil if there is none
	Logs      *logs.Records
	Monitor   *monitor.Monitor
	Host      *task.Host
	Peers     *peernet.Peers
	// Trusted and GPU are what a diagnosis has: whether data connections to other hosts are allowed, and the UUID of
	// the worker's GPU.
	Trusted bool
	GPU     string
	// Worker is what requests need of the worker.
	Worker Worker
}

// Worker is what requests need of the worker. All fields must be set.
type Worker struct {
	// Address returns the worker's address.
	Address func() string
	// Closed is the error of a worker that has ended.
	Closed error
	// Do runs a function in a turn, and reports false if the worker has ended.
	Do func(func()) bool
	// Store puts values from outside into the data, and reports false if the worker has ended.
	Store func(values []*task.Value, stored []state.Stored) bool
	// FreeKeys frees an encoded list of keys.
	FreeKeys func(raw []byte) error
	// Story returns what happened to keys, or by events.
	Story func(keys []task.Key, stimuli []string) []state.Transition
	// Versions returns what Dask's get_versions does.
	Versions func() msgpack.Map
	// Terminate ends the worker, as a peer asks for, after the reply has left.
	Terminate func(peer string)
}

// Roles says who may ask what, on connections whose peers are known by certificate.
var Roles = rpc.Roles{
	"get_data":            {secure.Worker, secure.Client, secure.Scheduler},
	dataconn.Op:           {secure.Worker},
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

// Waiting are requests that wait for other peers or for Python: they hold none of the
// server's slots.
var Waiting = []string{
	"gather", "run", "run_coroutine", "actor_execute", "actor_attribute", "call_stack", "upload_file", "versions",
	"shuffle_receive", "shuffle_inputs_done", "plugin-add", "plugin-remove", "benchmark_disk", "benchmark_memory",
	"benchmark_network", peernet.ChannelOp,
}

// Detached are requests that are finished when their callers hang up: they change the
// worker in several steps, or take their comm over and read its end themselves.
var Detached = []string{
	"actor_execute", "terminate", "update_data", "free_keys", "plugin-add", "plugin-remove", "upload_file",
	"shuffle_receive", "shuffle_inputs_done", peernet.ChannelOp, dataconn.Op,
}

// handlers answers requests.
type handlers struct {
	cfg  Config
	w    Worker
	log  *slog.Logger
	data *store.Store
}

// Register sets what a worker's server answers. What needs Python is refused with a reason where there is none, as no
// answer at all would leave the caller waiting.
func Register(s *rpc.Server, cfg Config) {
	h := &handlers{cfg: cfg, w: cfg.Worker, log: cfg.Logger, data: cfg.Memory.Store()}
	s.Handle("get_data", cfg.Transfers.GetData)
	s.Handle("update_data", h.updateData)
	s.Handle("gather", h.gatherOp)
	s.Handle("free_keys", h.freeKeys)
	s.Handle(dataconn.Op, cfg.Transfers.TellLanes)
	rpc.Handle(s, peernet.ChannelOp, h.channel)
	s.Handle(DiagnosisOp, h.diagnosis)
	s.Handle("run", h.inPython(h.runOp, runsPython))
	s.Handle("run_coroutine", h.inPython(h.runOp, runsPython))
	s.Handle("actor_execute", h.inPython(h.actorExecute, h.isPythonActor))
	s.Handle("actor_attribute", h.inPython(actorAttribute, h.isPythonActor))
	s.Handle("call_stack", h.inPython(h.callStack, h.onlyPythonRuns))
	s.Handle("get_story", h.story)
	s.Handle("keys", func(context.Context, *rpc.Request) (any, error) { return keyValues(h.data.Keys()), nil })
	s.Handle("ping", func(context.Context, *rpc.Request) (any, error) { return "pong", nil })
	s.Handle("versions", h.inPython(func(context.Context, *rpc.Request) (any, error) {
		return h.w.Versions(), nil
	}, nil))
	s.Handle("profile", func(context.Context, *rpc.Request) (any, error) { return emptyProfile, nil })
	s.Handle("profile_metadata", func(context.Context, *rpc.Request) (any, error) {
		return msgpack.MapOf("counts", []any{}, "keys", []any{}), nil
	})
	rpc.Handle(s, "get_logs", func(_ context.Context, _ *rpc.Request, in logsArgs) ([]any, error) {
		return cfg.Logs.List(in.Start, in.N, in.Timestamps), nil
	})
	rpc.Handle(s, "get_monitor_info", func(_ context.Context, _ *rpc.Request, in monitorArgs) (msgpack.Map, error) {
		return cfg.Monitor.Info(in.Recent, in.Start), nil
	})
	s.Handle("terminate", func(_ context.Context, r *rpc.Request) (any, error) {
		h.w.Terminate(r.Comm.PeerAddr())
		return "OK", nil
	})
	s.Handle("upload_file", h.inPython(h.uploadFile, nil))
	s.Handle("benchmark_disk", func(ctx context.Context, _ *rpc.Request) (any, error) {
		return hardware.Disk(ctx, cfg.Memory.Directory())
	})
	s.Handle("benchmark_memory", func(ctx context.Context, _ *rpc.Request) (any, error) { return hardware.Memory(ctx) })
	rpc.Handle(s, "benchmark_network", h.benchmarkNetwork)
	for _, op := range []string{"shuffle_receive", "shuffle_inputs_done"} {
		s.Handle(op, h.inPython(h.noShuffle, nil))
	}
	if cfg.Sidecar != nil {
		s.Handle("plugin-add", cfg.Sidecar.PluginAdd)
		s.Handle("plugin-remove", cfg.Sidecar.PluginRemove)
	} else {
		s.Handle("plugin-add", h.pluginAdd)
		s.Handle("plugin-remove", pluginRemove)
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
func (h *handlers) benchmarkNetwork(ctx context.Context, _ *rpc.Request, in networkArgs) (msgpack.Map, error) {
	address := strings.Clone(in.Address) // it borrows from the request
	return hardware.Network(ctx, func(data []byte) error { return h.cfg.Transfers.Echo(ctx, address, data) })
}

type monitorArgs struct {
	Recent bool `rpc:"recent,optional"`
	Start  int  `rpc:"start,optional"`
}

// emptyProfile is the root of Dask's statistical profile: Go's is at /debug/pprof.
var emptyProfile = msgpack.MapOf("count", 0, "children", msgpack.Map{}, "identifier", "root",
	"description", msgpack.MapOf("filename", "", "name", "", "line_number", 0, "line", ""))

func keyValues(keys []task.Key) []any {
	out := make([]any, len(keys))
	for i, k := range keys {
		out[i] = k.Value()
	}
	return out
}

// updateData takes values from a client or the scheduler: scatter.
func (h *handlers) updateData(ctx context.Context, r *rpc.Request) (any, error) {
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
	if err := h.cfg.Memory.MakeRoom(ctx, values, stored); err != nil {
		return nil, fmt.Errorf("worker: %s has no room for scattered data: %w", h.w.Address(), err)
	}
	if !h.w.Store(values, stored) {
		return nil, h.w.Closed
	}
	return msgpack.MapOf("nbytes", sizes, "status", "OK"), nil
}

// gatherOp fetches keys from those who have them: what Dask's scheduler asks for to
// replicate and rebalance.
func (h *handlers) gatherOp(ctx context.Context, r *rpc.Request) (any, error) {
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
		if h.data.Has(key) {
			continue
		}
		if f, ok := h.cfg.Transfers.FetchOne(ctx, key, d.WhoHas); !ok || !h.w.Store(f.Values, f.Stored) {
			failed = append(failed, key.Value())
		}
	}
	if len(failed) > 0 {
		return msgpack.MapOf("status", "partial-fail", "keys", failed), nil
	}
	return msgpack.MapOf("status", "OK"), nil
}

func (h *handlers) freeKeys(_ context.Context, r *rpc.Request) (any, error) {
	raw, ok := r.Field("keys")
	if !ok {
		return nil, &rpc.ArgumentError{Op: r.Op, Name: "keys", Reason: "missing"}
	}
	return nil, h.w.FreeKeys(raw)
}

// runOp runs a registered function now, beside the tasks: Client.Run.
func (h *handlers) runOp(ctx context.Context, r *rpc.Request) (any, error) {
	var spec []byte
	if _, err := r.Arg("function", &spec); err != nil {
		return nil, err
	}
	if !task.IsSpec(spec) {
		return h.notRun(r.Op)
	}
	v, err := h.runNow(ctx, spec)
	if err != nil {
		return rpc.ErrorMessage(execution.WithStack(err), "error")
	}
	return resultMessage(v)
}

func (h *handlers) runNow(ctx context.Context, spec []byte) (any, error) {
	call, err := task.ParseCall(append([]byte(nil), spec...))
	if err != nil {
		return nil, err
	}
	if len(call.Deps) > 0 {
		return nil, fmt.Errorf("worker: Run takes no futures: %s was given %d", call.Func.Name(), len(call.Deps))
	}
	return call.Run(task.WithInfo(ctx, &task.Info{Host: h.cfg.Host}), nil)
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
func (h *handlers) story(_ context.Context, r *rpc.Request) (any, error) {
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
	for _, t := range h.w.Story(keys, stimuli) {
		out = append(out, storyRow(t))
	}
	return out, nil
}

// Decode leaves values closed.
var Decode = wire.DecodeOptions{Keep: true}

// storyRow is a transition as Dask's get_story tells it.
func storyRow(t state.Transition) []any {
	return []any{t.Key.Value(), t.Start.String(), t.Finish.String(), t.Final.String(), msgpack.Map{}, t.Stimulus,
		record.Unix(t.Time)}
}

// callStack answers call_stack: where the running tasks are, of the keys that are asked for or all.
func (h *handlers) callStack(_ context.Context, r *rpc.Request) (any, error) {
	var wanted map[task.Key]bool
	if raw, ok := r.Field("keys"); ok && !(len(raw) == 1 && raw[0] == 0xc0) {
		wanted = map[task.Key]bool{}
		if err := message.EachKey(raw, func(k []byte) error { wanted[task.Key(k)] = true; return nil }); err != nil {
			return nil, &rpc.ArgumentError{Op: r.Op, Name: "keys", Reason: err.Error()}
		}
	}
	return h.cfg.Exec.CallStacks(wanted), nil
}
