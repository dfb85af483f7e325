package metrics

import (
	"cmp"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"go.millstream.dev/internal/device/nvml"
	"go.millstream.dev/internal/engine/worker/state"
	"go.millstream.dev/internal/engine/worker/store"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/worker/internal/memory"
	"go.millstream.dev/worker/internal/transfer"
)

func TestMain(m *testing.M) { os.Exit(leak.Main(m)) }

// full returns a snapshot in which all figures differ.
func full() Snapshot {
	s := Snapshot{
		Stats:     state.Stats{NBytes: 1000, IncomingBytes: 11, IncomingCount: 12, IncomingTotal: 13, Executed: 14},
		Turns:     15,
		Abandoned: 16, AbandonedTotal: 17, Threads: 18, Latency: 0.25, Memory: 1500,
		Spilled: store.Spilled{Keys: 2, Memory: 300, Disk: 200}, Read: memory.Moved{Count: 21, Bytes: 22, Time: 23e9},
		Wrote: memory.Moved{Count: 24, Bytes: 25, Time: 26e9}, Sent: transfer.Counts{Open: 27, OpenBytes: 28, Total: 29,
			TotalBytes: 30},
	}
	for i, st := range States {
		switch st {
		case state.Memory:
			s.Counts[i] = 5
		case state.Executing:
			s.Counts[i] = 1
		}
	}
	return s
}

func TestHeartbeat(t *testing.T) {
	s := full()
	got := s.Heartbeat(msgpack.MapOf("total", 1), msgpack.MapOf("cpu", 2))
	for name, want := range map[string]any{
		"task_counts":         msgpack.MapOf("executing", 1, "memory", 5),
		"bandwidth":           msgpack.MapOf("total", 1),
		"managed_bytes":       int64(1000),
		"spilled_bytes":       msgpack.MapOf("memory", int64(300), "disk", int64(200)),
		"cpu":                 2,
		"event_loop_interval": 0.02,
		"transfer": msgpack.MapOf("incoming_bytes", s.Stats.IncomingBytes, "incoming_count", s.Stats.IncomingCount,
			"incoming_count_total",
			s.Stats.IncomingTotal, "outgoing_bytes", int64(28), "outgoing_count", int64(27), "outgoing_count_total",
			int64(29)),
	} {
		if v, ok := got.Get(name); !ok || !reflect.DeepEqual(v, want) {
			t.Errorf("%s: got %v, want %v", name, v, want)
		}
	}
}

// The memory of a GPU is that of the worker; the memory and use by all processes are those of the monitor.
func TestHeartbeatDevice(t *testing.T) {
	s := full()
	if v, ok := s.Heartbeat(nil, nil).Get("device"); ok {
		t.Errorf("device of a worker without one: %v", v)
	}
	s.Device = &Device{Results: 1, Limit: 2, Pinned: 3, Total: 4}
	want := msgpack.MapOf("used", int64(1), "limit", int64(2), "results", int64(1), "pinned", int64(3), "total",
		int64(4), "utilization", nil)
	if v, _ := s.Heartbeat(nil, nil).Get("device"); !reflect.DeepEqual(v, want) {
		t.Errorf("without a sample: got %v, want %v", v, want)
	}
	s.Device.Counted, s.Device.Allocated = true, 9
	s.GPU = &nvml.Sample{Utilization: 50, Used: 6, Total: 7}
	want = msgpack.MapOf("used", int64(9), "limit", int64(2), "results", int64(1), "pinned", int64(3), "total",
		int64(7), "utilization", 50)
	if v, _ := s.Heartbeat(nil, nil).Get("device"); !reflect.DeepEqual(v, want) {
		t.Errorf("with a sample: got %v, want %v", v, want)
	}
	got := scrape(t, func() Snapshot { return s })
	expectLines(t, got, "millstream_worker_gpu_utilization_ratio 0.5", `millstream_worker_gpu_memory_bytes{type="used"} 6`,
		`millstream_worker_gpu_memory_bytes{type="total"} 7`, `millstream_worker_device_bytes{type="pinned"} 3`)
	s.GPU = &nvml.Sample{Utilization: -1, Used: -1, Total: -1}
	for _, line := range scrape(t, func() Snapshot { return s }) {
		if strings.HasPrefix(line, "millstream_worker_gpu") {
			t.Errorf("unknown figure is exported: %s", line)
		}
	}
}

// scrape returns the lines that Prometheus reads.
func scrape(t *testing.T, c Collector) []string {
	t.Helper()
	reg := prometheus.NewPedanticRegistry() // compares Describe and Collect
	reg.MustRegister(c)
	rec := httptest.NewRecorder()
	promhttp.HandlerFor(reg, promhttp.HandlerOpts{}).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/metrics",
		nil))
	if rec.Code != http.StatusOK {
		t.Fatalf("%d: %s", rec.Code, rec.Body)
	}
	return strings.Split(strings.TrimSpace(rec.Body.String()), "\n")
}

