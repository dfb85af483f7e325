package metrics

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"go.millstream.dev/internal/comm/descriptors"
	"go.millstream.dev/internal/comm/httpguard"
	"go.millstream.dev/secure"
)

// Config configures a Server.
type Config struct {
	// Address is the host:port to listen on; without a host the server listens on the loopback interface.
	Address string
	// Name is the name of the worker, Host the host of its address, Hosts further names that the server accepts.
	Name, Host string
	Hosts      []string
	// Token is the secret of the server, TLS the configuration of the worker's listener: see httpguard.Config.
	Token string
	TLS   *tls.Config
	// Collectors are the collectors of /metrics.
	Collectors []prometheus.Collector
	// Pages are further pages.
	Pages  []Page
	Logger *slog.Logger
	// Go starts a goroutine for which the worker waits when it closes.
	Go func(func())
}

// Page is a page of a Server.
type Page struct {
	Path, What string
	Handler    http.HandlerFunc
}

// Server is the HTTP server of a worker: /metrics, /health and its pages.
type Server struct {
	// Address is the host:port under which the server is reached, Port the port on which it listens.
	Address string
	Port    int
	server  *http.Server
}

// Listen starts a Server.
func Listen(cfg Config) (*Server, error) {
	address, err := httpguard.Address(cfg.Address, "")
	if err != nil {
		return nil, fmt.Errorf("worker: %w (--dashboard-address)", err)
	}
	registry := prometheus.NewRegistry()
	for _, c := range cfg.Collectors {
		if err := registry.Register(c); err != nil {
			return nil, fmt.Errorf("worker: metrics (Config.Collectors): %w", err)
		}
	}
	for _, c := range []prometheus.Collector{
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(collectors.MetricsGC)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		var twice prometheus.AlreadyRegisteredError
		if err := registry.Register(c); err != nil && !errors.As(err, &twice) { // programs may have their own
			return nil, fmt.Errorf("worker: metrics of the process: %w", err)
		}
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("worker: HTTP server at %q (--dashboard-address): %w", cfg.Address, err)
	}
	mux := http.NewServeMux()
	index := []httpguard.Page{{Path: "/health", What: "health check"},
		{Path: "/metrics", What: "metrics for Prometheus"}}
	for _, p := range cfg.Pages {
		index = append(index, httpguard.Page{Path: p.Path, What: p.What})
		mux.HandleFunc(p.Path, p.Handler)
	}
	redirectDask(mux)
	mux.HandleFunc("/", httpguard.Index("Millstream worker "+cfg.Name, index...))
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("/health", func(rw http.ResponseWriter, _ *http.Request) {
		rw.Header().Set("Content-Type", "text/plain")
		_, _ = rw.Write([]byte("ok"))
	})
	access, err := httpguard.NewAccess(l.Addr(), httpguard.Config{Token: cfg.Token, TLS: cfg.TLS, Admit: admit,
		Contact: cfg.Host, Hosts: cfg.Hosts, Logger: cfg.Logger})
	if err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("worker: %w", err)
	}
	s := &Server{Address: httpguard.Reachable(l.Addr().String(), cfg.Host),
		server: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}}
	if a, ok := l.Addr().(*net.TCPAddr); ok {
		s.Port = a.Port
	}
	cfg.Go(func() {
		err := access.Serve(s.server, httpguard.Limit(l, descriptors.ForHTTP()))
		if !errors.Is(err, http.ErrServerClosed) {
			cfg.Logger.Warn("HTTP server failed", "error", err)
		}
	})
	return s, nil
}

// admit reports whether the certificate of a connection allows a request: every role may read.
func admit(state *tls.ConnectionState, r *http.Request) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return secure.Allows(state, secure.Client)
	}
	return slices.ContainsFunc(secure.Roles(), func(role secure.Role) bool { return secure.Allows(state, role) })
}

// Close closes the server and its connections.
func (s *Server) Close() { _ = s.server.Close() }

// List returns a handler that writes the last n elements of a list as JSON (?n=, default all).
func List[T any](list func() []T) http.HandlerFunc {
	return func(rw http.ResponseWriter, r *http.Request) { writeJSON(rw, r, list()) }
}

// JSON returns a handler that writes a value as JSON.
func JSON[T any](value func() T) http.HandlerFunc {
	return func(rw http.ResponseWriter, _ *http.Request) { reply(rw, value()) }
}

func writeJSON[T any](rw http.ResponseWriter, r *http.Request, list []T) {
	if text := r.URL.Query().Get("n"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			http.Error(rw, "n must be a non-negative number", http.StatusBadRequest)
			return
		}
		list = list[len(list)-min(n, len(list)):]
	}
	reply(rw, list)
}

func reply(rw http.ResponseWriter, v any) {
	rw.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(rw).Encode(v) // fails only if the client has disconnected
}
