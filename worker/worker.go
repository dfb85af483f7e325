package worker

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/closed"
	"go.millstream.dev/internal/comm/commaddr"
	"go.millstream.dev/internal/comm/descriptors"
	"go.millstream.dev/internal/comm/peermem"
	"go.millstream.dev/internal/comm/peernet"
	_ "go.millstream.dev/internal/comm/tcp" // tcp:// and tls://
	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/internal/proc/hostid"
	"go.millstream.dev/internal/proc/ratelog"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/worker/internal/execution"
	"go.millstream.dev/worker/internal/logs"
	"go.millstream.dev/worker/internal/memory"
	"go.millstream.dev/worker/internal/metrics"
	"go.millstream.dev/worker/internal/monitor"
	"go.millstream.dev/worker/internal/registration"
	"go.millstream.dev/worker/internal/sidecar"
	"go.millstream.dev/worker/internal/stream"
	"go.millstream.dev/worker/internal/transfer"
)

// Reasons for the end of a worker, found by errors.Is in Err.
var (
	// ErrClosed is returned by operations on a closed Worker. It matches net.ErrClosed with errors.Is.
	ErrClosed = closed.New("worker: worker is closed")
	// ErrSchedulerClosed is returned by Err when the scheduler closed the worker.
	ErrSchedulerClosed = errors.New("worker: closed by the scheduler")
	// ErrRestart is returned by Err when the scheduler closed the worker and requested a replacement.
	ErrRestart = errors.New("worker: restart requested by the scheduler")
	// ErrSchedulerLost is returned by Err when the connection to the scheduler was lost and could not be restored.
	ErrSchedulerLost = registration.ErrLost
	// ErrRefused is returned by Start and Err when the scheduler rejected the registration.
	ErrRefused = registration.ErrRefused
	// ErrMemory is returned by Err when the process exceeded Memory.Terminate.
	ErrMemory = errors.New("worker: the process exceeded its memory limit")
)

// Dask's names of a worker's status.
const (
	statusInit     = "init"
	statusRunning  = "running"
	statusPaused   = "paused"
	statusRetiring = "closing_gracefully"
	statusClosing  = "closing"
	statusClosed   = "closed"
)

// status holds a status. Any goroutine may use it.
type status struct{ atomic.Value }

// set changes the status, unless the worker is closing or closed.
func (s *status) set(name string) {
	for {
		old := s.Load()
		if old == statusClosing || old == statusClosed || s.CompareAndSwap(old, name) {
			return
		}
	}
}

// Worker is a running worker. Any goroutine may use it.
type Worker struct {
	cfg Config
	id  string
	// incarnation is a secret that identifies this process to the scheduler: its holder may announce results and retire
	// the worker.
	incarnation string
	name        any // as it is sent: a string, or a number
	address     string
	log         *slog.Logger
	logs        *Logs // returned by get_logs
	host        task.Host
	connections peernet.Peers // of host; set before the server starts

	// Subsystems, each with its own state.
	memory    *memory.Manager
	data      *store.Store // of memory
	sidecar   *sidecar.Sidecar
	exec      *execution.Pool
	transfers *transfer.Manager
	table     peermem.Table // of results in GPU memory
	gpu       *monitor.GPU  // nil without one
	moved     *metrics.Transfers
	usage     *monitor.Monitor
	http      *metrics.Server
	server    *rpc.Server
	scheduler *registration.Client
	refused   ratelog.Limiter

	noPython   error          // why there is no sidecar; nil with one
	pyVersions map[string]any // of the sidecar's packages
	status     status

	inbox *inbox
	// turn guards the fields below; see loop.go.
	turn         sync.Mutex
	state        *state.State
	actions      state.Actions
	in           stream.Reader
	out          stream.Messages
	items        []item
	session      *registration.Session // nil without a scheduler
	now          time.Time
	turns        int64
	stimulus     string
	stimulusText []byte
	urgent       bool // the messages of the turn are sent at once
	// paused and retiring are the reasons why no task is started.
	paused, retiring bool

	tasks    sync.WaitGroup  // every goroutine of the worker
	ctx      context.Context // of everything but tasks
	cancel   context.CancelCauseFunc
	taskCtx  context.Context // of tasks
	stopTask context.CancelCauseFunc
	stopped  chan struct{} // closed when no more turns begin
	ending   sync.Once
	closing  atomic.Bool   // the worker ends its own session
	done     chan struct{} // closed when everything is freed
	err      error         // the reason; set before done is closed
}

