// Package advice logs, once for each cause, what a program probably did not mean: arguments that are too large for a
// graph, and tasks that are restricted to workers which do not exist.
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

// DefaultLimit is the size in bytes of arguments from which on they are logged.
const DefaultLimit = 64 << 20

// Config describes Advice. All fields are set.
type Config struct {
	// Limit is the size in bytes of arguments from which on they are logged; negative: never.
	Limit int64
	// Workers returns the workers of the cluster.
	Workers func(context.Context) ([]Worker, error)
	// Context ends the lookups of workers.
	Context context.Context
	// Log gets the warnings.
	Log *slog.Logger
}

// Worker is a worker by the names that tasks can be restricted to.
type Worker struct {
	Address, Name, Host string
}

// Advice remembers what has been logged. Any number of goroutines may use it.
type Advice struct {
	cfg Config

	mu      sync.Mutex // guards all below
	large   map[string]bool
	checked map[string]bool // names of workers that were looked for
	closed  bool
	checks  sync.WaitGroup // lookups in flight
}

// New returns Advice that has logged nothing.
func New(cfg Config) *Advice {
	return &Advice{cfg: cfg, large: map[string]bool{}, checked: map[string]bool{}}
}

// Close waits for the lookups in flight; Config.Context ends them.
func (a *Advice) Close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.checks.Wait()
}

// CheckSize warns, once for each function, of a call whose arguments are so large that the graph is the wrong way for
// them: the scheduler keeps and forwards every byte, once for each task, while Scatter sends them to workers directly.
func (a *Advice) CheckSize(function string, n int) {
	if a.isLarge(n) {
		a.warnSize(function, n)
	}
}

// CheckNode is CheckSize for a node of a graph, which has no other name than its key.
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
		a.cfg.Log.Warn("large arguments travel through the scheduler with each task; send them with client.Scatter and "+
			"pass the future", "function", name, "bytes", n, "limit", a.cfg.Limit)
	}
}

// CheckWorkers looks, once for each name, whether there are workers by the names that tasks are restricted to. A task
// that no worker may run waits until one joins, as in Dask; without a warning a misspelled name would be hard to find.
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
			a.cfg.Log.Warn("tasks are restricted to a worker that is not there: they wait until it joins (Workers; "+
				"AllowOtherWorkers lets others run them)", "worker", name)
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
