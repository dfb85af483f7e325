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

// Mode specifies where the workers of a local cluster run.
type Mode int

// The modes.
const (
	// Processes runs each worker in its own process, which executes this program: see Main. A task that crashes ends
	// only its worker, and each worker has its own garbage collector and memory limit. It is the default.
	Processes Mode = iota
	// Goroutines runs all workers in this process, without copies, certificates or child processes. Tasks receive
	// results without a copy.
	Goroutines
)

// String returns the name of the mode.
func (m Mode) String() string {
	switch m {
	case Processes:
		return "processes"
	case Goroutines:
		return "goroutines"
	}
	return fmt.Sprintf("Mode(%d)", int(m))
}

// NoMemoryLimit is the memory limit of workers without one.
const NoMemoryLimit = -1

// Config configures a local cluster. Its zero value is useful: as many workers and threads as Dask would start, in
// processes, with temporary certificates, and data over the fastest transport.
type Config struct {
	// Workers is the number of workers (default: see Layout; negative: none at first), and Threads the number of tasks
	// that each runs at once (default: the processors divided among the workers).
	Workers, Threads int
	// Mode specifies where the workers run (default Processes).
	Mode Mode
	// MemoryLimit is the memory limit of each worker in bytes (default: its share of the machine by threads;
	// NoMemoryLimit: none). Workers in goroutines apply it to their stored data, those in processes to the process.
	MemoryLimit int64
	// Protocol is the protocol of control connections: inproc (default with Goroutines), tls (default with Processes),
	// tcp, ucx or ucxx. Only inproc and tls are secure.
	Protocol string
	// Host is the address to listen on (default 127.0.0.1).
	Host string
	// Port is the port of the scheduler (default: any).
	Port int
	// DataConnections specifies the data connections between workers: "auto" (default: UCX if it can be loaded and the
	// workers are processes), "none", or an address without a port, such as ucxx://127.0.0.1.
	DataConnections string
	// Resources are the resources of each worker that tasks can require.
	Resources map[string]float64
	// LocalDirectory is the folder for spilled data (default: the system's temporary folder).
	LocalDirectory string
	// Dashboard is the address of the scheduler's HTTP server, such as :8787, with /metrics and /health (default:
	// none). Without a host it listens on the loopback interface.
	Dashboard string
	// WorkerDashboard is the address of the HTTP server of each worker, such as 127.0.0.1:0 (default: none).
	WorkerDashboard string
	// Nanny configures the nannies of worker processes.
	Nanny NannyConfig
	// Scheduler, if not nil, changes the configuration of the scheduler before it starts.
	Scheduler func(*scheduler.Config)
	// Log sets the level of the log records of workers (default: warnings and errors).
	Log LogSpec
	// Logger receives the log records of scheduler, nannies and workers, and those that tasks in worker processes write
	// with package slog (default: slog.Default, restricted to warnings and errors for records of the library;
	// LogSpec.New of Log if that has a format or level debug).
	Logger *slog.Logger
	// CloseTimeout is how long workers may take to shut down before they are killed (default 10 s).
	CloseTimeout time.Duration
	// Validate makes scheduler and workers check all invariants after each event, for tests.
	Validate bool
}

// protocols are the protocols of control connections.
var protocols = []string{"inproc", "tls", "tcp", "ucx", "ucxx"}

// withDefaults returns the configuration with defaults, or an error if it is invalid.
func (o Config) withDefaults() (Config, error) {
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
		return o, fmt.Errorf("cluster: inproc:// cannot connect processes; use Mode: Goroutines, or another Protocol")
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

// loggers sets the loggers.
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
		o.Logger = slog.New(levelHandler{workers.Handler(), slog.LevelWarn})
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

// layout sets the number of workers and threads as Dask's LocalCluster does: without both numbers see Layout, with one
// of them the processors divided by it.
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

// levelHandler is a handler that drops records below a level.
type levelHandler struct {
	slog.Handler
	level slog.Level
}

func (h levelHandler) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= h.level && h.Handler.Enabled(ctx, l)
}

func (h levelHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return levelHandler{h.Handler.WithAttrs(attrs), h.level}
}

func (h levelHandler) WithGroup(name string) slog.Handler {
	return levelHandler{h.Handler.WithGroup(name), h.level}
}

// defaultCloseTimeout is the default of Config.CloseTimeout.
const defaultCloseTimeout = 10 * time.Second
