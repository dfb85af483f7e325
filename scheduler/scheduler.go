package scheduler

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/descriptors"
	_ "go.millstream.dev/internal/comm/tcp" // tcp:// and tls://
	"go.millstream.dev/internal/dashboard/spans"
	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/clients"
	"go.millstream.dev/scheduler/internal/control"
	"go.millstream.dev/scheduler/internal/data"
	"go.millstream.dev/scheduler/internal/feed"
	"go.millstream.dev/scheduler/internal/gateway"
	"go.millstream.dev/scheduler/internal/graphs"
	"go.millstream.dev/scheduler/internal/helpers"
	"go.millstream.dev/scheduler/internal/history"
	"go.millstream.dev/scheduler/internal/hooks"
	"go.millstream.dev/scheduler/internal/inspect"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/memory"
	"go.millstream.dev/scheduler/internal/messages"
	"go.millstream.dev/scheduler/internal/peers"
	"go.millstream.dev/scheduler/internal/plugins"
	"go.millstream.dev/scheduler/internal/primitives"
	"go.millstream.dev/scheduler/internal/profiles"
	"go.millstream.dev/scheduler/internal/progress"
	"go.millstream.dev/scheduler/internal/recovery"
	"go.millstream.dev/scheduler/internal/shortage"
	"go.millstream.dev/scheduler/internal/shuffle"
	"go.millstream.dev/scheduler/internal/topics"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/scheduler/internal/versions"
	"go.millstream.dev/scheduler/internal/workers"
	"go.millstream.dev/secure"
)

// Scheduler assigns tasks to workers and tracks their results. New returns one; all methods may be called from any
// goroutine.
//
// It consists of the loop, the connections between the subsystems (see connect) and the dispatch of stream messages.
// State that is not guarded by a lock is accessed in the loop only: the state machine, and the state of the subsystems.
// Each piece of state has one owner, the type whose field it is; others call its methods.
type Scheduler struct {
	cfg     Config
	id      string
	log     *slog.Logger
	lines   *history.LogLines
	server  *rpc.Server
	pool    *rpc.Pool
	started time.Time

	listeners []comm.Listener // set by Start
	inside    comm.Listener   // of the process itself, for its HTTP server and Python functions
	contact   string          // set by Start
	inspect   *inspect.Inspector
	profiles  *profiles.Profiles
	journal   *recovery.Log
	serving   sync.WaitGroup
	helpers   *helpers.Helpers
	spans     *spans.Store     // history of the dashboard, set by Start; nil without one
	gateway   *gateway.Service // set by Start; nil unless dask-gateway has started the scheduler

	loop   *loop.Runner[post]
	opened chan struct{}   // closed when Start has set its fields
	ctx    context.Context // of background work of the scheduler
	cancel context.CancelFunc

	life struct {
		sync.Mutex
		begun, closing bool
		err            error
		reason         string
	}
	done chan struct{} // closed when the scheduler is closed

	opener *graphs.Opener

	// The loop owns the fields below.

	ready   bool // the journal, if any, has been read
	state   *state.State
	actions state.Actions
	writer  *messages.Writer

	workers      *workers.Workers
	clients      *clients.Clients
	versions     *versions.Versions
	ops          *dispatcher
	removed      map[string]time.Time
	nannies      map[string]bool
	relay        *data.Relay
	requests     *data.Requests
	data         *data.Data
	control      *control.Control
	memory       *memory.Memory
	watchers     map[*watcher]bool
	short        *shortage.Shortages
	shuffles     *shuffle.Shuffles
	feeds        *progress.Feeds
	collectors   *history.Collectors
	computations history.Computations

	streams *peers.Streams
	metrics *ownMetrics
	topics  *topics.Topics
	plugins *plugins.Plugins
	hooks   *hooks.Hooks // scheduler plugins
	prims   *primitives.Primitives
	budget  primitives.Budget
	// tasksKnown is fired when tasks are added, workersChanged when a worker is added, removed or changed.
	tasksKnown, workersChanged loop.Signal

	stream   *history.TaskStream
	transfer *history.Transfers
	feed     *feed.Feed // of the dashboard; nil without one
	totals   inspect.Totals
	idle     idleWatch
	recovery *recovery.Recovery
	ending   bool // the scheduler closes; peers disconnect because of that
}

