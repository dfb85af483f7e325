package scheduler

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// ownMetrics are metrics of the scheduler that are not part of its state.
type ownMetrics struct {
	journal prometheus.Histogram // seconds of a commit
	queue   prometheus.GaugeFunc
	backlog prometheus.GaugeFunc
	dropped prometheus.CounterFunc
}

func newMetrics(queued func() int, backlog func() int64, dropped func() uint64) *ownMetrics {
	return &ownMetrics{
		journal: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "millstream_scheduler_journal_commit_seconds",
			Help:    "Duration of a group commit of the journal: write and sync",
			Buckets: prometheus.ExponentialBuckets(1e-4, 4, 9), NativeHistogramBucketFactor: 1.1,
			NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour}),
		queue: prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "millstream_scheduler_queue_length",
			Help: "Number of messages and functions that wait for the loop of the scheduler"},
			func() float64 { return float64(queued()) }),
		backlog: prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "millstream_scheduler_outgoing_bytes",
			Help: "Bytes of messages that are queued for workers and clients"},
			func() float64 { return float64(backlog()) }),
		dropped: prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "millstream_scheduler_plugin_events_dropped_total",
			Help: "Number of events that scheduler plugins did not receive, because they were too slow or ended"},
			func() float64 { return float64(dropped()) }),
	}
}

func (m *ownMetrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.journal, m.queue, m.backlog, m.dropped}
}

// committed observes a commit of the journal.
func (m *ownMetrics) committed(d time.Duration) { m.journal.Observe(d.Seconds()) }
