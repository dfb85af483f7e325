// Package shuffle coordinates the P2P shuffles and rechunks of Dask workers.
package shuffle

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"go.millstream.dev/internal/dask/pyproc"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/wire"
)

// Host is the part of the scheduler that Shuffles uses.
type Host struct {
	Loop    loop.Loop
	Log     *slog.Logger
	State   *state.State
	Apply   func(state.Event)
	Workers *peers.Workers
	// Publish publishes an event to topics. It runs in the loop.
	Publish func(msg any, topics ...string)
	// Call sends a request to a worker and waits for its reply.
	Call func(ctx context.Context, address string, request msgpack.Map) error
	// Planner returns an idle Python process that has opened the graph of a shuffle, see graphs.Opener; nil if there is
	// none. Python calls the helper for shuffles.
	Planner func(shuffle string) (*pyproc.Process, func())
	Python  func(ctx context.Context, op string, body any, frames [][]byte) (*pyproc.Message, error)
}

// Shuffles are the active P2P shuffles and rechunks, as in Dask's ShuffleSchedulerPlugin. Workers send shards of their
// partitions to each other; the scheduler assigns partitions to workers, and restarts a shuffle when a worker is lost.
// The loop owns them; requests run in goroutines of their own.
type Shuffles struct {
	Host
	active map[string]*Run // by id
	// creating is closed when the run that is being created is ready; nil if there is none. Runs are created one after
	// the other, because the two of a join must agree on the workers.
	creating chan struct{}
	// restricted are output tasks that a shuffle has bound to a worker, with their previous restrictions.
	restricted map[task.Key][]string
	lastRun    int64
	shift      int // index of the first worker of the next shuffle
}

// Run is one run of a shuffle.
type Run struct {
	ID      string
	Number  int64
	Barrier task.Key
	Spec    *wire.Pickled // the ShuffleRunSpec for the workers
	// workerFor is the pickled map from partitions to workers: partitions are Python objects.
	workerFor []byte
	// Workers are the addresses of workers that take part.
	Workers map[string]bool
	// bound are the output tasks in Shuffles.restricted of this run.
	bound []task.Key
}

func (x *Run) String() string { return fmt.Sprintf("shuffle %s, run %d", x.ID, x.Number) }

// New returns Shuffles without active runs.
func New(h Host) *Shuffles {
	return &Shuffles{Host: h, active: map[string]*Run{}, restricted: map[task.Key][]string{}}
}

// Register sets the handlers of requests.
func (s *Shuffles) Register(r *rpc.Server) {
	rpc.Handle(r, "shuffle_get", s.getRPC)
	rpc.Handle(r, "shuffle_get_or_create", s.getOrCreateRPC)
	rpc.Handle(r, "shuffle_barrier", s.barrierRPC)
	rpc.Handle(r, "shuffle_restrict_task", s.restrictRPC)
}

// BarrierPrefix starts the key of a shuffle's barrier; its ID follows.
const BarrierPrefix = "shuffle-barrier-"

// Of returns the ID of the shuffle whose barrier a key is; "" for others.
func Of(k task.Key) string {
	r := msgpack.NewReader([]byte(k))
	if r.Kind() != msgpack.Str {
		return ""
	}
	text, err := r.ReadString()
	if err != nil {
		return ""
	}
	id, ok := strings.CutPrefix(text, BarrierPrefix)
	if !ok {
		return ""
	}
	return id
}

// Plugin returns the pickled ShuffleWorkerPlugin, which Dask workers receive when they register and need to take part
// in a shuffle.
func Plugin() []byte {
	data, err := pickle.Dump(pickle.New(pickle.Global{Module: "distributed.shuffle._worker_plugin",
		Name: "ShuffleWorkerPlugin"}))
	if err != nil {
		panic(err) // constant input
	}
	return data
}

// inconsistent returns an error that makes a worker end the run and wait for the next one.
func inconsistent(format string, args ...any) error {
	return pickle.NewException("distributed.shuffle._exceptions", "P2PConsistencyError", fmt.Sprintf(format, args...))
}

// answerOf returns the reply of ops that workers inspect: consistency errors are part of the protocol.
func answerOf(v msgpack.Map, err error) (msgpack.Map, error) {
	if e, ok := err.(*pickle.Exception); ok {
		return rpc.ErrorMessage(e, "error")
	}
	return v, err
}

func (x *Run) answer() msgpack.Map { return msgpack.MapOf("status", "OK", "run_spec", x.Spec) }