// New returns a scheduler. Start starts it.
func New(cfg Config) *Scheduler {
	cfg = cfg.withDefaults()
	ring := history.NewLogHandler(cfg.Logger.Handler())
	cfg.Logger = slog.New(ring)
	s := &Scheduler{
		cfg: cfg, id: cfg.ID, log: cfg.Logger, lines: ring.Lines,
		opened: make(chan struct{}), done: make(chan struct{}),
		removed: map[string]time.Time{}, nannies: map[string]bool{},
		watchers: map[*watcher]bool{},
	}
	if s.id == "" {
		var b [16]byte
		_, _ = rand.Read(b[:])
		s.id = "Scheduler-" + hex.EncodeToString(b[:])
	}
	s.ops = &dispatcher{s: s}
	s.loop = loop.New(loop.Config[post]{
		Handle: s.ops.handle, Drop: func(p *post) { p.msg.Release() }, Flush: func() { s.streams.Flush() },
		Tick: s.tick, Interval: s.tickInterval(),
		TickPanicked: func(err *rpc.PanicError) {
			s.log.Error("tick panicked", "panic", err, "stack", string(err.Stack))
		},
		// A panic of the loop may leave the state broken. The scheduler closes; the process continues and Done is
		// closed.
		Panicked: s.closePanicked,
		Closed:   func() error { return fmt.Errorf("scheduler %s: %w", s.id, rpc.ErrClosed) },
	})
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.stream, s.transfer = history.NewTaskStream(s.loop, cfg.TaskStream), history.NewTransfers(s.loop, cfg.Transfers)
	s.collectors = history.NewCollectors(s.loop, s.apply)
	s.pool = rpc.NewPool(cfg.Network, rpc.PoolConfig{Dial: cfg.Dial.To(secure.Worker)})
	s.server = rpc.NewServer(rpc.Config{
		Type: "Scheduler", ID: s.id, Blocked: cfg.Blocked, Logger: cfg.Logger, Authorize: roles.Authorize,
		Waiting: waitingOps, Detached: detachedOps,
		// Values stay serialized, and pickled data is never inspected.
		Decode: val.KeepClosed,
	})
	s.journal = recovery.NewLog(s.log, s.journalFailed)
	s.streams = peers.NewStreams(s.loop, s.log, s.journal, cfg.Outgoing, cfg.OutgoingTotal)
	s.metrics = newMetrics(s.loop.Len, s.streams.Backlog.Bytes, func() uint64 { return s.hooks.Dropped() })
	s.state = state.New(s.stateConfig(0))
	s.writer = messages.New(s.log, s.state, cfg.NoWorkersTimeout, cfg.AllowedFailures)
	s.connect()
	s.handlers()
	return s
}

// Start reads the journal, if any, listens and serves. It returns when peers can connect. ctx bounds the start only.
func (s *Scheduler) Start(ctx context.Context) (err error) {
	s.life.Lock()
	again := s.life.begun || s.life.closing
	s.life.begun = true
	s.life.Unlock()
	if again {
		return fmt.Errorf("scheduler %s: already started", s.id)
	}
	s.started = time.Now()
	defer func() {
		close(s.opened)
		if err != nil {
			s.setErr(err)
			_ = s.Close()
		}
	}()
	go s.loop.Run()
	if err := s.loop.Do(ctx, func() { err = s.open() }); err != nil {
		return err
	}
	if err != nil {
		return err
	}
	listen := s.cfg.ListenConfig
	if listen.Refused == nil {
		listen.Refused = func(peer string, err error) {
			s.log.Warn("connection rejected: handshake failed", "peer", peer, "error", err)
		}
	}
	if listen.Failed == nil {
		listen.Failed = func(err error) {
			s.log.Error("cannot accept connections", "error", err, "fix", descriptors.Advice)
		}
	}
	for _, address := range s.cfg.Listen {
		l, err := s.cfg.Network.Listen(ctx, address, listen)
		if err != nil {
			return fmt.Errorf("scheduler: listen on %s: %w", address, err)
		}
		s.listeners = append(s.listeners, l)
	}
	s.contact = s.listeners[0].ContactAddr()
	if s.cfg.Contact != "" {
		s.contact = s.cfg.Contact
	}
	if err := s.listenInside(ctx); err != nil {
		return err
	}
	if s.cfg.Dashboard != "" {
		if err := s.openHistory(ctx); err != nil {
			return err
		}
		if err := s.inspect.Serve(s.cfg.Dashboard); err != nil {
			return err
		}
	}
	if err := s.hooks.Preload(ctx); err != nil {
		return fmt.Errorf("scheduler: preload: %w", err)
	}
	if err := (gatewayHost{s}).start(ctx); err != nil {
		return err
	}
	s.serving.Go(func() { s.profiles.Own.Run(s.ctx.Done()) })
	for _, l := range s.listeners {
		s.serving.Go(func() { _ = s.server.Serve(s.ctx, l) })
		s.log.Debug("scheduler listening", "address", l.ContactAddr()) // the command prints the address
	}
	return nil
}

