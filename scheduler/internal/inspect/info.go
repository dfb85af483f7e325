// Package inspect serves queries about the state of a scheduler: identities, stories, metrics and the HTTP server.
package inspect

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"go.millstream.dev/internal/dashboard"
	"go.millstream.dev/internal/dashboard/spans"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/proc/profile"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/feed"
	"go.millstream.dev/scheduler/internal/history"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/primitives"
	"go.millstream.dev/scheduler/internal/recovery"
	"go.millstream.dev/scheduler/internal/shortage"
	"go.millstream.dev/scheduler/internal/specs"
	"go.millstream.dev/scheduler/internal/topics"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/wire"
)

// Host is the part of the scheduler that Inspector uses.
type Host struct {
	Loop       loop.Loop
	Log        *slog.Logger
	State      *state.State
	Workers    *peers.Workers
	Clients    *peers.Clients
	Topics     *topics.Topics
	Primitives *primitives.Primitives
	Journal    *recovery.Log
	TaskStream *history.TaskStream
	Transfers  *history.Transfers
	Shortages  *shortage.Shortages
	Pool       *rpc.Pool       // to workers
	Totals     *Totals         // owner: the loop
	Context    context.Context // of the HTTP server
	ID         string
	Contact    func() string
	Started    func() time.Time
	WorkerTTL  time.Duration
	// Profile and Stacks return what the methods of dashboard.Source return.
	Profile func(ctx context.Context, q dashboard.ProfileQuery) (*profile.View, error)
	Stacks  func(ctx context.Context, worker string) ([]dashboard.Stack, error)
	// Lines returns the latest n lines of the log as pairs of level and text.
	Lines func(n int) []any
	// Hosts are names that the HTTP server accepts, Token is its secret and TLS the configuration of the scheduler's
	// listeners (see httpguard.Config), Collectors are further metrics that it serves.
	Hosts      []string
	Token      string
	TLS        *tls.Config
	Collectors []prometheus.Collector
	// Ask performs an op as a client does. API serves Dask's API over HTTP even if requests need no token.
	Ask func(ctx context.Context, op string, args msgpack.Map) (any, error)
	API bool
	// Broadcast sends a request to all workers and returns the replies of those that reply without an error, by
	// address. Versions returns the reply to versions.
	Broadcast func(ctx context.Context, msg msgpack.Map) (any, error)
	Versions  func(ctx context.Context) (any, error)
	// Usage returns the memory of a worker under the names of Dask's MemoryState. It runs in the loop.
	Usage func(*peers.Worker) msgpack.Map
}

// Inspector serves queries about the state of a scheduler, as requests and over HTTP. It changes nothing. It reads the
// state in the loop.
type Inspector struct {
	Host
	Feed *feed.Feed  // of the dashboard, set by Record; nil without one
	http *httpServer // set by serve; nil without one

	dashboard *dashboard.Server // set by Record; nil without one
}

// New returns an Inspector without an HTTP server.
func New(h Host) *Inspector { return &Inspector{Host: h} }

// Record sets the history that Serve shows, and the Feed that writes it. It runs in the loop, before Serve.
func (s *Inspector) Record(store *spans.Store, f *feed.Feed) {
	s.Feed, s.dashboard = f, dashboard.New(store, &source{Inspector: s})
}

// WriteReport writes a report of the dashboard, see dashboard.Server.
func (s *Inspector) WriteReport(ctx context.Context, w io.Writer, o dashboard.ReportOptions) error {
	return s.dashboard.WriteReport(ctx, w, o)
}

// WriteTrace writes the history as a trace, see dashboard.Server.
func (s *Inspector) WriteTrace(w io.Writer) error { return s.dashboard.WriteTrace(w) }

