package scheduler

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// scrape returns the status and the text of /metrics.
func scrape(t *testing.T, s *Scheduler) (int, string) {
	t.Helper()
	r, err := http.Get("http://" + s.DashboardAddress() + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

// Metrics of the process are served together with those of the scheduler.
func TestCollectors(t *testing.T) {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "test_bytes", Help: "Of this test."})
	g.Set(7)
	s := start(t, Config{Dashboard: "127.0.0.1:0", Collectors: []prometheus.Collector{g}})
	for range 2 { // each scrape has a registry of its own
		if status, text := scrape(t, s); status != http.StatusOK || !strings.Contains(text, "\ntest_bytes 7\n") ||
			!strings.Contains(text, "\ndask_scheduler_clients ") {
			t.Errorf("/metrics: got %d, %.2000s; want test_bytes and dask_scheduler_clients", status, text)
		}
	}
}

// Collectors that cannot be served together are an error of each scrape, not of the process.
func TestCollectorsOfOneName(t *testing.T) {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "test_bytes", Help: "Of this test."})
	s := start(t, Config{Dashboard: "127.0.0.1:0", Collectors: []prometheus.Collector{g, g}})
	if status, text := scrape(t, s); status != http.StatusInternalServerError || !strings.Contains(text, "Collectors") {
		t.Errorf("/metrics: got %d, %.2000s; want 500 and Config.Collectors", status, text)
	}
}
