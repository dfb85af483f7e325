package inspect

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/comm/descriptors"
	"go.millstream.dev/internal/comm/httpguard"
	"go.millstream.dev/internal/dashboard/web"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
	"go.millstream.dev/scheduler/internal/shortage"
	"go.millstream.dev/scheduler/internal/val"
	"go.millstream.dev/secure"
)

// httpServer serves /health, /metrics, /info/… and /millstream/….
type httpServer struct {
	server *http.Server
	addr   string
	port   int
	done   chan struct{}
}

// Serve starts the HTTP server on host:port, without a host on the loopback interface; with port 0 the system chooses
// the port.
func (s *Inspector) Serve(address string) error {
	address, err := httpguard.Address(address, "")
	if err != nil {
		return fmt.Errorf("scheduler: %w", err)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(s.Context, "tcp", address)
	if err != nil {
		return fmt.Errorf("scheduler: dashboard address %s: %w", address, err)
	}
	contact, _ := comm.AddressHost(s.Contact())
	h := &httpServer{addr: httpguard.Reachable(l.Addr().String(), contact), done: make(chan struct{})}
	if a, ok := l.Addr().(*net.TCPAddr); ok {
		h.port = a.Port
	}
	access, err := httpguard.NewAccess(l.Addr(), httpguard.Config{Token: s.Token, TLS: s.TLS, Admit: admit,
		Contact: contact, Hosts: s.Hosts, Logger: s.Log})
	if err != nil {
		_ = l.Close()
		return fmt.Errorf("scheduler: %w", err)
	}
	h.server = &http.Server{
		Handler:           s.daskPaths(s.API || access.Protected(), s.routes()),
		ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
		MaxHeaderBytes: 1 << 16,
		BaseContext:    func(net.Listener) context.Context { return s.Context },
	}
	s.http = h // before the first request, which may read it
	go func() {
		defer close(h.done)
		err := access.Serve(h.server, httpguard.Limit(l, descriptors.ForHTTP()))
		if !errors.Is(err, http.ErrServerClosed) {
			s.Log.Error("HTTP server failed", "error", err)
		}
	}()
	s.Log.Debug("dashboard listening", "address", h.addr) // the command prints the address
	return nil
}

// admit reports whether the certificate of a connection allows a request: every role may read, clients may do more.
func admit(state *tls.ConnectionState, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return slices.ContainsFunc(secure.Roles(), func(role secure.Role) bool { return secure.Allows(state, role) })
	}
	return secure.Allows(state, secure.Client)
}

// Address returns the host:port at which a browser reaches the HTTP server; "" without one.
func (s *Inspector) Address() string {
	if s.http == nil {
		return ""
	}
	return s.http.addr
}

// Close closes the HTTP server.
func (s *Inspector) Close(ctx context.Context) {
	if s.dashboard != nil {
		s.dashboard.Close() // live streams, which have no end of their own
	}
	s.http.close(ctx)
}

func (h *httpServer) close(ctx context.Context) {
	if h == nil {
		return
	}
	if err := h.server.Shutdown(ctx); err != nil {
		_ = h.server.Close()
	}
	<-h.done
}