// Start starts a worker and returns when the scheduler has registered it. ctx bounds the start only.
func Start(ctx context.Context, cfg Config) (*Worker, error) {
	cfg, err := cfg.check()
	if err != nil {
		return nil, err
	}
	w := &Worker{
		cfg: cfg, inbox: newInbox(), stopped: make(chan struct{}), done: make(chan struct{}),
	}
	w.id, w.incarnation = "Worker-"+randomText(), randomText()
	w.status.Store(statusInit)
	if w.logs = cfg.Logs; w.logs == nil {
		w.logs = NewLogs()
	}
	w.log = slog.New(logs.NewHandler(cfg.Logger.Handler(), w.logs.records))
	w.ctx, w.cancel = context.WithCancelCause(context.Background())
	w.taskCtx, w.stopTask = context.WithCancelCause(context.Background())
	if err := w.start(ctx); err != nil {
		w.shutDown(err)
		<-w.done
		return nil, err
	}
	return w, nil
}

func randomText() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func (w *Worker) start(ctx context.Context) error {
	var err error
	if w.memory, err = memory.New(w.memoryConfig()); err != nil {
		return err
	}
	w.data = w.memory.Store()
	w.findPython(ctx)
	id := monitor.OwnGPU()
	if w.cfg.GPU != nil {
		id = w.cfg.GPU.UUID
	}
	w.gpu = monitor.NewGPU(id, w.log)
	w.usage = monitor.New(w.memory.Usage, w.gpu)
	w.scheduler = registration.New(w.registrationConfig())
	w.exec = execution.New(w.executionConfig())
	w.transfers = transfer.New(w.transferConfig())
	w.server = w.newServer()
	w.connections.Network, w.connections.Dial = w.cfg.Network, w.cfg.Dial
	listener, err := w.cfg.listen(ctx, w.logRejections(w.cfg.Accept))
	if err != nil {
		return err
	}
	w.address = listener.ContactAddr()
	if w.cfg.Contact != "" {
		w.address = w.cfg.Contact
	}
	w.name = nameValue(w.cfg.Name, w.address)
	w.tasks.Go(func() { _ = w.server.Serve(w.ctx, listener) })
	if err := w.transfers.Listen(ctx, w.address); err != nil {
		return err
	}
	if w.cfg.Dashboard != "" {
		if w.http, err = w.listenHTTP(); err != nil {
			return err
		}
	}
	w.host = task.Host{Scheduler: w.cfg.Scheduler, Worker: w.address, Name: fmt.Sprint(w.name), Peers: &w.connections,
		Resolve: resolver(w.data), DataConnections: w.transfers.Address() != "",
		Trusted: w.cfg.DataConnections.Trusted, Boot: hostid.Boot(), Device: w.cfg.GPU}
	w.state = state.New(w.cfg.state(w.address))
	w.exec.Start()
	w.tasks.Go(func() { w.exec.Profile().Run(w.stopped) })
	w.tasks.Go(w.loop)
	s, err := w.scheduler.Connect(ctx)
	if err != nil {
		return err
	}
	w.attach(s, true)
	w.tasks.Go(func() { w.supervise(s) })
	w.tasks.Go(w.scheduler.SendHeartbeats)
	w.tasks.Go(w.housekeep)
	if w.sidecar != nil {
		w.tasks.Go(w.sidecar.Sweep)
		if len(w.cfg.Python.Preload) > 0 {
			w.tasks.Go(func() { w.sidecar.Warm(w.ctx) })
		}
	}
	w.tasks.Go(func() { w.memory.Watch(w.ctx) })
	if w.cfg.Lifetime > 0 {
		w.tasks.Go(func() {
			t := time.NewTimer(w.cfg.Lifetime)
			defer t.Stop()
			select {
			case <-t.C:
				w.retireAsync()
			case <-w.ctx.Done():
			}
		})
	}
	w.log.Info("worker started", "address", w.address, "name", w.name, "threads", w.cfg.Threads, "memory",
		w.cfg.MemoryLimit, "scheduler", w.cfg.Scheduler, "data_address", w.transfers.Address())
	return nil
}

