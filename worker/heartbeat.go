package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/worker/internal/metrics"
	"go.millstream.dev/worker/internal/record"
)

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

// snapshot returns what the worker does.
func (w *Worker) snapshot() metrics.Snapshot {
	s := metrics.Snapshot{Threads: w.cfg.Threads, Latency: w.latency.seconds(), Memory: w.memory.Usage(),
		Spilled: w.data.Spilled(), Sent: w.transfers.Counts(), AbandonedTotal: w.exec.AbandonedTotal()}
	s.Read, s.Wrote = w.memory.DiskCounts()
	if d := w.cfg.Device; d != nil {
		s.Device = &metrics.Device{Results: w.data.OnDevice(), Limit: d.Limit}
		s.Device.Up, s.Device.Down = w.memory.DeviceCounts()
		if d.Memory != nil {
			s.Device.Counted, s.Device.Allocated, s.Device.Peak = true, d.Memory.Used(), d.Memory.Peak()
		}
	}
	w.do(func() {
		for i, st := range metrics.States {
			s.Counts[i] = w.state.Count(st)
		}
		s.Stats, s.Turns, s.Abandoned, s.Executing = w.state.Stats(), w.turns, w.exec.Abandoned(), w.exec.Executing()
	})
	return s
}

// listenHTTP starts the worker's HTTP server.
func (w *Worker) listenHTTP() (*metrics.Server, error) {
	host, _ := comm.AddressHost(w.address)
	return metrics.Listen(metrics.Config{Address: w.cfg.Dashboard, Name: w.Name(), Host: host, Hosts: w.cfg.DashboardHosts,
		Logger: w.log, Go: w.tasks.Go,
		Collectors: append([]prometheus.Collector{metrics.Collector(w.snapshot)}, w.cfg.Collectors...),
		Pages: []metrics.Page{
			{Path: "/millstream/worker", What: "the worker at a glance", Handler: metrics.JSON(func() metrics.Summary {
				s := w.snapshot()
				return s.Summarize(metrics.Summary{Address: w.address, Name: w.Name(), Status: w.Status(), Lanes: w.Lanes(),
					Scheduler: w.cfg.Scheduler, Registry: task.Hash(), Limit: w.cfg.MemoryLimit})
			})},
			{Path: "/millstream/tasks", What: "tasks that ran last", Handler: metrics.List(w.Timelines)},
			{Path: "/millstream/transfers", What: "transfers of data", Handler: metrics.List(w.Transfers)},
			{Path: "/millstream/disk", What: "what was spilled to disk and read back", Handler: metrics.List(w.DiskTransfers)},
		}})
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
	c := w.snapshot()
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
	for k, since := range c.Executing {
		executing = append(executing, msgpack.Pair{Key: k.Value(), Value: record.Seconds(now.UnixNano() - since)})
	}
	ctx, cancel := context.WithTimeout(w.ctx, heartbeatTime)
	defer cancel()
	var reply heartbeatReply
	err = w.pool.Call(ctx, w.cfg.Scheduler, "heartbeat_worker", msgpack.MapOf(
		"address", w.address, "now", record.Unix(now), "metrics", c.Heartbeat(w.transfers.Bandwidths(), w.usage.Recent()), "executing", executing, "extensions", extensions), &reply)
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