// Register sets the handlers of requests.
func (s *Inspector) Register(r *rpc.Server) {
	rpc.Handle(r, "identity", s.identityRPC)
	rpc.Handle(r, "who_has", s.whoHasRPC)
	rpc.Handle(r, "has_what", s.hasWhatRPC)
	rpc.Handle(r, "ncores", s.ncoresRPC)
	rpc.Handle(r, "ncores_running", s.runningRPC)
	rpc.Handle(r, "nbytes", s.nbytesRPC)
	rpc.Handle(r, "processing", s.processingRPC)
	rpc.Handle(r, "get_task_status", s.statusRPC)
	rpc.Handle(r, "get_task_prefix_states", s.prefixesRPC)
	rpc.Handle(r, "get_error_cause", s.causeRPC)
	rpc.Handle(r, "get_runspec", s.runspecRPC)
	rpc.Handle(r, "get_story", s.storyRPC)
	rpc.Handle(r, "get_cluster_state", s.dumpRPC)
	r.Handle("dump_cluster_state_to_url", dumpToURL)
}

func (s *Inspector) identityRPC(ctx context.Context, _ *rpc.Request, in struct {
	Workers *int `rpc:"n_workers"`
}) (msgpack.Map, error) {
	n := -1
	if in.Workers != nil {
		n = *in.Workers
	}
	return loop.Ask(ctx, s.Loop, func() (msgpack.Map, error) { return s.Identity(n), nil })
}

// Identity returns the identity of the scheduler. It runs in the loop. n bounds the workers that are listed; -1 lists
// all.
func (s *Inspector) Identity(n int) msgpack.Map {
	var memory int64
	workers := msgpack.Map{}
	for sw := range s.State.Workers() {
		memory += sw.MemoryLimit()
		if w, ok := sw.Data.(*peers.Worker); ok && (n < 0 || len(workers) < n) {
			workers = append(workers, msgpack.Pair{Key: w.Address, Value: s.Worker(w)})
		}
	}
	services := msgpack.Map{}
	if s.http != nil {
		services = append(services, msgpack.Pair{Key: "dashboard", Value: s.http.port})
	}
	return msgpack.MapOf("type", "Scheduler", "id", s.ID, "address", s.Contact(), "services", services, "started",
		val.Seconds(s.Started()),
		"n_workers", len(s.Workers.ByAddress), "total_threads", s.State.TotalThreads(), "total_memory", memory,
		"workers", workers, "millstream", s.summary())
}

// Worker returns the identity of a worker. It runs in the loop.
func (s *Inspector) Worker(w *peers.Worker) msgpack.Map {
	m := msgpack.MapOf("type", "Worker", "id", w.Name, "host", w.Host)
	if sw := s.State.Worker(w.ID); sw != nil && sw.Data == w {
		supplied, _ := sw.Resources()
		res := msgpack.Map{}
		for _, r := range supplied {
			res = append(res, msgpack.Pair{Key: r.Name, Value: r.Amount})
		}
		m = append(m, msgpack.MapOf("resources", res, "nthreads", sw.Threads(), "memory_limit", sw.MemoryLimit(),
			"status", sw.Status().String())...)
	}
	m = append(m, msgpack.MapOf("local_directory", w.Dir, "name", w.Name, "last_seen", val.Seconds(w.LastSeen),
		"services", w.Services,
		"metrics", w.Metrics, "nanny", w.Nanny)...)
	return append(m, w.Extra...)
}

type KeysArg struct {
	Keys []any `rpc:"keys,optional"`
}

type workersArg struct {
	Workers []any `rpc:"workers,optional"`
}

func (s *Inspector) whoHasRPC(ctx context.Context, _ *rpc.Request, in KeysArg) (msgpack.Map, error) {
	keys, err := val.KeyList(in.Keys)
	if err != nil {
		return nil, err
	}
	return loop.Ask(ctx, s.Loop, func() (msgpack.Map, error) {
		out := make(msgpack.Map, 0, len(keys))
		if in.Keys == nil {
			for t := range s.State.Tasks() {
				out = append(out, msgpack.Pair{Key: t.Key().Value(), Value: holders(t)})
			}
			return out, nil
		}
		for i, k := range keys {
			out = append(out, msgpack.Pair{Key: in.Keys[i], Value: holders(s.State.Task(k))})
		}
		return out, nil
	})
}