// check sets defaults and rejects invalid values.
func (c Config) check() (Config, error) {
	if c.Scheduler == "" {
		return c, errors.New("worker: Config.Scheduler is empty: set the address of a scheduler, such as " +
			"tcp://10.0.0.1:8786")
	}
	c.Scheduler = commaddr.Normalize(c.Scheduler)
	def := func(v *int, d int) {
		if *v <= 0 {
			*v = d
		}
	}
	if c.Threads < 0 {
		return c, fmt.Errorf("worker: Config.Threads is %d: use a positive number, or 0 for the default", c.Threads)
	}
	def(&c.Threads, runtime.NumCPU())
	def(&c.Incoming, 10)
	def(&c.Outgoing, 50)
	def(&c.Records, 10_000)
	if c.AckTimeout <= 0 {
		c.AckTimeout = time.Minute
	}
	if c.CancelGrace == 0 {
		c.CancelGrace = 5 * time.Second
	}
	if c.MessageBytes <= 0 {
		c.MessageBytes = 50_000_000
	}
	if c.MemoryLimit < 0 {
		return c, fmt.Errorf("worker: Config.MemoryLimit is %d: use bytes, or 0 for no limit", c.MemoryLimit)
	}
	for name, amount := range c.Resources {
		if !(amount >= 0 && amount < 1e300) {
			return c, fmt.Errorf("worker: resource %s is %v: use a non-negative amount", name, amount)
		}
	}
	c.Resources = addGoResource(c.Resources, c.Threads)
	c.Memory = Memory(memory.Fractions(c.Memory).WithDefaults())
	c.Python = c.Python.withDefaults()
	if c.Network == nil {
		c.Network = comm.Default
	}
	if c.Device != nil && c.Device.Memory != nil {
		if c.Dial.Device == nil {
			c.Dial.Device = c.Device.Memory
		}
		if c.Accept.Device == nil {
			c.Accept.Device = c.Device.Memory
		}
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	return c, nil
}

// state returns the configuration of the state machine of a worker with the given address.
func (c *Config) state(address string) state.Config {
	cfg := state.Config{Address: address, Threads: c.Threads, IncomingCount: c.Incoming, MessageBytes: c.MessageBytes,
		Validate: c.Validate}
	for name, amount := range c.Resources {
		cfg.Resources = append(cfg.Resources, state.Resource{Name: name, Amount: amount})
	}
	if f := c.Memory.Transfer; f > 0 && c.MemoryLimit > 0 {
		cfg.IncomingBytes = int64(f * float64(c.MemoryLimit))
	}
	return cfg
}

// listen listens on the address of the worker.
func (c *Config) listen(ctx context.Context, accept comm.ListenConfig) (comm.Listener, error) {
	address := c.Listen
	if address == "" {
		local, err := comm.LocalAddressFor(ctx, c.Scheduler)
		if err != nil {
			return nil, fmt.Errorf("worker: no address to listen on for a scheduler at %s: %w", c.Scheduler, err)
		}
		address = local
	}
	l, err := c.Network.Listen(ctx, address, accept)
	if err != nil {
		return nil, fmt.Errorf("worker: %w", err)
	}
	return l, nil
}

// logRejections makes a listener log rejected peers and failures to accept.
func (w *Worker) logRejections(cfg comm.ListenConfig) comm.ListenConfig {
	if cfg.Refused == nil {
		cfg.Refused = func(peer string, err error) {
			w.refused.Warn(w.log, "connection refused", "peer", peer, "error", err)
		}
	}
	if cfg.Failed == nil {
		cfg.Failed = func(err error) {
			w.log.Error("cannot accept connections", "error", err, "fix", descriptors.Advice)
		}
	}
	return cfg
}

func (w *Worker) memoryConfig() memory.Config {
	return memory.Config{Logger: w.log, Limit: w.cfg.MemoryLimit, Fractions: memory.Fractions(w.cfg.Memory),
		OwnProcess: w.cfg.OwnProcess, Directory: w.cfg.LocalDirectory, Device: w.cfg.publishing(&w.table),
		Records:   w.cfg.Records,
		SetPaused: w.setPaused,
		Exceeded: func(used int64) {
			w.shutDownAsync(fmt.Errorf("%w: %d MiB in use, limit %d MiB (distributed.worker.memory.terminate %.0f%%)",
				ErrMemory,
				used>>20, w.cfg.MemoryLimit>>20, 100*w.cfg.Memory.Terminate))
		},
	}
}

// Address returns the address under which other processes reach the worker.
func (w *Worker) Address() string { return w.address }

// Name returns the name of the worker.
func (w *Worker) Name() string { return fmt.Sprint(w.name) }

// ID returns the unique ID of the server.
func (w *Worker) ID() string { return w.id }

// DataAddresses returns the addresses on which the worker accepts data connections.
func (w *Worker) DataAddresses() []string {
	if address := w.transfers.Address(); address != "" {
		return []string{address}
	}
	return nil
}

// Dashboard returns the host:port of the HTTP server; "" without one.
func (w *Worker) Dashboard() string {
	if w.http == nil {
		return ""
	}
	return w.http.Address
}

// Status returns Dask's name of the status: init, running, paused, closing_gracefully, closing or closed.
func (w *Worker) Status() string { return w.status.Load().(string) }

// Done returns a channel that is closed when the worker has closed and freed everything.
func (w *Worker) Done() <-chan struct{} { return w.done }

// Err returns why the worker has closed; nil while it is running.
func (w *Worker) Err() error {
	select {
	case <-w.done:
		return w.err
	default:
		return nil
	}
}

// resolver returns a function with which tasks get results of a store.
func resolver(data *store.Store) func(task.Key) (*task.Value, bool) {
	return func(k task.Key) (*task.Value, bool) {
		e := data.Hold(k)
		if e == nil {
			return nil, false
		}
		defer data.Release(e)
		v, err := e.Open()
		if err != nil {
			return nil, false
		}
		shared, err := v.Share() // outlives the entry
		return shared, err == nil
	}
}
