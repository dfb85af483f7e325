package client

import (
	"context"
	"time"

	"go.millstream.dev/task"
)

// Option is a wish about tasks: where, in which order, how often.
type Option func(*options)

type options struct {
	key    task.Key
	impure bool
	actor  bool
	fifo   time.Duration
	notes  task.Annotations
}

// defaultFIFO is Dask's fifo_timeout of submit and map: tasks that are submitted within it
// have the same generation.
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

// WithKey names the task. Without it the key is the function's name and a hash of name and
// arguments. Map appends "-" and the index to it.
func WithKey(key string) Option { return func(o *options) { o.key = task.NewKey(key) } }

// Impure gives each call a key of its own: for functions that do not always return the same
// for the same arguments. Otherwise equal calls are one task.
func Impure() Option { return func(o *options) { o.impure = true } }

// Pure(false) is Impure (Dask's pure=).
func Pure(pure bool) Option { return func(o *options) { o.impure = !pure } }

// Workers restricts the task to workers, by address, name or host.
func Workers(workers ...string) Option {
	return func(o *options) { o.notes.Workers = append(o.notes.Workers, workers...) }
}

// AllowOtherWorkers makes Workers a preference: others may run the task if none of them can.
func AllowOtherWorkers() Option { return func(o *options) { o.notes.AllowOtherWorkers = true } }

// Resources is what the task takes of its worker's resources while it runs, such as
// {"GPU": 1}.
func Resources(r map[string]float64) Option { return func(o *options) { o.notes.Resources = r } }

// Priority: tasks of a higher one run first (default 0).
func Priority(p float64) Option {
	return func(o *options) { o.notes.Priority, o.notes.HasPriority = p, true }
}

// Retries is how often a task that failed is run again (default 0).
func Retries(n int) Option { return func(o *options) { o.notes.Retries = max(n, 0) } }

// FIFO is how long after an earlier submission this one still counts as the same age
// (default 100 ms, Dask's fifo_timeout). Older ones run first.
func FIFO(d time.Duration) Option { return func(o *options) { o.fifo = d } }

// Timeout ends the context of the function after d, and the task with a TimeoutError. A function that
// ignores its context goes on running; its worker logs that, and has another thread take its place.
func Timeout(d time.Duration) Option { return func(o *options) { o.notes.Timeout = d.Seconds() } }

func (o *options) graph(ctx context.Context) graphOptions {
	return graphOptions{fifo: durationText(o.fifo), actors: o.actor, submitting: task.CurrentKey(ctx)}
}

// durationText is a time as Dask's settings write it.
func durationText(d time.Duration) string {
	if d == defaultFIFO {
		return "100 ms"
	}
	return d.String()
}
