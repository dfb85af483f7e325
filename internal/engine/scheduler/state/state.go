package state

import (
	"slices"
	"time"

	"go.millstream.dev/internal/task/taskid"
)

// State is the state machine of the scheduler. One goroutine owns it. Parts with invariants of their own have their own
// types; State connects them by the states of tasks.
type State struct {
	cfg Config

	tasks    table
	groups   groupSet
	workers  workerSet
	clients  clientSet
	pools    poolSet
	notes    noteSet
	ledger   ledger
	steals   steals
	away     departedWorkers
	requests []*request
	stranded list // tasks without a worker, oldest first
	counts   [numTaskStates]int

	runs        int64 // low half of the latest run id
	assignments uint64
	generation  float64
	lastGraph   time.Time
	graphSeen   bool
	held        bool // see Hold

	// Of the current event:
	out    outbox
	now    time.Time
	nowNs  int64
	events uint64
	cause  cause
	stack  []*Task // tasks with recommendations
	walk   uint64
	log    transitionLog
	// observer is called before each transition; nil for none.
	observer func(t *Task, to TaskState)

	transitions uint64
	scratch     scratch

	// For tests, with Config.Validate.
	onMove func(from, to TaskState)
	onStep func(from TaskState, recommended target, to TaskState)
}

// New returns an empty state.
func New(cfg Config) *State {
	cfg.setDefaults()
	s := &State{
		cfg:     cfg,
		groups:  newGroupSet(cfg.DefaultTaskDurations),
		workers: newWorkerSet(),
		clients: newClientSet(),
		pools:   newPoolSet(),
		notes:   noteSet{byID: map[string]*notes{}},
		ledger: ledger{
			unknown: cfg.UnknownTaskDuration.Seconds(), defaultSize: cfg.DefaultDataSize, bandwidth: cfg.Bandwidth,
		},
	}
	if cfg.TransitionLog > 0 {
		s.log.limit = cfg.TransitionLog
	}
	s.clients.add("fire-and-forget")
	return s
}

// SetEpoch replaces Config.Epoch: the epoch of a journal is known only when it has been read, after the state was
// created. It must be called before the first task runs.
func (s *State) SetEpoch(epoch uint32) { s.cfg.Epoch = epoch }

// Apply applies an event and writes the resulting actions to out, in order. now must not decrease; the state has no
// other clock. Previous actions in out are deleted.
func (s *State) Apply(now time.Time, ev Event, out *Actions) {
	if ev == nil {
		panic("scheduler/state: unknown event: nil")
	}
	out.Reset()
	s.begin(now, out)
	s.cause = ev.cause()
	ev.apply(s)
	s.drain()
	s.fillSlots()
	s.out.flush()
	if len(s.requests) > 0 {
		s.requests = slices.DeleteFunc(s.requests, func(r *request) bool { return r.done })
	}
	if s.cfg.Validate {
		check(s, ev)
	}
}

// scratch is memory that is reused by the next event.
type scratch struct {
	tasks   []*Task
	workers []*Worker
	keys    []taskid.Key
}

// begin prepares for an event: memory of the last one may be reused from here on.
func (s *State) begin(now time.Time, out *Actions) {
	s.events++
	s.out.Actions, s.now, s.nowNs = out, now, now.UnixNano()
	s.tasks.reclaim()
	s.workers.reclaim()
	s.clients.reclaim()
}

