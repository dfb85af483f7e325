// Package dashboard serves the dashboard of a scheduler: its page, the task stream in tiles, a live stream of counts,
// and the data of the other pages as JSON. It writes the same pages into a self-contained report file.
//
// A [Server] has two sources: a spans.Store, the history of tasks and transfers, and a [Source], the present state of a
// scheduler. A history that is opened from disk has no Source.
package dashboard

import (
	"context"

	"go.millstream.dev/internal/proc/profile"
)

// Source returns the present state of a scheduler. Its methods may be called from any goroutine. A Server calls each of
// them at most twice a second, however many viewers there are, except those that have arguments.
type Source interface {
	// Identity returns what does not change while the scheduler runs.
	Identity() Identity
	// Counts returns the numbers of the live stream.
	Counts(ctx context.Context) (Counts, error)
	// Workers returns the workers in the order of their registration.
	Workers(ctx context.Context) ([]Worker, error)
	// Progress returns the numbers of tasks of each prefix.
	Progress(ctx context.Context) ([]Prefix, error)
	// Bandwidth returns the totals of transfers of each pair of workers.
	Bandwidth(ctx context.Context) (Bandwidth, error)
	// Graph returns the tasks and their dependencies, or the groups if there are many tasks.
	Graph(ctx context.Context) (Graph, error)
	// Cliques returns the cliques that have reported lately.
	Cliques(ctx context.Context) ([]Clique, error)
	// Story returns the transitions of a task that are still known, oldest first.
	Story(ctx context.Context, key string) ([]Step, error)
	// Logs returns the latest log lines of a worker, or of the scheduler if worker is "".
	Logs(ctx context.Context, worker string) ([]LogLine, error)
	// Profile returns the call tree of tasks, or of servers.
	Profile(ctx context.Context, q ProfileQuery) (*profile.View, error)
	// Stacks returns the call stacks of the tasks that run on a worker, or on all if worker is "".
	Stacks(ctx context.Context, worker string) ([]Stack, error)
	// Path returns the keys of a chain of dependencies, the last one first: each is the dependency of the one before it
	// for which stop returns the largest time. It ends where no dependency is known.
	Path(ctx context.Context, last string, stop func(key string) (int64, bool)) ([]string, error)
}

// ProfileQuery selects a call tree.
type ProfileQuery struct {
	// Worker is the address of a worker, "" for all.
	Worker string
	// Scheduler selects the goroutines of the scheduler, Server those of workers that are not of tasks.
	Scheduler, Server bool
	profile.Query
}

// Stack is the call stack of a running task.
type Stack struct {
	Worker string   `json:"worker"`
	Key    string   `json:"key"`
	Frames []string `json:"frames"` // outermost first
}

// Identity is what does not change while a scheduler runs.
type Identity struct {
	Version   string  `json:"version"`
	Scheduler string  `json:"scheduler"` // address
	ID        string  `json:"id"`
	Started   float64 `json:"started"` // seconds since 1970
}

// Counts are the numbers of the live stream.
type Counts struct {
	Tasks    map[string]int `json:"tasks"` // by state
	Workers  int            `json:"workers"`
	Threads  int            `json:"threads"`
	Finished int64          `json:"finished"` // tasks since the start of the scheduler
	Memory   int64          `json:"memory"`   // bytes of all workers
	// Moved are the bytes of incoming transfers since the start of the scheduler, by transport.
	Moved map[string]int64 `json:"-"`
	// Failures is the number of failures since the start of the scheduler.
	Failures int64 `json:"failures"`
}

// Worker is a row of the page of workers.
type Worker struct {
	Address    string       `json:"address"`
	Name       string       `json:"name"`
	Host       string       `json:"host"`
	Status     string       `json:"status"`
	Threads    int          `json:"threads"`
	CPU        float64      `json:"cpu"` // percent of a core
	Memory     WorkerMemory `json:"memory"`
	Device     *Device      `json:"device"` // nil without a GPU
	Processing int          `json:"processing"`
	Ready      int64        `json:"ready"`
	Executing  int64        `json:"executing"`
	Held       int          `json:"held"`      // results in memory
	LastSeen   float64      `json:"last_seen"` // seconds since the last heartbeat
	Transports []string     `json:"transports"`
	Version    string       `json:"version"`
	Dashboard  string       `json:"dashboard"` // URL of its HTTP server, "" without one
}

// WorkerMemory is the memory of a worker in bytes.
type WorkerMemory struct {
	Managed   int64 `json:"managed"`
	Unmanaged int64 `json:"unmanaged"`
	Spilled   int64 `json:"spilled"`
	Limit     int64 `json:"limit"`
	RSS       int64 `json:"rss"`
}

