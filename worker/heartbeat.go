package worker

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/worker/internal/metrics"
	"go.millstream.dev/worker/internal/record"
)

// snapshot returns the current figures of the worker.
func (w *Worker) snapshot() metrics.Snapshot {
	s := metrics.Snapshot{Threads: w.cfg.Threads, Latency: w.scheduler.Latency(), Memory: w.memory.Usage(),
		Spilled: w.data.Spilled(), Sent: w.transfers.Counts(), AbandonedTotal: w.exec.AbandonedTotal()}
	s.Read, s.Wrote = w.memory.DiskCounts()
	if d := w.cfg.Device; d != nil {
		s.Device = &metrics.Device{Results: w.data.OnDevice(), Limit: d.Limit}
		s.Device.Up, s.Device.Down = w.memory.DeviceCounts()
		if d.Stats != nil {
			s.Device.Pinned, s.Device.Total = d.Stats()
		}
		if d.Memory != nil {
			s.Device.Counted, s.Device.Allocated, s.Device.Peak = true, d.Memory.Used(), d.Memory.Peak()
		}
	}
	if g, ok := w.gpu.Latest(); ok {
		s.GPU = &g
	}
	s.Queued = w.inbox.len()
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
	summary := func() metrics.Summary {
		s := w.snapshot()
		return s.Summarize(metrics.Summary{Address: w.address, Name: w.Name(), Status: w.Status(),
			DataAddresses: w.DataAddresses(), Scheduler: w.cfg.Scheduler, Registry: task.Hash(),
			Limit: w.cfg.MemoryLimit})
	}
	return metrics.Listen(metrics.Config{Address: w.cfg.Dashboard, Name: w.Name(), Host: host,
		Hosts: w.cfg.DashboardHosts, Token: w.cfg.DashboardToken, TLS: w.cfg.Accept.TLS,
		Logger: w.log, Go: w.tasks.Go,
		Collectors: append([]prometheus.Collector{metrics.Collector(w.snapshot), w.moved, metrics.UCX{}},
			w.cfg.Collectors...),
		Pages: []metrics.Page{
			{Path: "/status", What: "state of the worker", Handler: metrics.Status(summary)},
			{Path: "/millstream/worker", What: "the same as JSON", Handler: metrics.JSON(summary)},
			{Path: "/millstream/tasks", What: "last runs of tasks", Handler: metrics.List(w.Timelines)},
			{Path: "/millstream/transfers", What: "last transfers of data", Handler: metrics.List(w.Transfers)},
			{Path: "/millstream/disk", What: "last results spilled to disk and read back",
				Handler: metrics.List(w.DiskTransfers)},
		}})
}

// heartbeat returns the arguments of a heartbeat, and a function to call if it could not be sent.
func (w *Worker) heartbeat(extensions bool) (msgpack.Map, func()) {
	c := w.snapshot()
	more, failed := msgpack.Map{}, func() {}
	if extensions {
		report := w.transfers.TakeReport()
		more, failed = report.Extensions(), func() { w.transfers.PutBack(report) }
		if reports := w.host.Reports(); len(reports) > 0 {
			v, _ := more.Get("millstream")
			own, _ := v.(msgpack.Map)
			for name, r := range reports {
				own = append(own, msgpack.Pair{Key: name, Value: r})
			}
			more.Set("millstream", own)
		}
	}
	now := time.Now()
	executing := msgpack.Map{}
	for k, since := range c.Executing {
		executing = append(executing, msgpack.Pair{Key: k.Value(), Value: record.Seconds(now.UnixNano() - since)})
	}
	return msgpack.MapOf("address", w.address, "now", record.Unix(now),
			"metrics", c.Heartbeat(w.transfers.Bandwidths(), w.usage.Recent()), "executing", executing, "extensions",
			more),
		failed
}

// housekeep runs periodic work: it requests missing data, keeps the stream alive and samples the counters of the
// system.
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
			w.exec.LogAbandoned()
			if w.state.Count(state.Missing) > 0 {
				w.apply(&state.FindMissing{Stimulus: w.stimulus})
			}
			if n%60 == 0 && w.session != nil {
				w.out.KeepAlive()
			}
		})
	}
}