func holders(t *state.Task) []any {
	out := []any{}
	if t != nil {
		for i := range t.NumHolders() {
			out = append(out, t.Holder(i).Address())
		}
	}
	return out
}

func (s *Inspector) hasWhatRPC(ctx context.Context, _ *rpc.Request, in workersArg) (msgpack.Map, error) {
	return s.perWorker(ctx, in.Workers, func(_ *peers.Worker, sw *state.Worker) any {
		keys := make([]any, sw.NumHeld())
		for i := range keys {
			keys[i] = sw.Held(i).Key().Raw()
		}
		return keys
	})
}

func (s *Inspector) perWorker(ctx context.Context, names []any, f func(*peers.Worker, *state.Worker) any) (msgpack.Map,
	error) {
	return loop.Ask(ctx, s.Loop, func() (msgpack.Map, error) {
		out := msgpack.Map{}
		s.Workers.Each(names, func(w *peers.Worker, sw *state.Worker) {
			if v := f(w, sw); v != nil {
				out = append(out, msgpack.Pair{Key: w.Address, Value: v})
			}
		})
		return out, nil
	})
}

func (s *Inspector) ncoresRPC(ctx context.Context, _ *rpc.Request, in workersArg) (msgpack.Map, error) {
	return s.perWorker(ctx, in.Workers, func(_ *peers.Worker, sw *state.Worker) any { return sw.Threads() })
}

func (s *Inspector) runningRPC(ctx context.Context, _ *rpc.Request, in workersArg) (msgpack.Map, error) {
	return s.perWorker(ctx, in.Workers, func(_ *peers.Worker, sw *state.Worker) any {
		if sw.Status() != state.StatusRunning {
			return nil
		}
		return sw.Threads()
	})
}

func (s *Inspector) processingRPC(ctx context.Context, _ *rpc.Request, in workersArg) (msgpack.Map, error) {
	return s.perWorker(ctx, in.Workers, func(_ *peers.Worker, sw *state.Worker) any {
		keys := []any{}
		for t := range sw.Processing() {
			keys = append(keys, t.Key().Raw())
		}
		return keys
	})
}

func (s *Inspector) nbytesRPC(ctx context.Context, _ *rpc.Request, in struct {
	Keys    []any `rpc:"keys,optional"`
	Summary *bool `rpc:"summary"`
}) (msgpack.Map, error) {
	keys, err := val.KeyList(in.Keys)
	if err != nil {
		return nil, err
	}
	return loop.Ask(ctx, s.Loop, func() (msgpack.Map, error) {
		out := msgpack.Map{}
		sums := map[string]int64{}
		add := func(t *state.Task) {
			if in.Summary == nil || *in.Summary {
				sums[t.Prefix().Name()] += t.NBytes()
			} else {
				out = append(out, msgpack.Pair{Key: t.Key().Value(), Value: t.NBytes()})
			}
		}
		if in.Keys == nil {
			for t := range s.State.Tasks() {
				if t.NBytes() >= 0 {
					add(t)
				}
			}
		}
		for _, k := range keys {
			t := s.State.Task(k)
			if t == nil {
				return nil, &rpc.Exception{Type: "KeyError", Message: k.String()}
			}
			add(t)
		}
		for name, n := range sums {
			out = append(out, msgpack.Pair{Key: name, Value: n})
		}
		return out, nil
	})
}

func (s *Inspector) statusRPC(ctx context.Context, _ *rpc.Request, in KeysArg) (msgpack.Map, error) {
	keys, err := val.KeyList(in.Keys)
	if err != nil {
		return nil, err
	}
	return loop.Ask(ctx, s.Loop, func() (msgpack.Map, error) {
		out := make(msgpack.Map, len(keys))
		for i, k := range keys {
			out[i].Key = in.Keys[i]
			if t := s.State.Task(k); t != nil {
				out[i].Value = t.State().String()
			}
		}
		return out, nil
	})
}

