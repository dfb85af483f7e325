package cluster

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// State is the state of a worker.
type State string

// The states of a worker.
const (
	Starting   State = "starting"   // its process is started, and not registered yet
	Running    State = "running"    // registered with the scheduler
	Restarting State = "restarting" // its process has ended, and a new one will be started
	Closed     State = "closed"     // ended, and not replaced
	Failed     State = "failed"     // ended, and the nanny has given up
)

// WorkerInfo describes one worker of a cluster.
type WorkerInfo struct {
	// Name is the name of the worker.
	Name string
	// State is the state of the worker.
	State State
	// Address is the address of the worker at the scheduler, "" before it has registered.
	Address string
	// DataAddresses are the addresses on which the worker accepts data connections.
	DataAddresses []string
	// HTTP is the host:port of its HTTP server, "" if there is none.
	HTTP string
	// PID is the process ID; of this process for a worker in a goroutine.
	PID int
	// Starts is the number of started processes: 1 until one has ended.
	Starts int
}

// NannyConfig configures how a worker process is supervised. Its zero value is useful.
type NannyConfig struct {
	// Stdout and Stderr receive the output of the process, in whole lines that begin with "worker NAME: " (default:
	// standard output and error of this process). Several nannies may share a SharedWriter.
	Stdout, Stderr io.Writer
	// RawOutput omits the prefix of lines, for programs that print lines of JSON.
	RawOutput bool
	// WorkerLogger receives the log records of the process: those of the worker, from the level of WorkerSpec.Log on,
	// and those that tasks write with package slog, from level INFO on. They have the attribute worker, and the
	// attribute key if they were logged with the context of a task (default: Logger).
	WorkerLogger *slog.Logger
	// Env are additional environment variables of the process, NAME=value.
	Env []string
	// MaxFailures is how many consecutive processes may end before they have been registered for a second, until the
	// nanny gives up (default 10, negative: unlimited). Until a process has been registered for the first time the
	// limit is at most 3.
	MaxFailures int
	// StartTimeout is how long a process may take to register (default 60 s, negative: unlimited; the worker's
	// DeathTimeout, if set, replaces it).
	StartTimeout time.Duration
	// Terminate is the fraction of the worker's memory limit above which its process is killed and replaced (default
	// 0.95, negative: never; distributed.worker.memory.terminate). The worker checks its memory as well; the nanny does
	// so even if the worker is too busy.
	Terminate float64
	// Interval is the time between two checks of the memory (default 100 ms;
	// distributed.worker.memory.monitor-interval).
	Interval time.Duration
	// Logger receives changes of the state of the worker (default slog.Default).
	Logger *slog.Logger
	// Listen is the address on which the nanny serves the scheduler, such as tls://10.0.0.1:0; "" means none. With an
	// address, Dask's Client.restart starts a new process in place of the worker; without, it ends the worker
	// permanently.
	Listen string
	// Preload are Python modules, paths of .py files or URLs that a Python process of the nanny runs before the worker
	// is started (distributed.nanny.preload; --preload-nanny). PreloadArgv are the arguments of a dask_setup that is a
	// click command. They need Listen and WorkerSpec.Python.
	Preload, PreloadArgv []string
	// Changed, if not nil, is called after each change of the state of the worker, one call at a time. It must not
	// block.
	Changed func(WorkerInfo)

	role   string        // role of the process; tests set others
	stable time.Duration // time after which a registered process is not a failure
	pause  time.Duration // before the second attempt; doubles each time
	// sendDeath reports to the scheduler how a registered process ended (default: over a connection).
	sendDeath func(ctx context.Context, token, cause string) error
}

