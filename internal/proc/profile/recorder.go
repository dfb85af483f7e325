package profile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/config"
)

// Config configures a Recorder.
type Config struct {
	// Interval is the time between samples (default 10 ms; distributed.worker.profile.interval). Negative: none are
	// taken (distributed.worker.profile.enabled). It is longer if samples would take more than 0.5 % of a processor;
	// counts are then scaled.
	Interval time.Duration
	// Cycle is the time that a tree covers (default 1 s; distributed.worker.profile.cycle).
	Cycle time.Duration
	// Length is the number of cycles that are kept (default 1000; distributed.admin.low-level-log-length).
	Length int
	// Active reports whether tasks are running; nil for a process without tasks. Any goroutine may call it.
	Active func() bool
}

// FromConfig returns the settings of Dask for profiles: distributed.worker.profile.enabled, interval and cycle. The
// interval is negative if they are disabled.
func FromConfig(c *config.Config) (interval, cycle time.Duration, err error) {
	const at = "distributed.worker.profile."
	for key, to := range map[string]*time.Duration{"interval": &interval, "cycle": &cycle} {
		if c.Get(at+key, nil) == nil {
			continue
		}
		var wrong error
		switch v := c.Get(at+key, nil).(type) { // numbers are milliseconds, as in Dask
		case int64:
			*to = time.Duration(v) * time.Millisecond
		case float64:
			*to = time.Duration(v * float64(time.Millisecond))
		default:
			*to, wrong = c.Duration(at+key, 0)
		}
		if wrong == nil && *to <= 0 {
			wrong = fmt.Errorf("profile: %s%s is %v: use a positive duration", at, key, *to)
		}
		err = errors.Join(err, wrong)
	}
	enabled, wrong := c.Bool(at+"enabled", true)
	if !enabled {
		interval = -1
	}
	return interval, cycle, errors.Join(err, wrong)
}

// Recorder records the call stacks of the tasks of a worker, and of the other goroutines of the process. Any goroutine
// may use it.
type Recorder struct {
	cfg          Config
	owner        string
	tasks, other *History
	labels       atomic.Pointer[map[string]context.Context] // by prefix; replaced, not changed
	adding       sync.Mutex                                 // guards the replacement of labels
}

var owners atomic.Int64

// maxLabels bounds the prefixes with labels of their own.
const maxLabels = 1024

// New returns a Recorder. It records while Run runs.
func New(cfg Config) *Recorder {
	cfg.Interval, cfg.Cycle = cmp.Or(cfg.Interval, 10*time.Millisecond), cmp.Or(cfg.Cycle, time.Second)
	if cfg.Interval > 0 {
		cfg.Interval = max(time.Millisecond, min(cfg.Interval, time.Hour))
	}
	cfg.Cycle = max(10*time.Millisecond, min(cfg.Cycle, 24*time.Hour))
	return &Recorder{cfg: cfg, owner: strconv.FormatInt(owners.Add(1), 10), tasks: NewHistory(cfg.Cycle, cfg.Length),
		other: NewHistory(cfg.Cycle, cfg.Length)}
}

// Settings returns the interval and the cycle, for the recorder of another process. The interval is negative if no
// samples are taken.
func (r *Recorder) Settings() (interval, cycle time.Duration) { return r.cfg.Interval, r.cfg.Cycle }

// Begin marks the calling goroutine, and those that it starts, as running a task whose key has a prefix, until End.
func (r *Recorder) Begin(prefix string) {
	if r.cfg.Interval < 0 {
		return
	}
	var ctx context.Context
	if m := r.labels.Load(); m != nil {
		ctx = (*m)[prefix]
	}
	if ctx == nil {
		ctx = r.addLabels(prefix)
	}
	pprof.SetGoroutineLabels(ctx)
}

// End ends Begin. The goroutine then has no labels.
func (r *Recorder) End() {
	if r.cfg.Interval >= 0 {
		pprof.SetGoroutineLabels(context.Background())
	}
}

// addLabels returns the labels of a prefix that has had none.
func (r *Recorder) addLabels(prefix string) context.Context {
	r.adding.Lock()
	defer r.adding.Unlock()
	var now map[string]context.Context
	if m := r.labels.Load(); m != nil {
		now = *m
	}
	if len(now) >= maxLabels || len(prefix) > maxText {
		prefix = others
	}
	if ctx := now[prefix]; ctx != nil {
		return ctx
	}
	now = maps.Clone(now)
	if now == nil {
		now = map[string]context.Context{}
	}
	prefix = strings.Clone(prefix)
	ctx := pprof.WithLabels(context.Background(), pprof.Labels(ownerLabel, r.owner, taskLabel, prefix))
	now[prefix] = ctx
	r.labels.Store(&now)
	return ctx
}

// Run takes samples until stop is closed. While no task runs it wakes less often.
func (r *Recorder) Run(stop <-chan struct{}) {
	if r.cfg.Interval < 0 {
		return
	}
	var (
		idle      = max(r.cfg.Interval, r.cfg.Cycle/10)
		wait      = r.cfg.Interval
		seen      uint64
		last      time.Time // of the last sample of tasks; zero if none ran then
		lastOther time.Time
	)
	t := time.NewTimer(wait)
	defer t.Stop()
	for {
		select {
		case <-stop:
			return
		case <-t.C:
		}
		now := time.Now()
		switch {
		case r.cfg.Active != nil && r.cfg.Active():
			wait = r.cfg.Interval
			if records, number := snapshot(true); number != seen {
				weight := int64(1)
				if !last.IsZero() {
					weight = max(1, int64(math.Round(float64(now.Sub(last))/float64(r.cfg.Interval))))
				}
				seen, last = number, now
				r.addTasks(now, records, weight)
				if now.Sub(lastOther) >= idle {
					r.addOther(now, records)
					lastOther = now
				}
			}
		default:
			wait, last = min(2*wait, idle), time.Time{}
			period := r.cfg.Cycle
			if r.cfg.Active == nil { // a scheduler
				period = idle
			}
			if now.Sub(lastOther) >= period {
				lastOther = now
				if records, number := snapshot(false); number != seen {
					seen = number
					r.addOther(now, records)
				}
			}
		}
		t.Reset(wait)
	}
}

// addTasks counts the stacks of tasks.
func (r *Recorder) addTasks(now time.Time, records []record, weight int64) {
	for _, rec := range records {
		if rec.owner != r.owner {
			continue
		}
		if stack := taskStack(framesOf(rec.stack)); stack != nil {
			r.tasks.Add(now, rec.task, stack, weight*int64(rec.count))
		}
	}
}

// addOther counts the stacks of goroutines that are not of tasks and do not wait.
func (r *Recorder) addOther(now time.Time, records []record) {
	for _, rec := range records {
		if rec.owner != "" {
			continue
		}
		if stack := ownStack(framesOf(rec.stack)); stack != nil {
			r.other.Add(now, "", stack, int64(rec.count))
		}
	}
}

// AddTo adds the selected samples of tasks to a tree.
func (r *Recorder) AddTo(t *Tree, q Query) { r.tasks.AddTo(t, q) }

// AddServerTo adds the selected samples of goroutines that are not of tasks. The key of q is ignored.
func (r *Recorder) AddServerTo(t *Tree, q Query) {
	r.other.AddTo(t, Query{Start: q.Start, Stop: q.Stop})
}

// Counts returns the numbers of samples of tasks by cycle, see History.Counts.
func (r *Recorder) Counts(start float64, stop *float64) []Counts { return r.tasks.Counts(start, stop) }