// Start creates a scheduler and starts it.
func Start(ctx context.Context, cfg Config) (*Scheduler, error) {
	s := New(cfg)
	if err := s.Start(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// open reads the journal, if any. It runs in the loop.
func (s *Scheduler) open() error {
	if s.cfg.Journal != "" {
		if err := s.recovery.Open(); err != nil {
			return err
		}
		for _, c := range s.clients.ByName {
			if !c.Part {
				c.AwayFrom = s.loop.Now()
			}
		}
		if s.state.NumTasks() > 0 || len(s.clients.ByName) > 0 {
			s.log.Info("journal read", "tasks", s.state.NumTasks(), "clients", len(s.clients.ByName),
				"workers", s.recovery.Missing(), "epoch", s.journal.Epoch())
		}
		s.recovery.Begin()
	}
	s.budget.SetLimit(s.cfg.PrimitiveBytes)
	s.ready = true
	return nil
}

func (s *Scheduler) stateConfig(epoch uint32) state.Config {
	c := s.cfg
	return state.Config{
		Epoch: epoch, Validate: c.Validate, WorkerSaturation: c.Saturation, AllowedFailures: c.AllowedFailures,
		NoWorkersTimeout: c.NoWorkersTimeout, UnknownTaskDuration: c.TaskDuration,
		DefaultTaskDurations: c.TaskDurations,
		Bandwidth:            c.Bandwidth, DefaultDataSize: c.DataSize, NoStealing: c.NoStealing,
		StealInterval: c.StealingInterval,
		TransitionLog: c.LogLength,
		RootishGroups: c.RootishGroups, RootishTasks: c.RootishTasks,
		SenderMin: c.RebalanceSenderMin, RecipientMax: c.RebalanceRecipientMax,
	}
}

// Address returns the contact address of the scheduler, such as tcp://10.0.0.1:8786.
func (s *Scheduler) Address() string { return s.contact }

// Addresses returns the contact addresses of all listeners.
func (s *Scheduler) Addresses() []string {
	out := make([]string, len(s.listeners))
	for i, l := range s.listeners {
		out[i] = l.ContactAddr()
	}
	return out
}

// ID returns the ID of the scheduler.
func (s *Scheduler) ID() string { return s.id }

// Identity returns the answer to identity, in the form of Dask's scheduler files.
func (s *Scheduler) Identity() msgpack.Map {
	m, _ := loop.Ask(context.Background(), s.loop, func() (msgpack.Map, error) { return s.inspect.Identity(-1), nil })
	return m
}

// Done returns a channel that is closed when the scheduler has closed: by Close, by a client's terminate, by the idle
// timeout or by an internal error. Err returns the last.
func (s *Scheduler) Done() <-chan struct{} { return s.done }

// Err returns the internal error that closed the scheduler; nil while it runs and after Close.
func (s *Scheduler) Err() error {
	s.life.Lock()
	defer s.life.Unlock()
	return s.life.err
}

// Open ends Config.Closed: workers of other programs may join afterwards.
func (s *Scheduler) Open() {
	_ = s.loop.Do(s.ctx, s.short.Open) // a closed scheduler has no tasks to fail
}

// ReportDeath records why the process of a worker ended, such as an exit code or a memory limit, for errors of tasks
// and the log. Nannies call it. It does not remove the worker, which happens when its connection is lost. token
// identifies the process (worker.Config.DeathToken); an unknown token is ignored.
func (s *Scheduler) ReportDeath(ctx context.Context, token, cause string) error {
	return s.workers.ReportDeath(ctx, token, cause)
}

// serve reads a stream until it closes.
func (s *Scheduler) serve(ctx context.Context, st *peers.Stream) {
	s.workers.StreamEnded(st, (&reader{s: s, st: st}).read(ctx))
}

func (s *Scheduler) setErr(err error) {
	s.life.Lock()
	defer s.life.Unlock()
	if s.life.err == nil {
		s.life.err = err
	}
}

func (s *Scheduler) closePanicked(v any) {
	err := fmt.Errorf("scheduler %s: internal error: panic: %v", s.id, v)
	trace := stack()
	if p, ok := v.(*rpc.PanicError); ok {
		trace = string(p.Stack)
	}
	s.log.Error("scheduler panicked; closing", "panic", v, "stack", trace)
	s.setErr(err)
	go func() { _ = s.Close() }()
}

// DashboardAddress returns the host:port at which a browser reaches the HTTP server; "" without one.
func (s *Scheduler) DashboardAddress() string {
	return s.inspect.Address()
}
