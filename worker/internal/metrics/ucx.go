package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"go.millstream.dev/internal/comm/ucxstats"
)

// UCX collects the counters of the UCX workers of the process.
type UCX struct{}

func ucxDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("millstream_ucx_"+name, help, labels, nil)
}

var (
	descOps = ucxDesc("operations_total", "Number of UCX operations by kind", "operation")
	descOpB = ucxDesc("operation_bytes_total", "Bytes of UCX operations by kind", "operation")
	descUCX = []struct {
		desc  *prometheus.Desc
		kind  prometheus.ValueType
		value func(*ucxstats.Counters) float64
	}{
		{ucxDesc("errors_total", "Number of UCX operations that failed"), prometheus.CounterValue,
			func(c *ucxstats.Counters) float64 { return float64(c.Errors) }},
		{ucxDesc("endpoint_errors_total", "Number of UCX endpoints that failed"), prometheus.CounterValue,
			func(c *ucxstats.Counters) float64 { return float64(c.EndpointErrors) }},
		{ucxDesc("messages_total", "Number of active messages that arrived"), prometheus.CounterValue,
			func(c *ucxstats.Counters) float64 { return float64(c.Messages) }},
		{ucxDesc("message_bytes_total", "Bytes of active messages that arrived"), prometheus.CounterValue,
			func(c *ucxstats.Counters) float64 { return float64(c.MessageBytes) }},
		{ucxDesc("messages_dropped_total", "Number of active messages refused because the queue was full"),
			prometheus.CounterValue, func(c *ucxstats.Counters) float64 { return float64(c.MessagesDropped) }},
		{ucxDesc("progress_total", "Number of turns of the progress loop"), prometheus.CounterValue,
			func(c *ucxstats.Counters) float64 { return float64(c.Progress) }},
		{ucxDesc("spins_won_total", "Number of waits that ended while spinning"), prometheus.CounterValue,
			func(c *ucxstats.Counters) float64 { return float64(c.SpinsWon) }},
		{ucxDesc("spins_lost_total", "Number of waits that went to sleep"), prometheus.CounterValue,
			func(c *ucxstats.Counters) float64 { return float64(c.SpinsLost) }},
		{ucxDesc("parks_total", "Number of times that a goroutine slept for a completion"), prometheus.CounterValue,
			func(c *ucxstats.Counters) float64 { return float64(c.Parks) }},
		{ucxDesc("in_flight", "Number of operations that UCX has not finished"), prometheus.GaugeValue,
			func(c *ucxstats.Counters) float64 { return float64(c.InFlight) }},
		{ucxDesc("endpoints", "Number of open endpoints"), prometheus.GaugeValue,
			func(c *ucxstats.Counters) float64 { return float64(c.Endpoints) }},
		{ucxDesc("workers", "Number of UCX workers of the process"), prometheus.GaugeValue,
			func(c *ucxstats.Counters) float64 { return float64(c.Workers) }},
	}
)

// Describe implements prometheus.Collector.
func (UCX) Describe(out chan<- *prometheus.Desc) {
	out <- descOps
	out <- descOpB
	for _, d := range descUCX {
		out <- d.desc
	}
}

// Collect implements prometheus.Collector.
func (UCX) Collect(out chan<- prometheus.Metric) {
	c := ucxstats.Total()
	for name, n := range c.Ops {
		out <- prometheus.MustNewConstMetric(descOps, prometheus.CounterValue, float64(n.Count), name)
		out <- prometheus.MustNewConstMetric(descOpB, prometheus.CounterValue, float64(n.Bytes), name)
	}
	for _, d := range descUCX {
		out <- prometheus.MustNewConstMetric(d.desc, d.kind, d.value(&c))
	}
}
