package worker

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/device/devmem"
	"go.millstream.dev/internal/httpguard"
	"go.millstream.dev/internal/task"
)

// httpServer is the worker's HTTP side: /metrics, /health, /millstream/….
type httpServer struct {
	address string
	port    int
	server  *http.Server
}

func (w *Worker) startHTTP() (*httpServer, error) {
	address, err := httpguard.Address(w.cfg.Dashboard, "")
	if err != nil {
		return nil, fmt.Errorf("worker: %w (--dashboard-address)", err)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("worker: HTTP server at %q (--dashboard-address): %w", w.cfg.Dashboard, err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collector{w}, devmem.Collector{})
	mux := http.NewServeMux()
	mux.HandleFunc("/", httpguard.Index("Millstream worker "+w.Name(),
		httpguard.Page{Path: "/health", What: "whether the worker answers"},
		httpguard.Page{Path: "/metrics", What: "metrics for Prometheus"},
		httpguard.Page{Path: "/millstream/worker", What: "the worker at a glance"},
		httpguard.Page{Path: "/millstream/tasks", What: "tasks that ran last"},
		httpguard.Page{Path: "/millstream/transfers", What: "transfers of data"},
		httpguard.Page{Path: "/millstream/disk", What: "what was spilled to disk and read back"},
	))
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/health", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/plain")
		_, _ = rw.Write([]byte("ok"))
	})
	mux.HandleFunc("/millstream/transfers", func(rw http.ResponseWriter, r *http.Request) { writeJSON(rw, r, w.Transfers()) })
	mux.HandleFunc("/millstream/tasks", func(rw http.ResponseWriter, r *http.Request) { writeJSON(rw, r, w.Timelines()) })
	mux.HandleFunc("/millstream/disk", func(rw http.ResponseWriter, r *http.Request) { writeJSON(rw, r, w.DiskTransfers()) })
	mux.HandleFunc("/millstream/worker", func(rw http.ResponseWriter, _ *http.Request) { reply(rw, w.summary()) })
	host, _ := comm.AddressHost(w.address)
	guarded := httpguard.Guard(mux, append([]string{host}, w.cfg.DashboardHosts...)...)
	s := &httpServer{address: httpguard.Reachable(l.Addr().String(), host), server: &http.Server{Handler: guarded, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}}
	if a, ok := l.Addr().(*net.TCPAddr); ok {
		s.port = a.Port
	}
	w.tasks.Go(func() {
		if err := s.server.Serve(httpguard.Limit(l, comm.DescriptorsForHTTP())); !errors.Is(err, http.ErrServerClosed) {
			w.log.Warn("the HTTP server ended", "error", err)
		}
	})
	return s, nil
}

func (s *httpServer) close() { _ = s.server.Close() }

// writeJSON writes the last n of a list (?n=, default all).
func writeJSON[T any](rw http.ResponseWriter, r *http.Request, list []T) {
	if text := r.URL.Query().Get("n"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			http.Error(rw, "n must be a number that is not negative", http.StatusBadRequest)
			return
		}
		list = list[len(list)-min(n, len(list)):]
	}
	reply(rw, list)
}

func reply(rw http.ResponseWriter, v any) {
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(v) // who has gone needs no answer
}

// summary is the worker at a glance.
type summary struct {
	Address   string         `json:"address"`
	Name      string         `json:"name"`
	Status    string         `json:"status"`
	Threads   int            `json:"threads"`
	Lanes     []string       `json:"lanes"`
	Scheduler string         `json:"scheduler"`
	Registry  string         `json:"registry"`
	Tasks     map[string]int `json:"tasks"`
	Memory    int64          `json:"memory"`
	Limit     int64          `json:"memory_limit"`
	Managed   int64          `json:"managed"`
	Spilled   int64          `json:"spilled"`
	Executed  uint64         `json:"executed"`
}

func (w *Worker) summary() summary {
	c := w.counts()
	s := summary{Address: w.address, Name: w.Name(), Status: w.Status(), Threads: w.cfg.Threads, Lanes: w.Lanes(), Scheduler: w.cfg.Scheduler,
		Registry: task.Hash(), Tasks: map[string]int{}, Memory: w.memory.Usage(), Limit: w.cfg.MemoryLimit,
		Managed: c.stats.NBytes, Spilled: w.data.Spilled().Disk, Executed: c.stats.Executed}
	for i, st := range stateList {
		s.Tasks[st.String()] = c.tasks[i]
	}
	return s
}