// Device is the GPU of a worker, as far as it reports it: memory in bytes, utilization in percent.
type Device struct {
	Used        int64   `json:"used"`
	Limit       int64   `json:"limit"`
	Pinned      int64   `json:"pinned"`
	Utilization float64 `json:"utilization"`
	Total       int64   `json:"total"`
}

// Prefix is a row of the page of progress: tasks of one prefix by state.
type Prefix struct {
	Name       string  `json:"name"`
	Waiting    int     `json:"waiting"`
	Queued     int     `json:"queued"`
	NoWorker   int     `json:"no_worker"`
	Processing int     `json:"processing"`
	Memory     int     `json:"memory"`
	Erred      int     `json:"erred"`
	Released   int     `json:"released"`
	Forgotten  int64   `json:"forgotten"` // finished runs of tasks that are not known any more
	Seconds    float64 `json:"seconds"`   // of all finished runs
	Bytes      int64   `json:"bytes"`     // of results in memory
}

// Bandwidth is the matrix of transfers between workers.
type Bandwidth struct {
	Workers    []string             `json:"workers"` // addresses
	Pairs      []Pair               `json:"pairs"`
	Transports map[string]Transport `json:"transports"`
}

// Pair are the transfers between two workers over one transport.
type Pair struct {
	From      string  `json:"from"`
	To        string  `json:"to"`
	Transport string  `json:"transport"`
	Scheme    string  `json:"scheme"` // of the address of the connection
	Bytes     int64   `json:"bytes"`
	Seconds   float64 `json:"seconds"`
	Rate      float64 `json:"rate"` // bytes per second
	Count     int64   `json:"count"`
	Reason    string  `json:"reason"` // why the pair does not use a faster transport, "" if it does
}

// Transport are the totals of one transport.
type Transport struct {
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
	Count   int64   `json:"count"`
}

// Graph are tasks or groups of tasks and their dependencies.
type Graph struct {
	Grouped  bool     `json:"grouped"`
	Complete bool     `json:"complete"` // all tasks have been visited for the edges
	Nodes    []Node   `json:"nodes"`
	Edges    [][3]int `json:"edges"` // indexes of nodes: dependency, dependent; number of dependencies
}

// Node is a task, or a group with the numbers of its tasks by state.
type Node struct {
	ID     string         `json:"id"`
	Label  string         `json:"label"`
	State  string         `json:"state,omitempty"`
	Counts map[string]int `json:"counts,omitempty"`
	Tasks  int            `json:"tasks"`
}

// Clique is a clique with the totals of its collectives. End is the time when it was dissolved, in seconds since 1970,
// 0 before.
type Clique struct {
	ID          string       `json:"id"`
	Name        string       `json:"name"`
	State       string       `json:"state"`
	End         float64      `json:"end,omitempty"`
	Ranks       []Rank       `json:"ranks"`
	Collectives []Collective `json:"collectives"`
}

// Rank is a member of a clique.
type Rank struct {
	Rank   int    `json:"rank"`
	Worker string `json:"worker"`
	Host   string `json:"host"`
}

// Collective are the calls of one collective operation of a clique. Seconds is the sum over calls of the mean of the
// ranks.
type Collective struct {
	Op      string  `json:"op"`
	Count   int64   `json:"count"`
	Bytes   int64   `json:"bytes"`
	Seconds float64 `json:"seconds"`
	Slowest Slowest `json:"slowest"`
}

// Slowest is the rank that a collective operation waited for: the one that spent the least time in it.
type Slowest struct {
	Rank    int     `json:"rank"`
	Seconds float64 `json:"seconds"`
}

// Step is a transition of a task.
type Step struct {
	Time     int64  `json:"time"` // microseconds: since 1970 in Source, since the origin in story.json
	From     string `json:"from"`
	To       string `json:"to"`
	Stimulus string `json:"stimulus"`
	Worker   string `json:"worker"`
}

// Failure is an event of a Store of kind FailureEvent, as JSON without the time.
type Failure struct {
	Time   int64  `json:"time"` // microseconds since the origin
	Kind   string `json:"kind"` // worker-lost, task-erred, task-retried, lost-data, restart, …
	Worker string `json:"worker"`
	Key    string `json:"key"`
	Cause  string `json:"cause"`
	Text   string `json:"text"`
}

// LogLine is a line of a log.
type LogLine struct {
	Level string `json:"level"`
	Text  string `json:"text"`
}

// FailureEvent is the kind of events of a Store that are failures.
const FailureEvent = "failure"
