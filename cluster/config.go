package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"go.millstream.dev/scheduler"
	"go.millstream.dev/worker"
)

// Mode is where the workers of a local cluster live.
type Mode int

// The modes.
const (
	// Processes gives each worker a process of its own: the program again, see Main. A task
	// that crashes takes its worker with it and nothing else, and each has its own garbage
	// collector and memory limit. It is the default.
	Processes Mode = iota
	// Goroutines keeps all workers in this process: no copies, no certificates, nothing to
	// start. Results pass between tasks as they are.
	Goroutines
)

// String names the mode in one word.
func (m Mode) String() string {
	switch m {
	case Processes:
		return "processes"
	case Goroutines:
		return "goroutines"
	}
	return fmt.Sprintf("Mode(%d)", int(m))
}

// NoMemoryLimit is the memory limit of workers that have none.
const NoMemoryLimit = -1

// Config describes a local cluster. The zero value is useful: as many workers and threads
// as Dask would start, in processes, with certificates made on the fly, data over the
// fastest lane there is.
type Config struct {
	// Workers is how many are started (default: see Layout; negative: none yet), and Threads
	// how many tasks each runs at once (default: the processors divided among them).
	Workers, Threads int
	// Mode is where they live (default Processes).
	Mode Mode
	// MemoryLimit of each worker in bytes (default: its share of the machine by threads;
	// NoMemoryLimit for none). Workers that are goroutines apply it to the data they keep,
	// those in processes to the process.
	MemoryLimit int64
	// Protocol is that of the control connections: inproc (default with Goroutines), tls
	// (default with Processes), tcp, ucx or ucxx. All but inproc and tls are not encrypted.
	Protocol string
	// Host is the address to listen on (default 127.0.0.1).
	Host string
	// Port is the scheduler's (default: any).
	Port int
	// DataConnections specifies the data connections between workers: "auto" (default: UCX where it can be loaded and
	// the workers are processes), "none", or an address without a port, such as ucxx://127.0.0.1.
	DataConnections string
	// Resources of each worker that tasks may ask for.
	Resources map[string]float64
	// LocalDirectory is where workers spill data to (default: the system's temporary folder).
	LocalDirectory string
	// Dashboard is where the scheduler's HTTP server listens, such as :8787, with /metrics
	// and /health (default: none). Without a host it is the loopback interface.
	Dashboard string
	// WorkerDashboard is where each worker's does, such as 127.0.0.1:0 (default: none).
	WorkerDashboard string
	// Nanny says how worker processes are looked after.
	Nanny NannyConfig
	// Scheduler, when set, changes the scheduler's configuration before it starts.
	Scheduler func(*scheduler.Config)
	// Log has the level of the workers' own log records (default: warnings and errors).
	Log LogSpec
	// Logger gets the log records of scheduler, nannies and workers, and those that tasks in worker
	// processes write with package slog (default: slog.Default, of the library's own records only
	// warnings and errors; LogSpec.New of Log where that has a format or level debug).
	Logger *slog.Logger
	// CloseTimeout is how long workers may take to end before they are killed (default 10 s).
	CloseTimeout time.Duration
	// Validate makes scheduler and workers check every invariant after each event: for tests.
	Validate bool
}

// protocols are those of the control connections.
var protocols = []string{"inproc", "tls", "tcp", "ucx", "ucxx"}

// complete fills what is not set and refuses what cannot be.
func (o Config) complete() (Config, error) {
	if o.Mode != Processes && o.Mode != Goroutines {
		return o, fmt.Errorf("cluster: mode %v: want Processes or Goroutines", o.Mode)
	}
	if o.Threads < 0 {
		return o, fmt.Errorf("cluster: %d threads: want at least 1, or 0 for the default", o.Threads)
	}
	o.layout()
	if o.Protocol == "" {
		o.Protocol = "tls"
		if o.Mode == Goroutines {
			o.Protocol = "inproc"
		}
	}
	o.Protocol = strings.TrimSuffix(o.Protocol, "://")
	if !slices.Contains(protocols, o.Protocol) {
		return o, fmt.Errorf("cluster: protocol %q: want one of %s", o.Protocol, strings.Join(protocols, ", "))
	}
	if o.Protocol == "inproc" && o.Mode == Processes {
		return o, fmt.Errorf("cluster: inproc:// does not leave the process: use Mode: Goroutines, or another Protocol")
	}
	if o.Host == "" {
		o.Host = "127.0.0.1"
	}
	switch {
	case o.DataConnections == "":
		o.DataConnections = "auto"
	case o.DataConnections != "auto" && o.DataConnections != "none" && !strings.Contains(o.DataConnections, "://"):
		return o, fmt.Errorf("cluster: Config.DataConnections is %q: want auto, none or an address such as "+
			"ucxx://127.0.0.1", o.DataConnections)
	}
	switch {
	case o.MemoryLimit < 0:
		o.MemoryLimit = 0
	case o.MemoryLimit == 0:
		o.MemoryLimit = worker.AutoMemory(o.Threads)
	}
	if err := o.loggers(); err != nil {
		return o, err
	}
	if o.CloseTimeout <= 0 {
		o.CloseTimeout = defaultCloseTimeout
	}
	return o, nil
}

// loggers fills in who logs where.
func (o *Config) loggers() error {
	workers := o.Logger
	switch {
	case o.Logger != nil:
	case o.Log.Format != "" || o.Log.Level == "debug":
		var err error
		if o.Logger, err = o.Log.New(os.Stderr); err != nil {
			return fmt.Errorf("cluster: %w", err)
		}
		workers = o.Logger
	default:
		workers = slog.Default()
		o.Logger = slog.New(atLeast{workers.Handler(), slog.LevelWarn})
	}
	if o.Log == (LogSpec{}) {
		o.Log.Level = "warning"
	}
	if o.Nanny.Logger == nil {
		o.Nanny.Logger = o.Logger
	}
	if o.Nanny.WorkerLogger == nil {
		o.Nanny.WorkerLogger = workers
	}
	o.Nanny.Stdout, o.Nanny.Stderr = SharedWriter(o.Nanny.Stdout), SharedWriter(o.Nanny.Stderr)
	return nil
}

// layout is Dask's LocalCluster: without both numbers see Layout, with one of them the
// processors divided by it.
func (o *Config) layout() {
	cpus := CPUs()
	switch {
	case o.Workers == 0 && o.Threads == 0:
		if o.Mode == Goroutines {
			o.Workers, o.Threads = 1, cpus
		} else {
			o.Workers, o.Threads = Layout(cpus)
		}
	case o.Workers == 0:
		o.Workers = max(1, cpus/o.Threads)
	case o.Threads == 0:
		o.Threads = max(1, cpus/max(1, o.Workers))
	}
	o.Workers = max(0, o.Workers)
}

// atLeast is a handler for records of some level on.
type atLeast struct {
	slog.Handler
	level slog.Level
}

func (h atLeast) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= h.level && h.Handler.Enabled(ctx, l)
}

func (h atLeast) WithAttrs(attrs []slog.Attr) slog.Handler {
	return atLeast{h.Handler.WithAttrs(attrs), h.level}
}

func (h atLeast) WithGroup(name string) slog.Handler {
	return atLeast{h.Handler.WithGroup(name), h.level}
}

// defaultCloseTimeout is how long workers may take to end before they are killed.
const defaultCloseTimeout = 10 * time.Second
