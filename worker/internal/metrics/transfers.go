package metrics

import (
	"cmp"
	"net"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"go.millstream.dev/worker/internal/transfer"
)

// maxTransports bounds the number of transports with series of their own. UCX and the configuration choose their names.
const maxTransports = 24

// Transfers counts the transfers of a worker by direction, transport and class of the peer. Any goroutine may use it.
type Transfers struct {
	bytes, seconds *prometheus.HistogramVec
	failures       *prometheus.CounterVec
	host           func() string // of the worker

	mu         sync.Mutex // guards transports
	transports map[string]bool
}

// NewTransfers returns counters without transfers. address returns the address of the worker.
func NewTransfers(address func() string) *Transfers {
	labels := []string{"direction", "transport", "peer"}
	const peer = " by transport and peer: same_host, other_host, gpu (memory of a GPU)"
	t := &Transfers{
		bytes: prometheus.NewHistogramVec(histogram("millstream_worker_transfer_bytes",
			"Size of transfers of results"+peer, prometheus.ExponentialBuckets(256, 16, 8)), labels),
		seconds: prometheus.NewHistogramVec(histogram("millstream_worker_transfer_seconds",
			"Duration of transfers of results"+peer, prometheus.ExponentialBuckets(1e-4, 4, 10)), labels),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "millstream_worker_transfer_failures_total",
			Help: "Number of transfers of results that failed, by reason"}, []string{"direction", "reason"}),
		host: sync.OnceValue(func() string { return host(address()) }), transports: map[string]bool{}}
	for _, r := range transfer.Reasons { // so that rates are right from the first failure on
		t.failures.WithLabelValues("incoming", r)
		t.failures.WithLabelValues("outgoing", r)
	}
	return t
}

// histogram returns the options of a histogram with native buckets, and classic ones for scrapers without them.
func histogram(name, help string, buckets []float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets, NativeHistogramBucketFactor: 1.1,
		NativeHistogramMaxBucketNumber: 100, NativeHistogramMinResetDuration: time.Hour}
}

// Observe adds a transfer that has ended; reason is "" for success.
func (t *Transfers) Observe(r *transfer.Record, reason string) {
	direction := "outgoing"
	if r.Incoming {
		direction = "incoming"
	}
	if reason != "" {
		t.failures.WithLabelValues(direction, reason).Inc()
		return
	}
	transport, peer := t.transport(r), t.class(r)
	t.bytes.WithLabelValues(direction, transport, peer).Observe(float64(r.Bytes))
	t.seconds.WithLabelValues(direction, transport, peer).Observe(r.Took.Seconds())
}

// transport returns the label of the transport of a transfer: that of UCX, or the scheme.
func (t *Transfers) transport(r *transfer.Record) string {
	name := cmp.Or(r.Transport(), r.Scheme)
	if name == "" {
		return "unknown"
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.transports[name] {
		if len(t.transports) >= maxTransports || len(name) > 64 {
			return "other"
		}
		t.transports[strings.Clone(name)] = true
	}
	return strings.ToValidUTF8(name, "?")
}

// class returns the class of the peer of a transfer.
func (t *Transfers) class(r *transfer.Record) string {
	if r.DeviceBytes > r.Bytes/2 {
		return "gpu"
	}
	h := host(r.Peer)
	if r.Scheme == "inproc" || h != "" && (h == t.host() || h == "localhost" || isLoopback(h)) {
		return "same_host"
	}
	return "other_host"
}

// host returns the host of an address such as tcp://host:port, "" if it has none.
func host(address string) string {
	_, rest, _ := strings.Cut(address, "://")
	h, _, _ := net.SplitHostPort(rest)
	return h
}

func isLoopback(h string) bool {
	a, err := netip.ParseAddr(h)
	return err == nil && a.IsLoopback()
}

// Describe implements prometheus.Collector.
func (t *Transfers) Describe(out chan<- *prometheus.Desc) {
	t.bytes.Describe(out)
	t.seconds.Describe(out)
	t.failures.Describe(out)
}

// Collect implements prometheus.Collector.
func (t *Transfers) Collect(out chan<- prometheus.Metric) {
	t.bytes.Collect(out)
	t.seconds.Collect(out)
	t.failures.Collect(out)
}