// prefixCounts returns the number of tasks of each prefix by state.
func (s *Inspector) prefixCounts() map[string][]int {
	states := state.TaskStates()
	out := map[string][]int{}
	for g := range s.State.Groups() {
		counts := out[g.Prefix().Name()]
		if counts == nil {
			counts = make([]int, len(states))
			out[g.Prefix().Name()] = counts
		}
		for i, st := range states {
			counts[i] += g.Count(st)
		}
	}
	return out
}

func (s *Inspector) prefixesRPC(ctx context.Context, _ *rpc.Request, _ struct{}) (msgpack.Map, error) {
	return loop.Ask(ctx, s.Loop, func() (msgpack.Map, error) {
		out := msgpack.Map{}
		for name, counts := range s.prefixCounts() {
			m, sum := msgpack.Map{}, 0
			for i, st := range state.TaskStates() {
				if st == state.Queued || st.String() == "no-worker" { // Dask does not count these
					continue
				}
				m = append(m, msgpack.Pair{Key: st.String(), Value: counts[i]})
				sum += counts[i]
			}
			if sum == 0 {
				continue
			}
			out = append(out, msgpack.Pair{Key: name, Value: m})
		}
		return out, nil
	})
}

// causeRPC returns the task that caused the error of the first erred key.
func (s *Inspector) causeRPC(ctx context.Context, _ *rpc.Request, in KeysArg) (any, error) {
	keys, err := val.KeyList(in.Keys)
	if err != nil {
		return nil, err
	}
	return loop.Ask(ctx, s.Loop, func() (any, error) {
		for _, k := range keys {
			if t := s.State.Task(k); t != nil && t.Failure() != nil {
				return t.Failure().Key.Raw(), nil
			}
		}
		return nil, nil
	})
}

func (s *Inspector) runspecRPC(ctx context.Context, _ *rpc.Request, in struct {
	Key any `rpc:"key"`
}) (any, error) {
	key, err := task.KeyOf(in.Key)
	if err != nil {
		return nil, err
	}
	return loop.Ask(ctx, s.Loop, func() (any, error) {
		t := s.State.Task(key)
		if t == nil {
			return nil, &rpc.Exception{Type: "KeyError", Message: key.String()}
		}
		if spec, err := specs.Read(t.Spec()); err == nil { // Python clients run it themselves
			out := &wire.Pickled{Data: slices.Concat(t.Shared(), spec.Pickle)}
			spec.Buffers(func(b []byte) { out.Buffers = append(out.Buffers, wire.HeapFrame(b)) })
			return out, nil
		}
		deps := make([]any, t.NumDeps())
		for i := range deps {
			deps[i] = t.Dep(i).Key().Raw()
		}
		return msgpack.MapOf("task", t.Spec(), "deps", deps), nil
	})
}

func (s *Inspector) storyRPC(ctx context.Context, _ *rpc.Request, in struct {
	Keys []any `rpc:"keys_or_stimuli"`
}) ([]any, error) {
	// Dask searches keys and stimuli; other objects, such as futures, have no story.
	named := slices.DeleteFunc(slices.Clone(in.Keys), func(v any) bool { _, err := task.KeyOf(v); return err != nil })
	keys, err := val.KeyList(named)
	if err != nil {
		return nil, err
	}
	return loop.Ask(ctx, s.Loop, func() ([]any, error) {
		out := []any{}
		if len(keys) == 0 {
			return out, nil
		}
		for _, t := range s.State.Story(keys...) {
			out = append(out, storyRow(t))
		}
		return out, nil
	})
}

// storyRow returns a transition in the form of Dask's get_story.
func storyRow(t state.Transition) []any {
	return []any{t.Key.Raw(), t.From.String(), t.To.String(), msgpack.Map{}, t.Cause + "-" + fmt.Sprint(t.Event),
		val.Seconds(t.When)}
}
