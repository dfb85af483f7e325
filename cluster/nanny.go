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

// State is where a worker is in its life.
type State string

// The states of a worker that is looked after.
const (
	Starting   State = "starting"   // its process runs, or is about to; it is not registered yet
	Running    State = "running"    // registered with the scheduler
	Restarting State = "restarting" // its process has died, another one is started after a pause
	Closed     State = "closed"     // ended, and no other is started
	Failed     State = "failed"     // given up
)

// WorkerInfo describes one worker of a cluster.
type WorkerInfo struct {
	// Name is the worker's.
	Name string
	// State is where it is in its life.
	State State
	// Address is how the scheduler knows it, "" before it has registered.
	Address string
	// DataAddresses are the addresses on which the worker accepts data connections.
	DataAddresses []string
	// HTTP is the host:port of its metrics, "" without.
	HTTP string
	// PID is the process's, this one's for a worker that is a goroutine.
	PID int
	// Starts counts its processes: 1 until one has died.
	Starts int
}

// NannyConfig says how a worker's process is looked after. Its zero value is useful.
type NannyConfig struct {
	// Stdout and Stderr get what the process prints, in whole lines that begin with "worker NAME: "
	// (default: standard output and error of this process). Several nannies may share a SharedWriter.
	Stdout, Stderr io.Writer
	// RawOutput leaves the beginning of lines out, for programs that print lines of JSON.
	RawOutput bool
	// WorkerLogger gets the log records of the process: those of the worker, from the level of
	// WorkerSpec.Log on, and those that tasks write with package slog, from level INFO on. They have the
	// attribute worker, and key where the context of the task was given (default: Logger).
	WorkerLogger *slog.Logger
	// Env are further variables of the process, NAME=value.
	Env []string
	// MaxFailures is how many processes in a row may die before they are registered, or
	// within a second after, until the nanny gives up (default 10, negative: never). Before
	// a first one has ever been registered it is at most 3.
	MaxFailures int
	// StartTimeout is how long a process may take to be registered (default 60 s, negative:
	// for ever; with a DeathTimeout of the worker's, that is what ends it).
	StartTimeout time.Duration
	// Terminate is the part of the worker's memory limit at which its process is killed and
	// replaced (default 0.95, negative: never; distributed.worker.memory.terminate). The
	// worker looks itself too; this holds when it is too busy to.
	Terminate float64
	// Interval is how often its memory is looked at (default 100 ms;
	// distributed.worker.memory.monitor-interval).
	Interval time.Duration
	// Logger gets what happens (default slog.Default).
	Logger *slog.Logger
	// Listen is the address at which the nanny answers the scheduler, such as
	// tls://10.0.0.1:0; "" is none. With one, Client.restart of Dask starts another process
	// in the worker's place; without, it ends the worker for good.
	Listen string
	// Changed, when set, is called after each change of the worker's state, one call at a
	// time. It must not block.
	Changed func(WorkerInfo)

	role   string        // of the process: tests have others
	settle time.Duration // how long a process must live to count as good
	pause  time.Duration // before the second try; doubles from there
	// died reports to the scheduler how a registered process died (default: over a connection).
	died func(ctx context.Context, token, cause string) error
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
	if c.settle == 0 {
		c.settle = time.Second
	}
	if c.pause == 0 {
		c.pause = 100 * time.Millisecond
	}
	return c
}

// Nanny keeps one worker process alive: it starts it, starts another when it dies, after a
// pause that grows while they die young, and ends it. Processes that end themselves in
// peace, because the scheduler has closed or retired the worker, are not replaced.
//
// The goroutine of run owns the process and everything about it; info is a copy for others.
type Nanny struct {
	spec WorkerSpec
	cfg  NannyConfig

	stop chan string   // the first order to end: "close" or "retire"
	kill chan struct{} // closed when there is no time left for orders
	done chan struct{}
	// redo is an order to replace the process; the channel in it is closed when the old one
	// is gone.
	redo  chan chan struct{}
	final atomic.Bool // the process is not replaced any more

	server *nannyServer // nil without

	stopOnce, killOnce sync.Once

	mu      sync.Mutex
	info    WorkerInfo
	err     error
	changed chan struct{} // closed and replaced at each change of info
	history []outputLine  // the last lines that its processes printed

	printing sync.Mutex // held for each line of output
}

// StartNanny starts a worker's process and looks after it until Close. It does not wait for
// the worker: see Ready.
func StartNanny(spec WorkerSpec, cfg NannyConfig) (*Nanny, error) {
	if err := spec.check(); err != nil {
		return nil, err
	}
	if !mainCalled.Load() {
		return nil, ErrNoMain
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
	if n.cfg.died == nil {
		var err error
		if n.cfg.died, err = n.reportOver(); err != nil {
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

// Info describes the worker now.
func (n *Nanny) Info() WorkerInfo {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.info
}

// Done is closed when the worker has ended and is not replaced; Err says why.
func (n *Nanny) Done() <-chan struct{} { return n.done }

// Err is nil while the nanny works, after Close and when the worker has ended in peace.
func (n *Nanny) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.err
}

// title names the worker in errors.
func (n *Nanny) title() string {
	if n.spec.Name == "" {
		return "worker"
	}
	return "worker " + n.spec.Name
}

// Ready waits until the worker is registered with its scheduler. It fails when the nanny
// gives up or is closed before.
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
				err = fmt.Errorf("cluster: %s was closed before it was ready", n.title())
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

// Close is Shutdown with a limit of ten seconds. It may be called more than once.
func (n *Nanny) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), defaultCloseTimeout)
	defer cancel()
	return n.Shutdown(ctx)
}

// Shutdown ends the worker's process: it is asked to end, and killed when ctx ends first. It returns when the process
// is gone.
func (n *Nanny) Shutdown(ctx context.Context) error { return n.end(ctx, "close") }

// Retire is Shutdown after the worker has handed its data to others.
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

// update changes the copy that others see, and tells them.
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

// finish is the last thing that run does.
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
