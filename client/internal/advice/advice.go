// Package advice logs probable mistakes of a program, each cause once: arguments that are too large for a graph, and
// tasks that are restricted to workers which do not exist.
package advice

import (
	"context"
	"log/slog"
	"net/url"
	"strings"
	"sync"

	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/task/taskgraph"
)

// DefaultLimit is the default of Config.Limit.
const DefaultLimit = 64 << 20

// Config configures Advice. All fields are required.
type Config struct {
	// Limit is the size of arguments in bytes from which on a warning is logged; negative: never.
	Limit int64
	// Workers returns the workers of the cluster.
	Workers func(context.Context) ([]Worker, error)
	// Context cancels the lookups of workers.
	Context context.Context
	// Log receives the warnings.
	Log *slog.Logger
}

// Worker has the names of a worker to which tasks can be restricted.
type Worker struct {
	Address, Name, Host string
}

// Advice records which warnings have been logged. It is safe for concurrent use.
type Advice struct {
	cfg Config

	mu      sync.Mutex // guards all below
	large   map[string]bool
	checked map[string]bool // names of workers that were looked up
	closed  bool
	checks  sync.WaitGroup // lookups in flight
}

// New returns Advice without logged warnings.
func New(cfg Config) *Advice {
	return &Advice{cfg: cfg, large: map[string]bool{}, checked: map[string]bool{}}
}

// Close waits for the lookups in flight, which Config.Context cancels.
func (a *Advice) Close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.checks.Wait()
}

// CheckSize logs a warning, once for each function, if the arguments of a call are too large for the graph: the
// scheduler stores and forwards them once for each task, while Scatter sends them to workers directly.
func (a *Advice) CheckSize(function string, n int) {
	if a.isLarge(n) {
		a.warnSize(function, n)
	}
}

// CheckNode is CheckSize for a node of a graph, which is identified by its key.
func (a *Advice) CheckNode(key task.Key, n int) {
	if a.isLarge(n) {
		a.warnSize(key.String(), n)
	}
}

func (a *Advice) isLarge(n int) bool { return a.cfg.Limit >= 0 && int64(n) >= a.cfg.Limit }

func (a *Advice) warnSize(name string, n int) {
	a.mu.Lock()
	known := a.large[name]
	a.large[name] = true
	a.mu.Unlock()
	if !known {
		a.cfg.Log.Warn("large arguments sent through the scheduler with each task; send them with client.Scatter and "+
			"pass the future", "function", name, "bytes", n, "limit", a.cfg.Limit)
	}
}

// CheckWorkers logs a warning, once for each name, if no worker has a name to which tasks are restricted. A task that
// no worker may run waits until one connects, as in Dask; without a warning a misspelled name would be hard to find.
func (a *Advice) CheckWorkers(n *taskgraph.Annotations) {
	if len(n.Workers) == 0 || n.AllowOtherWorkers {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var names []string
	for _, w := range n.Workers {
		if !a.checked[w] {
			a.checked[w] = true
			names = append(names, w)
		}
	}
	if len(names) > 0 && !a.closed {
		a.checks.Go(func() { a.lookUp(names) })
	}
}

func (a *Advice) lookUp(names []string) {
	workers, err := a.cfg.Workers(a.cfg.Context)
	if err != nil {
		return // the tasks fail too
	}
	for _, name := range names {
		if !isWorker(workers, name) {
			a.cfg.Log.Warn("tasks restricted to an unknown worker wait until it connects (WithWorkers; "+
				"WithOtherWorkers allows others to run them)", "worker", name)
		}
	}
}

// isWorker reports whether a name is the address, name or host of a worker.
func isWorker(workers []Worker, name string) bool {
	for _, w := range workers {
		host := w.Host
		if u, err := url.Parse(w.Address); err == nil && host == "" {
			host = u.Hostname()
		}
		if name == w.Address || name == w.Name || name == host || name == strings.TrimPrefix(w.Address, "tcp://") {
			return true
		}
	}
	return false
}