// Config are the settings of the state machine. The zero value is the behavior of Dask.
type Config struct {
	// Epoch is the high half of every run ID: a restarted scheduler with the same journal increments it, so that
	// earlier reports are stale (default 0).
	Epoch uint32
	// Validate checks every invariant after each event and panics with a report if one is broken, for tests. The cost
	// of each event is then proportional to the size of the state. Dask key distributed.scheduler.validate.
	Validate bool
	// WorkerSaturation is the number of root tasks per thread that a worker receives before the others are queued on
	// the scheduler. 0 means the default, 1.1; +Inf turns the queue off. Dask key
	// distributed.scheduler.worker-saturation, DASK_DISTRIBUTED__SCHEDULER__WORKER_SATURATION.
	WorkerSaturation float64
	// AllowedFailures is the number of workers that may be lost while they process a task before the task errs
	// (KilledWorker). 0 means the default, 3; negative means none. Dask key distributed.scheduler.allowed-failures.
	AllowedFailures int
	// NoWorkersTimeout is how long tasks may wait for a worker that can run them before they err; 0 means no limit
	// (Dask's default). Dask key distributed.scheduler.no-workers-timeout.
	NoWorkersTimeout time.Duration
	// UnknownTaskDuration is the estimated duration of tasks of a prefix that has never run. 0 means the default, 500
	// ms. Dask key distributed.scheduler.unknown-task-duration.
	UnknownTaskDuration time.Duration
	// DefaultTaskDurations are estimates per prefix. Dask key distributed.scheduler.default-task-durations.
	DefaultTaskDurations map[string]time.Duration
	// Bandwidth is the initial estimate of the bandwidth between workers, in bytes per second. 0 means the default, 100
	// MB/s. Dask key distributed.scheduler.bandwidth.
	Bandwidth float64
	// DefaultDataSize is the estimated size of results of unknown size, in bytes. 0 means the default, 1 kB. Dask key
	// distributed.scheduler.default-data-size.
	DefaultDataSize int64
	// NoStealing turns work stealing off. Dask key distributed.scheduler.work-stealing (default true).
	NoStealing bool
	// StealInterval is the minimum time between two balancing rounds, which a Tick starts. 0 means the default, 100 ms.
	// Dask key distributed.scheduler.work-stealing-interval.
	StealInterval time.Duration
	// RootishGroups and RootishTasks bound the dependencies of the group of a root-ish task: fewer groups and
	// fewer tasks than these. 0 means the default, 5 and 5. Dask keys distributed.scheduler.rootish-taskgroup
	// and rootish-taskgroup-dependencies.
	RootishGroups, RootishTasks int
	// MemoryTerminate errs a task whose inputs exceed the memory limit of its worker. Dask does so unless
	// distributed.worker.memory.terminate is false.
	MemoryTerminate bool
	// TransitionLog is the number of transitions that the log keeps for stories. 0 means the default, 10,000 (Dask
	// keeps 100,000; one takes 40 bytes here and keeps the key alive); negative turns the log off. Dask key
	// distributed.admin.low-level-log-length.
	TransitionLog int
	// SenderMin is the fraction of its memory limit from which on Rebalance moves results away from a worker, and
	// RecipientMax that up to which a worker receives results. 0 means none; workers without a limit have none. Dask
	// keys distributed.worker.memory.rebalance.sender-min and recipient-max.
	SenderMin, RecipientMax float64
	// MaxReplicateTime ends a Replicate, Rebalance or RetireWorkers request whose copies do not complete. 0 means the
	// default, 5 minutes.
	MaxReplicateTime time.Duration
}

func (c *Config) setDefaults() {
	if c.WorkerSaturation == 0 {
		c.WorkerSaturation = 1.1
	}
	switch {
	case c.AllowedFailures == 0:
		c.AllowedFailures = 3
	case c.AllowedFailures < 0:
		c.AllowedFailures = 0
	}
	if c.UnknownTaskDuration <= 0 {
		c.UnknownTaskDuration = 500 * time.Millisecond
	}
	if c.Bandwidth <= 0 {
		c.Bandwidth = 100e6
	}
	if c.DefaultDataSize <= 0 {
		c.DefaultDataSize = 1000
	}
	if c.StealInterval <= 0 {
		c.StealInterval = 100 * time.Millisecond
	}
	if c.RootishGroups <= 0 {
		c.RootishGroups = 5
	}
	if c.RootishTasks <= 0 {
		c.RootishTasks = 5
	}
	if c.TransitionLog == 0 {
		c.TransitionLog = 10_000
	}
	if c.MaxReplicateTime <= 0 {
		c.MaxReplicateTime = 5 * time.Minute
	}
}
