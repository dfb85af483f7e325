package metrics

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"go.millstream.dev/internal/comm/ucxstats"
	"go.millstream.dev/worker/internal/transfer"
)

// text returns what a scraper of the text format reads.
func text(t *testing.T, c prometheus.Collector) []string {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(c)
	rec := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/", nil))
	if rec.Code != http.StatusOK {
		t.Fatalf("%d: %s", rec.Code, rec.Body)
	}
	return strings.Split(strings.TrimSpace(rec.Body.String()), "\n")
}

func TestTransfers(t *testing.T) {
	m := NewTransfers(func() string { return "tcp://10.0.0.1:1" })
	for _, r := range []transfer.Record{
		{Peer: "tcp://10.0.0.1:2", Incoming: true, Scheme: "tcp", Bytes: 1000, Took: time.Second},
		{Peer: "tcp://127.0.0.1:2", Incoming: true, Scheme: "tcp", Bytes: 3000, Took: time.Second},
		{Peer: "tls://10.0.0.2:2", Scheme: "tls", Bytes: 5000, Took: 2 * time.Second},
		{Peer: "ucxx://10.0.0.1:2", Incoming: true, Scheme: "ucxx", Bytes: 7000, DeviceBytes: 7000,
			Transports: []string{"cma", "cuda_ipc", "tcp"}, Took: 3 * time.Second},
		{Peer: "ucxx://10.0.0.2:2", Incoming: true, Scheme: "ucxx", Bytes: 9000,
			Transports: []string{"rc_mlx5", "tcp"}, Took: 4 * time.Second},
		{Peer: "ucxx://10.0.0.2:2", Scheme: "ucxx", Bytes: 11_000,
			Transports: []string{"cuda_copy", "stripes", "tcp"}, Took: 5 * time.Second},
		{Incoming: true, Bytes: 1, Took: time.Second},
	} {
		m.Observe(&r, "")
	}
	m.Observe(&transfer.Record{Incoming: true, Peer: "tcp://10.0.0.1:2", Scheme: "tcp"}, "timeout")
	expectLines(t, text(t, m),
		`millstream_worker_transfer_bytes_sum{direction="incoming",peer="same_host",transport="tcp"} 4000`,
		`millstream_worker_transfer_bytes_count{direction="incoming",peer="same_host",transport="tcp"} 2`,
		`millstream_worker_transfer_bytes_bucket{direction="incoming",peer="same_host",transport="tcp",le="4096"} 2`,
		`millstream_worker_transfer_seconds_sum{direction="outgoing",peer="other_host",transport="tls"} 2`,
		`millstream_worker_transfer_bytes_sum{direction="incoming",peer="gpu",transport="cuda_ipc"} 7000`,
		`millstream_worker_transfer_seconds_sum{direction="incoming",peer="other_host",transport="rc_mlx5"} 4`,
		`millstream_worker_transfer_seconds_sum{direction="outgoing",peer="other_host",transport="stripes"} 5`,
		`millstream_worker_transfer_bytes_sum{direction="incoming",peer="other_host",transport="unknown"} 1`,
		`millstream_worker_transfer_failures_total{direction="incoming",reason="timeout"} 1`,
		`millstream_worker_transfer_failures_total{direction="outgoing",reason="closed"} 0`)
}

// Scrapers that support them get native buckets.
func TestNativeHistograms(t *testing.T) {
	m := NewTransfers(func() string { return "tcp://10.0.0.1:1" })
	m.Observe(&transfer.Record{Incoming: true, Scheme: "tcp", Bytes: 1000, Took: time.Second}, "")
	reg := prometheus.NewRegistry()
	reg.MustRegister(m)
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	native := 0
	for _, f := range families {
		if h := f.GetMetric()[0].GetHistogram(); h != nil && len(h.GetPositiveSpan()) > 0 && len(h.GetBucket()) > 0 {
			native++
		}
	}
	if native != 2 {
		t.Errorf("histograms with native and classic buckets: got %d, want 2", native)
	}
}

// The number of series is bounded whatever names there are.
func TestTransportsBounded(t *testing.T) {
	m := NewTransfers(func() string { return "tcp://10.0.0.1:1" })
	for i := range 1000 {
		m.Observe(&transfer.Record{Scheme: fmt.Sprint("scheme", i), Peer: fmt.Sprintf("tcp://10.0.1.%d:1", i%256)}, "")
	}
	m.Observe(&transfer.Record{Scheme: "\xff\xfe"}, "")
	series := 0
	for _, line := range text(t, m) {
		if strings.HasPrefix(line, "millstream_worker_transfer_bytes_count") {
			series++
		}
	}
	if series != maxTransports+1 {
		t.Errorf("series: got %d, want %d and other", series, maxTransports)
	}
}

func TestUCX(t *testing.T) {
	before := ucxstats.Total() // of earlier runs of the test
	sends := before.Ops["tag send"]
	ucxstats.Add(t, func() ucxstats.Counters {
		return ucxstats.Counters{Ops: map[string]ucxstats.Op{"tag send": {Count: 3, Bytes: 30}}, Errors: 1,
			Endpoints: 2}
	})
	defer ucxstats.Remove(t)
	expectLines(t, text(t, UCX{}),
		fmt.Sprintf(`millstream_ucx_operations_total{operation="tag send"} %d`, sends.Count+3),
		fmt.Sprintf(`millstream_ucx_operation_bytes_total{operation="tag send"} %d`, sends.Bytes+30),
		fmt.Sprintf("millstream_ucx_errors_total %d", before.Errors+1), "millstream_ucx_endpoints 2",
		"millstream_ucx_workers 1")
}
