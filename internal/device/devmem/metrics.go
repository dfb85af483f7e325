package devmem

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Stats is a snapshot of a GPU's memory as this process has it.
type Stats struct {
	// Device is the GPU's UUID.
	Device string
	// InUse is how many bytes are handed out, Peak the most at one time, Allocations how many
	// there were.
	InUse, Peak, Allocations int64
	// Pool is how many bytes a pool has taken from the driver, 0 without one, and Maximum what
	// it may grow to, 0 for no bound.
	Pool, Maximum int64
}

// Stats counts.
func (m *Memory) Stats() Stats {
	c := m.stats.Counters()
	s := Stats{Device: m.device.UUID, InUse: c.Bytes, Peak: c.PeakBytes, Allocations: c.TotalCount,
		Maximum: m.cfg.MaximumPoolSize}
	switch {
	case m.pool != nil:
		s.Pool = m.pool.Stats().Reserved
	case m.cfg.Async:
		s.Pool = m.driver.PoolReserved(m.cfg.Device)
	}
	return s
}

// opened are the memories of this process.
var opened struct {
	sync.Mutex
	list []*Memory
}

func register(m *Memory) {
	opened.Lock()
	defer opened.Unlock()
	opened.list = append(opened.list, m)
}

func unregister(m *Memory) {
	opened.Lock()
	defer opened.Unlock()
	opened.list = slices.DeleteFunc(opened.list, func(o *Memory) bool { return o == m })
}

// All are the figures of all memories that are open in this process.
func All() []Stats {
	opened.Lock()
	list := slices.Clone(opened.list)
	opened.Unlock()
	out := make([]Stats, 0, len(list))
	for _, m := range list {
		out = append(out, m.Stats())
	}
	return out
}

var (
	descBytes = prometheus.NewDesc("millstream_device_memory_bytes", "GPU memory of this process: in_use is handed "+
		"out, peak the most at one time, pool what a pool has taken from the driver, maximum what that may grow to",
		[]string{"device", "type"}, nil)
	descCount = prometheus.NewDesc("millstream_device_allocations_total", "Allocations of GPU memory by this process",
		[]string{"device"}, nil)
)

// Collector shows them to Prometheus. A process without a GPU's memory has none of them.
type Collector struct{}

// Describe lists the metrics.
func (Collector) Describe(out chan<- *prometheus.Desc) { out <- descBytes; out <- descCount }

// Collect reads them. Memories of one GPU are counted together.
func (Collector) Collect(out chan<- prometheus.Metric) {
	sums := map[string]Stats{}
	for _, s := range All() {
		t := sums[s.Device]
		t.InUse, t.Peak, t.Allocations, t.Pool, t.Maximum = t.InUse+s.InUse, t.Peak+s.Peak, t.Allocations+s.Allocations,
			t.Pool+s.Pool, t.Maximum+s.Maximum
		sums[s.Device] = t
	}
	for device, s := range sums {
		for _, g := range []struct {
			name  string
			value int64
		}{{"in_use", s.InUse}, {"peak", s.Peak}, {"pool", s.Pool}, {"maximum", s.Maximum}} {
			out <- prometheus.MustNewConstMetric(descBytes, prometheus.GaugeValue, float64(g.value), device, g.name)
		}
		out <- prometheus.MustNewConstMetric(descCount, prometheus.CounterValue, float64(s.Allocations), device)
	}
}
