package scheduler

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/internal/wire/pickle"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/task"
	"go.millstream.dev/wire"
)

// shuffles are the P2P shuffles and rechunks that go on: what Dask's
// ShuffleSchedulerPlugin keeps. Workers send shards of their partitions to each other; the
// scheduler says which worker gets which partition, and begins anew when one is lost. The
// loop owns it.
type shuffles struct {
	active map[string]*shuffle // by id
	// creating is closed when the run that is being made is there; nil when none is. They
	// are made one after the other, because the two of a join must agree on the workers.
	creating chan struct{}
	// restricted are output tasks that a shuffle has bound to a worker, with the
	// restrictions that they had before.
	restricted map[task.Key][]string
	lastRun    int64
	shift      int // where the next shuffle begins among the workers
}

// shuffle is one run of a shuffle.
type shuffle struct {
	id      string
	run     int64
	barrier task.Key
	spec    *wire.Pickled // the ShuffleRunSpec for the workers
	// workerFor is the map from partitions to workers, pickled: partitions are Python's.
	workerFor []byte
	// workers have taken part, or will.
	workers map[string]bool
	// bound are the output tasks in shuffles.restricted that are this one's.
	bound []task.Key
}

func (x *shuffle) String() string { return fmt.Sprintf("shuffle %s, run %d", x.id, x.run) }

func (x *shuffles) init() {
	x.active, x.restricted = map[string]*shuffle{}, map[task.Key][]string{}
}

// barrierPrefix begins the key of a shuffle's barrier; its id follows.
const barrierPrefix = "shuffle-barrier-"

// shuffleOf is the id of the shuffle whose barrier a key is; "" for others.
func shuffleOf(k task.Key) string {
	r := msgpack.NewReader([]byte(k))
	if r.Kind() != msgpack.Str {
		return ""
	}
	text, err := r.ReadString()
	if err != nil {
		return ""
	}
	id, ok := strings.CutPrefix(text, barrierPrefix)
	if !ok {
		return ""
	}
	return id
}

// shufflePlugin is the pickled ShuffleWorkerPlugin, which Dask's workers get when they
// register: it has what they need to take part in a shuffle.
func shufflePlugin() []byte {
	data, err := pickle.Dump(pickle.New(pickle.Global{Module: "distributed.shuffle._worker_plugin", Name: "ShuffleWorkerPlugin"}))
	if err != nil {
		panic(err) // it is always the same
	}
	return data
}

// inconsistent is what a worker reads as "this run is over, wait for the next".
func inconsistent(format string, args ...any) error {
	return pickle.NewException("distributed.shuffle._exceptions", "P2PConsistencyError", fmt.Sprintf(format, args...))
}

// shuffleAnswer makes the answer of the ops that workers look into: errors of consistency
// are part of the protocol.
func shuffleAnswer(v msgpack.Map, err error) (msgpack.Map, error) {
	if e, ok := err.(*pickle.Exception); ok {
		return rpc.ErrorMessage(e, "error")
	}
	return v, err
}

func (x *shuffle) answer() msgpack.Map { return msgpack.MapOf("status", "OK", "run_spec", x.spec) }

// shuffleGet is shuffle_get: a worker that was sent shards of a run asks what it is.
func (s *Scheduler) shuffleGet(ctx context.Context, _ *rpc.Request, in struct {
	ID     string `rpc:"id"`
	Worker string `rpc:"worker"`
}) (msgpack.Map, error) {
	return shuffleAnswer(loop.Ask(ctx, s.loop, func() (msgpack.Map, error) {
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

// takePart notes that a worker takes part in a shuffle; nil if there is no such shuffle.
func (s *Scheduler) takePart(id, worker string) (*shuffle, error) {
	w := s.workers.Find(worker)
	if w == nil {
		return nil, inconsistent("Scheduler is unaware of this worker %q", worker)
	}
	x := s.shuffles.active[id]
	if x != nil {
		x.workers[w.Address] = true
	}
	return x, nil
}

// shuffleRestrict is shuffle_restrict_task: an output task runs where its partition is.
func (s *Scheduler) shuffleRestrict(ctx context.Context, _ *rpc.Request, in struct {
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
	return shuffleAnswer(loop.Ask(ctx, s.loop, func() (msgpack.Map, error) {
		x := s.shuffles.active[in.ID]
		switch {
		case x == nil:
			return nil, inconsistent("No active shuffle with id=%q found", in.ID)
		case x.run > in.Run:
			return nil, inconsistent("Request stale, expected run_id=%d for %v", in.Run, x)
		case x.run < in.Run:
			return nil, inconsistent("Request invalid, expected run_id=%d for %v", in.Run, x)
		}
		t := s.state.Task(key)
		if t == nil {
			return nil, &rpc.Exception{Type: "KeyError", Message: key.String()}
		}
		s.bind(x, t, worker)
		return msgpack.MapOf("status", "OK"), nil
	}))
}

// bind makes an output task run on a worker. Two shuffles share the outputs of a join: the
// first binds them, to the same worker as the other would.
func (s *Scheduler) bind(x *shuffle, t *state.Task, worker string) {
	key := t.Key()
	if _, ok := s.shuffles.restricted[key]; ok {
		return
	}
	var before []string
	if a := t.Annotations(); a != nil {
		before = slices.Clone(a.Workers)
	}
	s.shuffles.restricted[key] = before
	x.bound = append(x.bound, key)
	s.apply(&state.SetRestrictions{Keys: []task.Key{key}, Workers: []string{worker}})
}

// shuffleBarrier is shuffle_barrier: all partitions have been handed over, and the workers
// are to send what they still have. It returns when they have.
func (s *Scheduler) shuffleBarrier(ctx context.Context, _ *rpc.Request, in struct {
	ID         string `rpc:"id"`
	Run        int64  `rpc:"run_id"`
	Consistent bool   `rpc:"consistent"`
}) (any, error) {
	x, err := loop.Ask(ctx, s.loop, func() (*shuffle, error) {
		x := s.shuffles.active[in.ID]
		if x == nil {
			return nil, &rpc.Exception{Type: "KeyError", Message: in.ID}
		}
		if x.run != in.Run {
			return nil, &rpc.Exception{Type: "ValueError", Message: fmt.Sprintf("run_id=%d does not match %v", in.Run, x)}
		}
		if !in.Consistent {
			s.log.Warn("a shuffle begins anew: its partitions were sent in different runs", "shuffle", x.id, "run", x.run)
			s.restartShuffle(x)
			return nil, nil
		}
		return x, nil
	})
	if err != nil || x == nil {
		return nil, err
	}
	return nil, s.inputsDone(ctx, x)
}
