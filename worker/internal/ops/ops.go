// Package ops handles the requests to the server of a worker: all ops of Dask workers, and those of Millstream.
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

// Config holds the subsystems of a worker that the handlers use.
type Config struct {
	Logger    *slog.Logger
	Memory    *memory.Manager
	Exec      *execution.Pool
	Transfers *transfer.Manager
	Sidecar   *sidecar.Sidecar // nil without Python
	Logs      *logs.Records
	Monitor   *monitor.Monitor
	Host      *task.Host
	Peers     *peernet.Peers
	// Trusted and GPU are part of a diagnosis: whether data connections to other hosts are allowed, and the UUID of the
	// worker's GPU.
	Trusted bool
	GPU     string
	// Worker has the functions of the worker.
	Worker Worker
}

// Worker has the functions of a worker that the handlers use. All fields must be set.
type Worker struct {
	// Address returns the address of the worker.
	Address func() string
	// Closed is the error to return after the worker has closed.
	Closed error
	// Do runs a function in a turn. It returns false if the worker has closed.
	Do func(func()) bool
	// Store stores values that were not computed here. It returns false if the worker has closed.
	Store func(values []*task.Value, stored []state.Stored) bool
	// FreeKeys frees an encoded list of keys.
	FreeKeys func(raw []byte) error
	// Story returns the transitions of keys, or those caused by events.
	Story func(keys []task.Key, stimuli []string) []state.Transition
	// Versions returns the reply to Dask's get_versions.
	Versions func() msgpack.Map
	// Terminate closes the worker at the request of a peer, after the reply has been sent.
	Terminate func(peer string)
}

// Roles specifies the roles that may call each op, on connections whose peers have certificates.
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

// Waiting are ops that wait for other peers or for Python: they occupy no slot of the server.
var Waiting = []string{
	"gather", "run", "run_coroutine", "actor_execute", "actor_attribute", "call_stack", "profile",
	"profile_metadata", "upload_file", "versions",
	"shuffle_receive", "shuffle_inputs_done", "plugin-add", "plugin-remove", "benchmark_disk", "benchmark_memory",
	"benchmark_network", peernet.ChannelOp,
}

// Detached are ops that continue when their callers disconnect: they change the worker in several steps, or take over
// their comm and detect its end themselves.
var Detached = []string{
	"actor_execute", "terminate", "update_data", "free_keys", "plugin-add", "plugin-remove", "upload_file",
	"shuffle_receive", "shuffle_inputs_done", peernet.ChannelOp, dataconn.Op,
}

// handlers has the handlers of all ops.
type handlers struct {
	cfg  Config
	w    Worker
	log  *slog.Logger
	data *store.Store
}

// Register registers the handlers of a worker's server. Without Python, ops that need it have handlers that return an
// error: callers would otherwise wait.
func Register(s *rpc.Server, cfg Config) {
	h := &handlers{cfg: cfg, w: cfg.Worker, log: cfg.Logger, data: cfg.Memory.Store()}
	s.Handle("get_data", cfg.Transfers.GetData)
	s.Handle("update_data", h.updateData)
	s.Handle("gather", h.gatherOp)
	s.Handle("free_keys", h.freeKeys)
	s.Handle(dataconn.Op, cfg.Transfers.OfferConnections)
	cfg.Peers.Register(s)
	s.Handle(DiagnosisOp, h.diagnosis)
	s.Handle("run", h.orPython(h.runOp, runsPython))
	s.Handle("run_coroutine", h.orPython(h.runOp, runsPython))
	s.Handle("actor_execute", h.orPython(h.actorExecute, h.isPythonActor))
	s.Handle("actor_attribute", h.orPython(actorAttribute, h.isPythonActor))
	s.Handle("call_stack", h.callStack)
	s.Handle("get_story", h.story)
	s.Handle("keys", func(context.Context, *rpc.Request) (any, error) { return keyValues(h.data.Keys()), nil })
	s.Handle("ping", func(context.Context, *rpc.Request) (any, error) { return "pong", nil })
	s.Handle("versions", h.orPython(func(context.Context, *rpc.Request) (any, error) {
		return h.w.Versions(), nil
	}, nil))
	rpc.Handle(s, "profile", h.profile)
	rpc.Handle(s, "profile_metadata", h.profileMetadata)
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
	s.Handle("upload_file", h.orPython(h.uploadFile, nil))
	s.Handle("benchmark_disk", func(ctx context.Context, _ *rpc.Request) (any, error) {
		return hardware.Disk(ctx, cfg.Memory.Directory())
	})
	s.Handle("benchmark_memory", func(ctx context.Context, _ *rpc.Request) (any, error) { return hardware.Memory(ctx) })
	rpc.Handle(s, "benchmark_network", h.benchmarkNetwork)
	for _, op := range []string{"shuffle_receive", "shuffle_inputs_done"} {
		s.Handle(op, h.orPython(h.rejectShuffle, nil))
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
	address := strings.Clone(in.Address) // borrows from the request
	return hardware.Network(ctx, func(data []byte) error { return h.cfg.Transfers.Echo(ctx, address, data) })
}

type monitorArgs struct {
	Recent bool `rpc:"recent,optional"`
	Start  int  `rpc:"start,optional"`
}

func keyValues(keys []task.Key) []any {
	out := make([]any, len(keys))
	for i, k := range keys {
		out[i] = k.Value()
	}
	return out
}

// updateData stores values of a client or of the scheduler (scatter).
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
		return nil, fmt.Errorf("worker: no room for scattered data on %s: %w", h.w.Address(), err)
	}
	if !h.w.Store(values, stored) {
		return nil, h.w.Closed
	}
	return msgpack.MapOf("nbytes", sizes, "status", "OK"), nil
}

// gatherOp fetches keys from peers. Dask's scheduler calls it to replicate and rebalance.
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
		key := task.Key(append([]byte(nil), d.Key...)) // borrows from the request
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

// runOp runs a registered function immediately, next to the tasks (Client.Run).
func (h *handlers) runOp(ctx context.Context, r *rpc.Request) (any, error) {
	var spec []byte
	if _, err := r.Arg("function", &spec); err != nil {
		return nil, err
	}
	if !task.IsSpec(spec) {
		return h.replyNotRun(r.Op)
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
		return nil, fmt.Errorf("worker: Run of %s has %d futures as arguments; use values", call.Func.Name(),
			len(call.Deps))
	}
	return call.Run(task.WithInfo(ctx, &task.Info{Host: h.cfg.Host}), nil)
}

// resultMessage returns {status, result} of a Go value.
func resultMessage(v any) (any, error) {
	s, err := task.EncodeValue(v)
	if err != nil {
		return rpc.ErrorMessage(err, "error")
	}
	return msgpack.MapOf("status", "OK", "result", s), nil
}

// story handles Dask's get_story: the transitions of keys, or those caused by events.
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
		out = append(out, StoryRow(t))
	}
	return out, nil
}

// Decode decodes requests without decoding the values in them.
var Decode = wire.DecodeOptions{Keep: true}

// StoryRow returns a transition in the form of Dask's get_story.
func StoryRow(t state.Transition) []any {
	return []any{t.Key.Value(), t.Start.String(), t.Finish.String(), t.Final.String(), msgpack.Map{}, t.Stimulus,
		record.Unix(t.Time)}
}
