package gateway

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"go.millstream.dev/internal/comm/descriptors"
	"go.millstream.dev/internal/comm/httpguard"
)

const (
	// maxBody bounds the body of a request in bytes.
	maxBody = 1 << 16
	// maxWorkers bounds the number of workers that a request may ask for.
	maxWorkers = 1 << 20
)

// listen starts the HTTP server of the API.
func (s *Service) listen(ctx context.Context) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", s.Options.Listen)
	if err != nil {
		return fmt.Errorf("listen on %s for dask-gateway: %w", s.Options.Listen, err)
	}
	s.api = "http://" + httpguard.Reachable(l.Addr().String(), s.ContactHost)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/health", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("POST /api/comm", s.serveComm)
	s.server = &http.Server{
		Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
		MaxHeaderBytes: 1 << 16, BaseContext: func(net.Listener) context.Context { return s.Context },
	}
	s.Go(func() {
		if err := s.server.Serve(httpguard.Limit(l, descriptors.ForHTTP())); !errors.Is(err, http.ErrServerClosed) {
			s.Log.Error("API for dask-gateway failed", "error", err)
		}
	})
	return nil
}

// serveComm serves the requests of the server: to scale the cluster, or to adapt it to its load.
func (s *Service) serveComm(w http.ResponseWriter, r *http.Request) {
	kind, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if kind != "token" || subtle.ConstantTimeCompare([]byte(token), []byte(s.Options.Token)) != 1 {
		http.Error(w, "forbidden", http.StatusForbidden)
		return
	}
	var in struct {
		Op      string `json:"op"`
		Count   int    `json:"count"`
		Minimum *int   `json:"minimum"`
		Maximum *int   `json:"maximum"`
		Active  *bool  `json:"active"`
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&in); err != nil {
		http.Error(w, "the body is not JSON: "+err.Error(), http.StatusUnprocessableEntity)
		return
	}
	switch in.Op {
	case "scale":
		if in.Count < 0 || in.Count > maxWorkers {
			http.Error(w, fmt.Sprintf("count %d: want 0 to %d", in.Count, maxWorkers), http.StatusUnprocessableEntity)
			return
		}
		s.enqueue(func(w *request) { *w = request{count: &in.Count} })
	case "adapt":
		next := request{adapt: in.Active == nil || *in.Active, maximum: maxWorkers}
		if in.Minimum != nil {
			next.minimum = max(*in.Minimum, 0)
		}
		if in.Maximum != nil {
			next.maximum = min(*in.Maximum, maxWorkers)
		}
		if next.maximum < next.minimum {
			http.Error(w, "maximum is below minimum", http.StatusUnprocessableEntity)
			return
		}
		s.enqueue(func(w *request) {
			next.count = w.count
			*w = next
		})
	default:
		http.Error(w, "op must be one of {scale, adapt}", http.StatusUnprocessableEntity)
	}
}
