package devmem

import (
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Stats is a snapshot of the GPU memory of this process.
type Stats struct {
	// Device is the GPU's UUID.
	Device string
	// InUse is the number of allocated bytes, Peak their maximum, Allocations the number of allocations.
	InUse, Peak, Allocations int64
	// Pool is the size of the pool in bytes, 0 without one, and Maximum its bound, 0 for none.
	Pool, Maximum int64
}

// Stats returns a snapshot.
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

// All returns the statistics of all open memories of this process.
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

// Collector exports the statistics to Prometheus. A process without GPU memory has none.
type Collector struct{}

// Describe implements prometheus.Collector.
func (Collector) Describe(out chan<- *prometheus.Desc) { out <- descBytes; out <- descCount }

// Collect implements prometheus.Collector. Memories of one GPU are added up.
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