func (c NannyConfig) withDefaults() NannyConfig {
	if c.Stdout == nil {
		c.Stdout = os.Stdout
	}
	if c.Stderr == nil {
		c.Stderr = os.Stderr
	}
	if c.MaxFailures == 0 {
		c.MaxFailures = 10
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = time.Minute
	}
	if c.Terminate == 0 {
		c.Terminate = 0.95
	}
	if c.Interval <= 0 {
		c.Interval = 100 * time.Millisecond
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.WorkerLogger == nil {
		c.WorkerLogger = c.Logger
	}
	if c.role == "" {
		c.role = roleWorker
	}
	if c.stable == 0 {
		c.stable = time.Second
	}
	if c.pause == 0 {
		c.pause = 100 * time.Millisecond
	}
	return c
}

// Nanny supervises one worker process: it starts the process, replaces it after a crash, with exponential backoff in a
// crash loop, and shuts it down. Processes that end on purpose, because the scheduler has closed or retired the worker,
// are not replaced.
//
// The goroutine of run owns the process and its state; info is a copy for other goroutines.
type Nanny struct {
	spec WorkerSpec
	cfg  NannyConfig

	stop chan string   // the first order: "close" or "retire"
	kill chan struct{} // closed when the process must be killed
	done chan struct{}
	// redo receives orders to replace the process; the channel in the order is closed when the old process has ended.
	redo  chan chan struct{}
	final atomic.Bool // the process is not replaced

	server *nannyServer // nil without Listen

	stopOnce, killOnce sync.Once

	mu      sync.Mutex
	info    WorkerInfo
	err     error
	changed chan struct{} // closed and replaced at each change of info
	history []outputLine  // last lines of output of its processes

	printing sync.Mutex // held for each line of output
}

// StartNanny starts a worker process and supervises it until Close. It does not wait for the worker: see Ready.
func StartNanny(spec WorkerSpec, cfg NannyConfig) (*Nanny, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	if !mainCalled.Load() {
		return nil, ErrNoMain
	}
	if len(cfg.Preload) > 0 && (cfg.Listen == "" || !spec.Python) {
		return nil, fmt.Errorf("cluster: preload %s of a nanny needs Listen and Python", cfg.Preload[0])
	}
	n := &Nanny{
		spec: spec, cfg: cfg.withDefaults(),
		stop: make(chan string, 1), kill: make(chan struct{}), done: make(chan struct{}),
		redo: make(chan chan struct{}),
		info: WorkerInfo{Name: spec.Name, State: Starting}, changed: make(chan struct{}),
	}
	if spec.Name != "" {
		n.cfg.Logger = n.cfg.Logger.With("worker", spec.Name)
	}
	if n.cfg.sendDeath == nil {
		var err error
		if n.cfg.sendDeath, err = n.reportOver(); err != nil {
			return nil, err
		}
	}
	if n.cfg.Listen != "" {
		if err := n.serve(); err != nil {
			return nil, err
		}
	}
	go n.run()
	return n, nil
}

// Info returns the current state of the worker.
func (n *Nanny) Info() WorkerInfo {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.info
}

// Done returns a channel that is closed when the worker has ended and is not replaced; Err returns the cause.
func (n *Nanny) Done() <-chan struct{} { return n.done }

// Err returns why the nanny has given up; nil while it runs, after Close and after the worker has ended on purpose.
func (n *Nanny) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// title returns the name of the worker for errors.
func (n *Nanny) title() string {
	if n.spec.Name == "" {
		return "worker"
	}
	return "worker " + n.spec.Name
}

// Ready waits until the worker is registered with its scheduler. It returns an error if the nanny gives up or is closed
// before.
func (n *Nanny) Ready(ctx context.Context) error {
	for {
		n.mu.Lock()
		state, err, changed := n.info.State, n.err, n.changed
		n.mu.Unlock()
		switch state {
		case Running:
			return nil
		case Closed, Failed:
			if err == nil {
				err = fmt.Errorf("cluster: %s closed before it was ready", n.title())
			}
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("cluster: %s is %s: %w", n.title(), state, context.Cause(ctx))
		}
	}
}

// Close is Shutdown with a timeout of ten seconds. It may be called more than once.
func (n *Nanny) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), defaultCloseTimeout)
	defer cancel()
	return n.Shutdown(ctx)
}

// Shutdown shuts the worker process down, and kills it if ctx ends first. It returns when the process has ended.
func (n *Nanny) Shutdown(ctx context.Context) error { return n.end(ctx, "close") }

// Retire is Shutdown after the worker has moved its data to other workers.
func (n *Nanny) Retire(ctx context.Context) error { return n.end(ctx, "retire") }

func (n *Nanny) end(ctx context.Context, op string) error {
	n.stopOnce.Do(func() { n.stop <- op })
	select {
	case <-n.done:
	case <-ctx.Done():
		n.killOnce.Do(func() { close(n.kill) })
		<-n.done
	}
	return nil
}

// update changes the copy of the state and notifies its readers.
func (n *Nanny) update(f func(*WorkerInfo)) {
	n.mu.Lock()
	f(&n.info)
	info := n.info
	close(n.changed)
	n.changed = make(chan struct{})
	n.mu.Unlock()
	if n.cfg.Changed != nil {
		n.cfg.Changed(info)
	}
}

// finish ends the nanny; run calls it last.
func (n *Nanny) finish(err error) {
	n.server.close()
	n.mu.Lock()
	n.err = err
	n.mu.Unlock()
	n.update(func(i *WorkerInfo) {
		i.State, i.PID, i.Address, i.DataAddresses = Closed, 0, "", nil
		if err != nil {
			i.State = Failed
		}
	})
	close(n.done)
}