// expectLines fails the test unless all lines are there.
func expectLines(t *testing.T, got []string, want ...string) {
	t.Helper()
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("no %s in\n%s", line, strings.Join(got, "\n"))
		}
	}
}

func TestCollector(t *testing.T) {
	got := scrape(t, full)
	expectLines(t, got,
		"dask_worker_latency_seconds 0.25",
		`dask_worker_memory_bytes{type="managed"} 700`,
		`dask_worker_memory_bytes{type="spilled"} 200`,
		`dask_worker_memory_bytes{type="unmanaged"} 800`,
		`dask_worker_spill_bytes_total{activity="disk_read"} 22`,
		`dask_worker_spill_bytes_total{activity="disk_write"} 25`,
		`dask_worker_spill_count_total{activity="disk_read"} 21`,
		`dask_worker_spill_count_total{activity="disk_write"} 24`,
		`dask_worker_spill_time_seconds_total{activity="disk_read"} 23`,
		`dask_worker_spill_time_seconds_total{activity="disk_write"} 26`,
		"dask_worker_tasks_executed_total 14",
		"dask_worker_threads 18",
		"dask_worker_tick_count_total 15",
		"dask_worker_transfer_incoming_bytes 11",
		"dask_worker_transfer_incoming_count 12",
		"dask_worker_transfer_incoming_count_total 13",
		"dask_worker_transfer_outgoing_bytes 28",
		"dask_worker_transfer_outgoing_bytes_total 30",
		"dask_worker_transfer_outgoing_count 27",
		"dask_worker_transfer_outgoing_count_total 29",
		"millstream_worker_tasks_abandoned 16",
		"millstream_worker_tasks_abandoned_total 17",
		`dask_worker_tasks{state="executing"} 1`,
		`dask_worker_tasks{state="released"} 0`,
	)
	if text := strings.Join(got, "\n"); strings.Contains(text, "device_bytes{") {
		t.Errorf("got metrics of a GPU without one: %s", text)
	}
}

// Tasks in memory and on disk are counted separately.
func TestCollectorStates(t *testing.T) {
	for keys, want := range map[int][]string{
		2: {`dask_worker_tasks{state="disk"} 2`, `dask_worker_tasks{state="memory"} 3`},
		9: {`dask_worker_tasks{state="disk"} 5`, `dask_worker_tasks{state="memory"} 0`},
	} {
		expectLines(t, scrape(t, func() Snapshot { s := full(); s.Spilled.Keys = keys; return s }), want...)
	}
}

// The managed memory is at most that of the process.
func TestCollectorMemory(t *testing.T) {
	expectLines(t, scrape(t, func() Snapshot { s := full(); s.Memory = 100; return s }),
		`dask_worker_memory_bytes{type="managed"} 100`, `dask_worker_memory_bytes{type="unmanaged"} 0`)
}

func TestCollectorDevice(t *testing.T) {
	d := Device{Results: 1, Limit: 2, Counted: true, Allocated: 3, Peak: 4,
		Up: memory.Moved{Count: 5, Bytes: 6, Time: 7e9}, Down: memory.Moved{Count: 8}}
	with := func() Snapshot { s := full(); s.Device = &d; return s }
	expectLines(t, scrape(t, with),
		`millstream_worker_device_bytes{type="results"} 1`, `millstream_worker_device_bytes{type="limit"} 2`,
		`millstream_worker_device_bytes{type="allocated"} 3`, `millstream_worker_device_bytes{type="peak"} 4`,
		`millstream_worker_device_moves_total{direction="up"} 5`,
		`millstream_worker_device_moves_total{direction="down"} 8`,
		`millstream_worker_device_move_bytes_total{direction="up"} 6`,
		`millstream_worker_device_move_seconds_total{direction="up"} 7`)
	d.Counted = false
	if text := strings.Join(scrape(t, with), "\n"); strings.Contains(text, "allocated\"}") {
		t.Errorf("got allocations that are not counted: %s", text)
	}
}

func listen(t *testing.T, cfg Config) *Server {
	t.Helper()
	var all sync.WaitGroup
	cfg.Logger, cfg.Go = slog.New(slog.DiscardHandler), all.Go
	cfg.Address = cmp.Or(cfg.Address, "127.0.0.1:0")
	s, err := Listen(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		all.Wait()
		http.DefaultClient.CloseIdleConnections()
	})
	return s
}