// getRPC serves shuffle_get: a worker that has received shards of a run requests its spec.
func (s *Shuffles) getRPC(ctx context.Context, _ *rpc.Request, in struct {
	ID     string `rpc:"id"`
	Worker string `rpc:"worker"`
}) (msgpack.Map, error) {
	return answerOf(loop.Ask(ctx, s.Loop, func() (msgpack.Map, error) {
		x, err := s.takePart(in.ID, in.Worker)
		if err == nil && x == nil {
			err = inconsistent("No active shuffle with id=%q found", in.ID)
		}
		if err != nil {
			return nil, err
		}
		return x.answer(), nil
	}))
}

func unaware(worker string) error {
	return inconsistent("Scheduler is unaware of this worker %q", worker)
}

// Add adds a run and watches its barrier. It runs in the loop.
func (s *Shuffles) Add(x *Run) {
	s.active[x.ID] = x
	s.Apply(&state.Watch{Keys: []task.Key{x.Barrier}})
}

// Run returns the active run of a shuffle; nil for none. It runs in the loop.
func (s *Shuffles) Run(id string) *Run { return s.active[id] }

// Counts returns the numbers of active shuffles and of output tasks that they have bound to workers. It runs in the
// loop.
func (s *Shuffles) Counts() (active, bound int) { return len(s.active), len(s.restricted) }

// takePart records that a worker takes part in a shuffle; nil if there is no such shuffle.
func (s *Shuffles) takePart(id, worker string) (*Run, error) {
	w := s.Workers.Find(worker)
	if w == nil {
		return nil, unaware(worker)
	}
	x := s.active[id]
	if x != nil {
		x.Workers[w.Address] = true
	}
	return x, nil
}

// restrictRPC serves shuffle_restrict_task: an output task runs on the worker of its partition.
func (s *Shuffles) restrictRPC(ctx context.Context, _ *rpc.Request, in struct {
	ID     string `rpc:"id"`
	Run    int64  `rpc:"run_id"`
	Key    any    `rpc:"key"`
	Worker string `rpc:"worker"`
}) (msgpack.Map, error) {
	key, err := task.KeyOf(wire.Clone(in.Key))
	if err != nil {
		return nil, err
	}
	worker := strings.Clone(in.Worker)
	return answerOf(loop.Ask(ctx, s.Loop, func() (msgpack.Map, error) {
		x := s.active[in.ID]
		switch {
		case x == nil:
			return nil, inconsistent("No active shuffle with id=%q found", in.ID)
		case x.Number > in.Run:
			return nil, inconsistent("Request stale, expected run_id=%d for %v", in.Run, x)
		case x.Number < in.Run:
			return nil, inconsistent("Request invalid, expected run_id=%d for %v", in.Run, x)
		}
		t := s.State.Task(key)
		if t == nil {
			return nil, &rpc.Exception{Type: "KeyError", Message: key.String()}
		}
		s.bind(x, t, worker)
		return msgpack.MapOf("status", "OK"), nil
	}))
}

// bind restricts an output task to a worker. Two shuffles share the outputs of a join: the first binds them, to the
// same worker as the other would.
func (s *Shuffles) bind(x *Run, t *state.Task, worker string) {
	key := t.Key()
	if _, ok := s.restricted[key]; ok {
		return
	}
	var before []string
	if a := t.Annotations(); a != nil {
		before = slices.Clone(a.Workers)
	}
	s.restricted[key] = before
	x.bound = append(x.bound, key)
	s.Apply(&state.SetRestrictions{Keys: []task.Key{key}, Workers: []string{worker}})
}

// barrierRPC serves shuffle_barrier: all partitions have been handed over, and the workers must send their remaining
// shards. It returns when they have.
func (s *Shuffles) barrierRPC(ctx context.Context, _ *rpc.Request, in struct {
	ID         string `rpc:"id"`
	Run        int64  `rpc:"run_id"`
	Consistent bool   `rpc:"consistent"`
}) (any, error) {
	x, err := loop.Ask(ctx, s.Loop, func() (*Run, error) {
		x := s.active[in.ID]
		if x == nil {
			return nil, &rpc.Exception{Type: "KeyError", Message: in.ID}
		}
		if x.Number != in.Run {
			return nil, &rpc.Exception{Type: "ValueError",
				Message: fmt.Sprintf("run_id=%d does not match %v", in.Run, x)}
		}
		if !in.Consistent {
			s.Log.Warn("shuffle restarted: partitions were sent in different runs", "shuffle", x.ID, "run",
				x.Number)
			s.Restart(x)
			return nil, nil
		}
		return x, nil
	})
	if err != nil || x == nil {
		return nil, err
	}
	return nil, s.inputsDone(ctx, x)
}
