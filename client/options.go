package client

import (
	"context"
	"time"

	"go.millstream.dev/client/internal/tracker"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/task/lifetrace"
	"go.millstream.dev/internal/task/taskgraph"
)

// Option sets how tasks are run: on which workers, in which order, how often.
type Option func(*options)

type options struct {
	key    task.Key
	impure bool
	actor  bool
	fifo   time.Duration
	notes  taskgraph.Annotations
}

// defaultFIFO is Dask's fifo_timeout of submit and map: tasks that are submitted within this time belong to the same
// generation.
const defaultFIFO = 100 * time.Millisecond

func newOptions(opts []Option) options {
	o := options{fifo: defaultFIFO}
	for _, f := range opts {
		if f != nil {
			f(&o)
		}
	}
	return o
}

// WithKey sets the key of the task (default: the name of the function and a hash of name and arguments). Map appends
// "-" and the index to it.
func WithKey(key string) Option { return func(o *options) { o.key = task.NewKey(key) } }

// WithImpure gives each call its own key, for functions that may return different results for equal arguments (Dask's
// pure=False). Otherwise equal calls are one task.
func WithImpure() Option { return func(o *options) { o.impure = true } }

// WithWorkers restricts the task to workers, given by address, name or host.
func WithWorkers(workers ...string) Option {
	return func(o *options) { o.notes.Workers = append(o.notes.Workers, workers...) }
}

// WithOtherWorkers turns WithWorkers into a preference: other workers may run the task if none of these can.
func WithOtherWorkers() Option { return func(o *options) { o.notes.AllowOtherWorkers = true } }

// WithResources sets the resources of its worker that the task uses while it runs, such as {"GPU": 1}.
func WithResources(r map[string]float64) Option { return func(o *options) { o.notes.Resources = r } }

// WithPriority sets the priority (default 0). Tasks with a higher priority run first.
func WithPriority(p float64) Option {
	return func(o *options) { o.notes.Priority, o.notes.HasPriority = p, true }
}

// WithRetries sets how often a failed task is run again (default 0).
func WithRetries(n int) Option { return func(o *options) { o.notes.Retries = max(n, 0) } }

// WithFIFO sets how long after an earlier submission this one still counts as equally old (default 100 ms, Dask's
// fifo_timeout). Older tasks run first.
func WithFIFO(d time.Duration) Option { return func(o *options) { o.fifo = d } }

// WithTimeout cancels the context of the function after d, and fails the task with a TimeoutError. A function that
// ignores its context continues to run; its worker logs that, and starts another thread in its place.
func WithTimeout(d time.Duration) Option { return func(o *options) { o.notes.Timeout = d.Seconds() } }

// trace adds the trace context of a submission of n tasks, if the process is traced. key is that of a single task.
func (o *options) trace(ctx context.Context, function string, key task.Key, n int) {
	if t := lifetrace.Get(); t != nil {
		text := ""
		if key != "" {
			text = key.String()
		}
		o.notes.Trace = t.Submitted(ctx, function, text, n)
	}
}

func (o *options) graph(ctx context.Context) tracker.Options {
	return tracker.Options{FIFO: durationText(o.fifo), Actors: o.actor, Submitting: task.CurrentKey(ctx)}
}

// durationText formats a duration as Dask's configuration does.
func durationText(d time.Duration) string {
	if d == defaultFIFO {
		return "100 ms"
	}
	return d.String()
}