func get(t *testing.T, s *Server, path string) (int, string) {
	t.Helper()
	r, err := http.Get("http://" + s.Address + path)
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

func TestServer(t *testing.T) {
	s := listen(t, Config{Name: "w7", Host: "127.0.0.1", Collectors: []prometheus.Collector{Collector(full)},
		Pages: []Page{
			{"/list", "numbers", List(func() []int { return []int{1, 2, 3} })},
			{"/one", "a summary", JSON(func() Summary {
				f := full()
				return f.Summarize(Summary{Address: "tcp://a:1", Limit: 9})
			})},
		}})
	if s.Port == 0 {
		t.Error("no port")
	}
	for path, want := range map[string]string{"/list": "[1,2,3]\n", "/list?n=2": "[2,3]\n", "/list?n=0": "[]\n",
		"/list?n=9": "[1,2,3]\n", "/health": "ok"} {
		if code, got := get(t, s, path); code != http.StatusOK || got != want {
			t.Errorf("%s: %d, %q; want %q", path, code, got, want)
		}
	}
	for path, want := range map[string]string{"/": "w7", "/metrics": "dask_worker_threads 18"} {
		if code, got := get(t, s, path); code != http.StatusOK || !strings.Contains(got, want) {
			t.Errorf("%s: %d, no %q in %.500s", path, code, want, got)
		}
	}
	for _, page := range []string{"/list", "numbers", "/health", "/metrics"} {
		if _, got := get(t, s, "/"); !strings.Contains(got, page) {
			t.Errorf("index: got no %s in %s", page, got)
		}
	}
	for _, path := range []string{"/list?n=-1", "/list?n=x"} {
		if code, got := get(t, s, path); code != http.StatusBadRequest || !strings.Contains(got, "non-negative") {
			t.Errorf("%s: %d, %q", path, code, got)
		}
	}
	_, text := get(t, s, "/one")
	var one Summary
	if err := json.Unmarshal([]byte(text), &one); err != nil || one.Address != "tcp://a:1" || one.Limit != 9 ||
		one.Threads != 18 || one.Memory != 1500 ||
		one.Managed != 1000 || one.Spilled != 200 || one.Executed != 14 || one.Tasks["memory"] != 5 ||
		one.Tasks["released"] != 0 {
		t.Errorf("got %+v, %v", one, err)
	}
}

// Every page except /health needs the token on an address that other machines reach, by header, cookie or link, and
// none on the loopback interface. Pages of other servers get nothing.
func TestServerToken(t *testing.T) {
	const token = "0123456789abcdefXYZ"
	pages := []Page{{"/list", "numbers", List(func() []int { return []int{1} })}}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ask := func(s *Server, method, path string, header ...string) *http.Response {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.Address+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		if host := r.Header.Get("Host"); host != "" {
			r.Host = host
		}
		a, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = a.Body.Close()
		return a
	}
	for _, c := range []struct {
		address, token string
		open           bool
	}{{"127.0.0.1:0", "", true}, {"0.0.0.0:0", "", false}, {"0.0.0.0:0", "none", true}, {"0.0.0.0:0", token, false},
		{"127.0.0.1:0", token, false}} {
		s := listen(t, Config{Address: c.address, Token: c.token, Pages: pages, Host: "127.0.0.1"})
		link := ask(s, "GET", "/list?token="+token)
		var cookie string
		if cookies := link.Cookies(); len(cookies) > 0 {
			cookie = cookies[0].Name + "=" + cookies[0].Value
		}
		if got, want := cookie != "", c.token == token; got != want {
			t.Errorf("%s, token %q: got a cookie %v, want %v", c.address, c.token, got, want)
		}
		for _, path := range []string{"/", "/metrics", "/list", "/health"} {
			for _, r := range []struct {
				name   string
				header []string
				admits bool
			}{
				{"nothing", nil, false},
				{"wrong header", []string{"Authorization", "Bearer 0123456789abcdefXYA"}, false},
				{"header", []string{"Authorization", "Bearer " + token}, true},
				{"cookie", []string{"Cookie", cookie}, true},
				{"wrong cookie", []string{"Cookie", "millstream=" + token}, false},
			} {
				want := http.StatusUnauthorized
				if path == "/health" || c.open || r.admits && c.token == token {
					want = http.StatusOK
				}
				if got := ask(s, "GET", path, r.header...).StatusCode; got != want {
					t.Errorf("%s, token %q, %s with %s: got status %d, want %d", c.address, c.token, path, r.name, got,
						want)
				}
				for _, foreign := range [][]string{{"Origin", "http://evil.example"}, {"Host", "evil.example"},
					{"Sec-Fetch-Site", "cross-site"}} {
					if got := ask(s, "GET", path, append(foreign, r.header...)...).StatusCode; got != 403 {
						t.Errorf("%s, %s with %s and %v: got status %d, want 403", c.address, path, r.name, foreign,
							got)
					}
				}
			}
		}
	}
}

func TestServerFails(t *testing.T) {
	busy := listen(t, Config{})
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "g"})
	for name, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"a port in use": {Config{Address: busy.Address}, "--dashboard-address"},
		"no address":    {Config{Address: "a:b:c"}, "--dashboard-address"},
		"equal metrics": {Config{Address: "127.0.0.1:0", Collectors: []prometheus.Collector{g, g}},
			"Config.Collectors"},
		"a short token": {Config{Address: "127.0.0.1:0", Token: "short"}, "token of 5 characters"},
		"no such port":  {Config{Address: "127.0.0.1:99999"}, "--dashboard-address"},
	} {
		if s, err := Listen(c.cfg); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, %v; want %s", name, s, err, c.want)
		}
	}
}
