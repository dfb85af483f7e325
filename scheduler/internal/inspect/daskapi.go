package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/loop"
)

// maxAPIBody bounds the body of a request in bytes.
const maxAPIBody = 1 << 20

// apiCall is a call of Dask's API: the method, and what it returns.
type apiCall struct {
	method string
	do     func(s *Inspector, ctx context.Context, body []byte) (any, error)
}

// apiCalls are the calls of distributed.http.scheduler.api, which the operator of dask-kubernetes uses.
var apiCalls = map[string]apiCall{
	"/api/v1":                 {http.MethodGet, nil},
	"/api/v1/get_workers":     {http.MethodGet, (*Inspector).apiWorkers},
	"/api/v1/adaptive_target": {http.MethodGet, (*Inspector).apiTarget},
	"/api/v1/check_idle":      {http.MethodGet, (*Inspector).apiIdle},
	"/api/v1/retire_workers":  {http.MethodPost, (*Inspector).apiRetire},
}

// daskAPI serves the calls. As in Dask, an error is a status of 500 and nothing more.
func (s *Inspector) daskAPI(w http.ResponseWriter, r *http.Request) {
	call, ok := apiCalls[r.URL.Path]
	switch {
	case !ok:
		http.NotFound(w, r)
		return
	case r.Method != call.method && !(call.method == http.MethodGet && r.Method == http.MethodHead):
		w.Header().Set("Allow", call.method)
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	case call.do == nil:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "API V1")
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxAPIBody))
	var out any
	if err == nil {
		out, err = call.do(s, r.Context(), body)
	}
	if err != nil {
		s.Log.Warn("HTTP request failed", "path", r.URL.Path, "peer", r.RemoteAddr, "error", err)
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, `{"Error": "Internal Server Error"}`)
		return
	}
	writeJSON(w, out)
}

func (s *Inspector) apiWorkers(ctx context.Context, _ []byte) (any, error) {
	return loop.Ask(ctx, s.Loop, func() (any, error) {
		list := []any{}
		for _, w := range s.Workers.ByAddress {
			list = append(list, map[string]any{"name": plain(w.Name), "address": w.Address})
		}
		return map[string]any{"num_workers": len(list), "workers": list}, nil
	})
}

func (s *Inspector) apiTarget(ctx context.Context, _ []byte) (any, error) {
	n, err := s.Ask(ctx, "adaptive_target", nil)
	return map[string]any{"workers": plain(n)}, err
}

func (s *Inspector) apiIdle(ctx context.Context, _ []byte) (any, error) {
	since, err := s.Ask(ctx, "check_idle", nil)
	return map[string]any{"idle_since": plain(since)}, err
}

// apiRetire retires n workers of the scheduler's choice, or those with given addresses.
func (s *Inspector) apiRetire(ctx context.Context, body []byte) (any, error) {
	var in struct {
		N       int      `json:"n"`
		Workers []string `json:"workers"`
	}
	if err := json.Unmarshal(body, &in); err != nil {
		return nil, err
	}
	if in.N < 0 {
		return nil, errors.New("negative number of workers")
	}
	args := msgpack.MapOf("n", in.N)
	if in.N == 0 {
		if len(in.Workers) == 0 {
			return map[string]any{}, nil
		}
		list := make([]any, len(in.Workers))
		for i, w := range in.Workers {
			list[i] = w
		}
		args = msgpack.MapOf("workers", list)
	}
	out, err := s.Ask(ctx, "retire_workers", args)
	return plain(out), err
}
