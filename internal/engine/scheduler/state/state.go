package state

import (
	"slices"
	"time"

	"go.millstream.dev/internal/task/taskid"
)

// State is the whole scheduler but its network. One goroutine owns it. What has invariants of its own is a part
// with its own type; State has what connects them: the states of tasks.
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
	away     awayWorkers
	requests []*request
	stranded list // tasks without a worker, oldest first
	counts   [numTaskStates]int

	runs        int64 // low half of the latest run id
	assignments uint64
	generation  float64
	lastGraph   time.Time
	graphSeen   bool
	held        bool // see Hold

	// Of the event that is being applied:
	out    outbox
	now    time.Time
	nowNs  int64
	events uint64
	cause  cause
	stack  []*Task // with recommendations
	walk   uint64
	log    transitionLog

	transitions uint64
	scratch     scratch

	// For tests, with Config.Validate.
	onMove func(from, to TaskState)
	onStep func(from TaskState, recommended target, to TaskState)
}

// New makes an empty state.
func New(cfg Config) *State {
	cfg.setDefaults()
	s := &State{
		cfg:     cfg,
		tasks:   newTable(),
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

// SetEpoch replaces Config.Epoch: the owner of a journal learns the number of its life only when it has read
// the journal, and so after the state was made. It is called before the first task runs.
func (s *State) SetEpoch(epoch uint32) { s.cfg.Epoch = epoch }

// Apply takes an event in and writes to out what is to be done about it, in order. now must not go back; the
// state has no other clock. What out held before is gone.
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

// scratch is memory that is used again from event to event.
type scratch struct {
	tasks   []*Task
	workers []*Worker
	keys    []taskid.Key
}

// begin makes ready for an event: what the last one has left may be used again from here on.
func (s *State) begin(now time.Time, out *Actions) {
	s.events++
	s.out.Actions, s.now, s.nowNs = out, now, now.UnixNano()
	s.tasks.reclaim()
	s.workers.reclaim()
	s.clients.reclaim()
}

// Config are the scheduler's settings that its state machine needs. The zero value is Dask's behaviour.
type Config struct {
	// Epoch is the high half of every run id: a scheduler that starts again with the same journal counts it
	// up, so that reports of its former life are stale. Default 0.
	Epoch uint32
	// Validate checks every invariant after each event and panics with a report when one is broken: for tests.
	// It makes each event cost as much as the whole state. Dask key distributed.scheduler.validate.
	Validate bool
	// WorkerSaturation is how many root tasks per thread a worker gets before the others are queued on the
	// scheduler. 0 means the default, 1.1; +Inf switches the queue off.
	// Dask key distributed.scheduler.worker-saturation, DASK_DISTRIBUTED__SCHEDULER__WORKER_SATURATION.
	WorkerSaturation float64
	// AllowedFailures is how many workers may die while they process a task before the task is erred
	// (KilledWorker). 0 means the default, 3; negative means none.
	// Dask key distributed.scheduler.allowed-failures.
	AllowedFailures int
	// NoWorkersTimeout errs tasks that no worker could take for so long; 0 means never (Dask's default).
	// Dask key distributed.scheduler.no-workers-timeout.
	NoWorkersTimeout time.Duration
	// UnknownTaskDuration is the guess for tasks of a prefix that has never run. 0 means the default, 500 ms.
	// Dask key distributed.scheduler.unknown-task-duration.
	UnknownTaskDuration time.Duration
	// DefaultTaskDurations are guesses per prefix. Dask key distributed.scheduler.default-task-durations.
	DefaultTaskDurations map[string]time.Duration
	// Bandwidth is the guess of what a transfer between workers reaches, in bytes per second. 0 means the
	// default, 100 MB/s. Dask key distributed.scheduler.bandwidth.
	Bandwidth float64
	// DefaultDataSize is the guess for results whose size is unknown, in bytes. 0 means the default, 1 kB.
	// Dask key distributed.scheduler.default-data-size.
	DefaultDataSize int64
	// NoStealing switches work stealing off. Dask key distributed.scheduler.work-stealing (default true).
	NoStealing bool
	// StealInterval is the least time between two balancing rounds, which a Tick starts. 0 means the default,
	// 100 ms. Dask key distributed.scheduler.work-stealing-interval.
	StealInterval time.Duration
	// RootishGroups and RootishTasks bound what a root-ish task's group may depend on: fewer than so many
	// groups, that hold fewer than so many tasks. 0 means the default, 5 and 5.
	// Dask keys distributed.scheduler.rootish-taskgroup and rootish-taskgroup-dependencies.
	RootishGroups, RootishTasks int
	// MemoryTerminate errs a task whose inputs exceed the memory limit of its worker. Dask does so unless
	// distributed.worker.memory.terminate is false.
	MemoryTerminate bool
	// TransitionLog is how many transitions the log keeps for stories. 0 means the default, 10,000 (Dask keeps
	// 100,000; one takes 40 bytes here and keeps the key's name alive); negative switches the log off.
	// Dask key distributed.admin.low-level-log-length.
	TransitionLog int
	// MaxReplicateTime ends a Replicate, Rebalance or RetireWorkers request whose copies do not come. 0 means
	// the default, 5 minutes.
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