func (s *Inspector) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", httpguard.Index("Millstream scheduler "+s.Contact(),
		httpguard.Page{Path: "/health", What: "whether the scheduler answers"},
		httpguard.Page{Path: "/metrics", What: "metrics for Prometheus"},
		httpguard.Page{Path: "/json/identity.json", What: "the cluster and its workers"},
		httpguard.Page{Path: "/json/counts.json", What: "numbers of workers, clients and tasks"},
		httpguard.Page{Path: "/millstream/unrunnable", What: "tasks that no worker can run, and why"},
		httpguard.Page{Path: "/millstream/tasks", What: "tasks that ran last"},
		httpguard.Page{Path: "/millstream/transfers", What: "transfers of data between workers"},
		httpguard.Page{Path: "/millstream/events", What: "events; another topic with ?topic="},
	))
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) {
		// A scheduler is healthy if its loop responds.
		if err := s.Loop.Do(r.Context(), func() {}); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte("ok"))
	})
	mux.Handle("GET /metrics", s.metricsHandler())
	mux.HandleFunc("GET /json/identity.json", s.answerJSON(func(r *http.Request) ([]byte, error) {
		id, err := loop.Ask(r.Context(), s.Loop, func() (msgpack.Map, error) { return s.Identity(-1), nil })
		if err != nil {
			return nil, err
		}
		return json.Marshal(plain(id))
	}))
	mux.HandleFunc("GET /json/counts.json", s.answerJSON(s.countsJSON))
	mux.HandleFunc("GET /millstream/tasks", s.answerJSON(func(r *http.Request) ([]byte, error) {
		from, err := queryInt(r, "since", 0)
		if err != nil {
			return nil, err
		}
		n, err := queryInt(r, "count", 0)
		if err != nil {
			return nil, err
		}
		return s.TaskStream.JSON(r.Context(), from, int(n))
	}))
	mux.HandleFunc("GET /millstream/unrunnable", s.answerJSON(func(r *http.Request) ([]byte, error) {
		list, err := loop.Ask(r.Context(), s.Loop, func() ([]shortage.Entry, error) { return s.Shortages.List(), nil })
		if err != nil {
			return nil, err
		}
		return json.Marshal(map[string]any{"unrunnable": list})
	}))
	mux.HandleFunc("GET /millstream/transfers", s.answerJSON(func(r *http.Request) ([]byte,
		error) {
		return s.Transfers.JSON(r.Context())
	}))
	mux.HandleFunc("GET /millstream/events", s.answerJSON(func(r *http.Request) ([]byte, error) {
		topic := r.URL.Query().Get("topic")
		list, err := loop.Ask(r.Context(), s.Loop, func() ([]any, error) {
			return s.Topics.List(val.OrText(topic, "all")), nil
		})
		if err != nil {
			return nil, err
		}
		return json.Marshal(map[string]any{"events": plain(list)})
	}))
	if s.dashboard != nil {
		s.dashboard.Register(mux)
		mux.Handle("GET /{$}", web.Handler()) // instead of the list of pages
		mux.Handle("GET /static/", web.Handler())
	}
	return mux
}

// badQuery is the error of an invalid query.
type badQuery struct{ error }

func queryInt(r *http.Request, name string, otherwise int64) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, badQuery{fmt.Errorf("%s=%s: want a number", name, text)}
	}
	return n, nil
}

func (s *Inspector) answerJSON(f func(*http.Request) ([]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		b, err := f(r)
		var bad badQuery
		switch {
		case errors.As(err, &bad):
			http.Error(w, err.Error(), http.StatusBadRequest)
		case err != nil:
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		default:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write(b)
		}
	}
}

// plain converts a value from msgpack to one that encoding/json accepts.
func plain(v any) any {
	switch v := v.(type) {
	case msgpack.Map:
		out := make(map[string]any, len(v))
		for _, p := range v {
			key, ok := p.Key.(string)
			if !ok {
				key = fmt.Sprint(p.Key)
			}
			out[key] = plain(p.Value)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = plain(x)
		}
		return out
	case msgpack.Raw:
		d, err := msgpack.Decode(v)
		if err != nil {
			return nil
		}
		return plain(d)
	case nil, bool, string, int, int64, uint64:
		return v
	case float64:
		if v != v || v > 1e308 || v < -1e308 {
			return nil
		}
		return v
	}
	return fmt.Sprint(v)
}

// countsJSON serves /json/counts.json, as in Dask.
func (s *Inspector) countsJSON(r *http.Request) ([]byte, error) {
	counts, err := loop.Ask(r.Context(), s.Loop, func() (map[string]any, error) {
		m := s.sample()
		hosts, held, waiting, waiters := map[string]bool{}, 0, 0, 0
		for w := range s.State.Workers() {
			held += w.NumHeld()
		}
		for _, w := range s.Workers.ByAddress {
			hosts[w.Host] = true
		}
		for t := range s.State.Tasks() {
			if t.NumWaiters() > 0 {
				waiters++
			}
			for range t.WaitingOn() {
				waiting++
				break
			}
		}
		return map[string]any{
			"bytes": m.bytes, "clients": m.clients + 1, // in Dask fire-and-forget is a client
			"cores": s.State.TotalThreads(), "erred": m.tasks["erred"],
			"hosts": len(hosts),
			"idle":  m.workers["idle"], "memory": held, "processing": m.tasks["processing"],
			"released":  m.tasks["released"],
			"saturated": m.workers["saturated"], "tasks": s.State.NumTasks(), "unrunnable": m.tasks["no-worker"],
			"waiting":      waiting,
			"waiting_data": waiters, "workers": len(s.Workers.ByAddress), "desired_workers": m.desired,
		}, nil
	})
	if err != nil {
		return nil, err
	}
	return json.Marshal(counts)
}
