package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/worker/internal/record"
)

// counts is what a turn copies out of the state for metrics.
type counts struct {
	tasks     [len(stateList)]int
	stats     state.Stats
	turns     int64
	abandoned int
	executing map[task.Key]int64 // since when, ns since 1970
}

// latency is how long the scheduler takes to answer, and how often it wants to hear. Any goroutine may use it.
type latency struct {
	interval atomic.Int64 // between heartbeats, ns

	mu    sync.Mutex
	delay float64 // seconds to the scheduler and back
}

// observe notes a round trip to the scheduler.
func (l *latency) observe(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = 0.95*l.delay + 0.05*d.Seconds()
}

// seconds returns the average of late.
func (l *latency) seconds() float64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.delay
}

// stateList are the states that metrics tell of.
var stateList = [...]state.TaskState{state.Released, state.Waiting, state.Fetch, state.Flight, state.Missing, state.Ready, state.Constrained,
	state.Executing, state.LongRunning, state.Memory, state.Erred, state.Cancelled, state.Resumed}

func (w *Worker) counts() counts {
	var c counts
	w.do(func() {
		for i, st := range stateList {
			c.tasks[i] = w.state.Count(st)
		}
		c.stats, c.turns, c.abandoned = w.state.Stats(), w.turns, w.exec.Abandoned()
		c.executing = w.exec.Executing()
	})
	return c
}

// metrics are those of Dask's heartbeats: its scheduler and its dashboards read them all.
func (w *Worker) metrics() msgpack.Map {
	var c counts
	if w.state != nil {
		c = w.counts()
	}
	return w.metricsOf(&c)
}

func (w *Worker) metricsOf(c *counts) msgpack.Map {
	tasks := msgpack.Map{}
	for i, st := range stateList {
		if c.tasks[i] > 0 {
			tasks = append(tasks, msgpack.Pair{Key: st.String(), Value: c.tasks[i]})
		}
	}
	spilled, out := w.data.Spilled(), w.transfers.Counts()
	m := msgpack.MapOf(
		"task_counts", tasks,
		"bandwidth", w.transfers.Bandwidths(),
		"digests_total_since_heartbeat", msgpack.Map{},
		"managed_bytes", c.stats.NBytes,
		"spilled_bytes", msgpack.MapOf("memory", spilled.Memory, "disk", spilled.Disk),
		"transfer", msgpack.MapOf(
			"incoming_bytes", c.stats.IncomingBytes, "incoming_count", c.stats.IncomingCount, "incoming_count_total", c.stats.IncomingTotal,
			"outgoing_bytes", out.OpenBytes, "outgoing_count", out.Open, "outgoing_count_total", out.Total),
		"event_loop_interval", 0.02,
	)
	return append(m, w.usage.Recent()...)
}

// heartbeats tells the scheduler that the worker lives and how it is, as often as it wants
// to be told.
func (w *Worker) heartbeats() {
	for {
		wait := time.Duration(w.latency.interval.Load())
		if wait <= 0 {
			wait = time.Second
		}
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-w.ctx.Done():
			t.Stop()
			return
		}
		var s *session
		w.do(func() { s = w.session })
		if s == nil {
			continue
		}
		if err := w.heartbeat(s.millstream); err != nil && w.ctx.Err() == nil {
			w.log.Warn("heartbeat failed", "error", err)
		}
	}
}

type heartbeatReply struct {
	Status   string  `rpc:"status"`
	Interval float64 `rpc:"heartbeat-interval,optional"`
}

// heartbeatTime bounds one heartbeat: the scheduler may be busy, but not for ever.
const heartbeatTime = 30 * time.Second

// heartbeat sends one. Only Millstream's scheduler gets the transfers: Dask's refuses heartbeats with extensions that it
// does not know.
func (w *Worker) heartbeat(millstream bool) (err error) {
	c := w.counts()
	extensions := msgpack.Map{}
	if millstream {
		report := w.transfers.TakeReport()
		extensions = report.Extensions()
		defer func() {
			if err != nil {
				w.transfers.PutBack(report)
			}
		}()
	}
	now := time.Now()
	executing := msgpack.Map{}
	for k, since := range c.executing {
		executing = append(executing, msgpack.Pair{Key: k.Value(), Value: record.Seconds(now.UnixNano() - since)})
	}
	ctx, cancel := context.WithTimeout(w.ctx, heartbeatTime)
	defer cancel()
	var reply heartbeatReply
	err = w.pool.Call(ctx, w.cfg.Scheduler, "heartbeat_worker", msgpack.MapOf(
		"address", w.address, "now", record.Unix(now), "metrics", w.metricsOf(&c), "executing", executing, "extensions", extensions), &reply)
	if err != nil {
		var remote *rpc.RemoteError
		if !errors.As(err, &remote) {
			return err // the stream's end tells whether the scheduler is gone
		}
		return fmt.Errorf("the scheduler: %w", err)
	}
	w.latency.observe(time.Since(now))
	if reply.Interval > 0 {
		w.latency.interval.Store(int64(reply.Interval * float64(time.Second)))
	}
	if reply.Status == "missing" {
		w.unknown()
	}
	return nil
}

// lastWordsTime is how long the scheduler's last messages may take after its reply that the worker is unknown.
const lastWordsTime = 3 * time.Second

// unknown handles the scheduler's reply that it does not know the worker: it took the worker for dead, retired it, or was
// restarted. The session ends, and a Millstream scheduler gets a new registration. The reply has come by another
// connection than the stream, on which an order to close may still arrive.
func (w *Worker) unknown() {
	var s *session
	w.do(func() { s = w.session })
	if s == nil {
		return
	}
	t := time.NewTimer(lastWordsTime)
	defer t.Stop()
	select {
	case <-t.C:
		s.fail(errors.New("the scheduler does not know this worker"))
	case <-s.over.Done():
	case <-w.ctx.Done():
	}
}

// housekeep does what comes round: missing data is asked for, the stream is kept alive, the
// system's counters are sampled.
func (w *Worker) housekeep() {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for n := 1; ; n++ {
		select {
		case <-t.C:
		case <-w.ctx.Done():
			return
		}
		w.usage.Update()
		w.do(func() {
			w.exec.Remind()
			if w.state.Count(state.Missing) > 0 {
				w.apply(&state.FindMissing{Stimulus: w.stimulus})
			}
			if n%60 == 0 && w.session != nil {
				w.out.KeepAlive()
			}
		})
	}
}
