package dashboard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"go.millstream.dev/internal/dashboard/spans"
)

// Server serves the pages of a dashboard. New returns one.
type Server struct {
	store  *spans.Store
	source Source // nil for a history
	cache  cache
	live   live
	rates  rates
}

// New returns a Server of a history and the scheduler that writes it; source is nil for a history that is only read.
func New(store *spans.Store, source Source) *Server {
	s := &Server{store: store, source: source}
	s.live.tick = s.tick
	return s
}

// Close ends the live streams. It may be called twice. The caller closes the store.
func (s *Server) Close() { s.live.close() }

// Register adds the paths of the dashboard to a mux.
func (s *Server) Register(mux *http.ServeMux) {
	kept := func(name string, age time.Duration, f func(context.Context) (any, error)) {
		mux.HandleFunc("GET /millstream/"+name, func(w http.ResponseWriter, r *http.Request) {
			b, err := s.cache.get(r.Context(), name, age, func(ctx context.Context) ([]byte, error) {
				return encode(f(ctx))
			})
			answer(w, b, err)
		})
	}
	page := func(name string, f func(context.Context) (any, error)) { kept(name, cacheTime, f) }
	query := func(name string, f func(context.Context, *values) (any, error)) {
		mux.HandleFunc("GET /millstream/"+name, func(w http.ResponseWriter, r *http.Request) {
			v := &values{Values: r.URL.Query()}
			x, err := f(r.Context(), v)
			if v.err != nil {
				err = v.err
			}
			b, err := encode(x, err)
			answer(w, b, err)
		})
	}
	page("meta.json", func(context.Context) (any, error) { return s.meta(), nil })
	page("rows.json", func(context.Context) (any, error) { return s.rows(), nil })
	page("workers.json", s.workers)
	page("progress.json", s.progress)
	kept("bandwidth.json", slowTime, s.bandwidth)
	kept("graph.json", slowTime, s.graph)
	page("cliques.json", s.cliques)
	page("failures.json", func(context.Context) (any, error) { return s.failures(), nil })
	kept("why.json", slowTime, s.why)
	query("spans.json", s.spans)
	query("summary.json", s.summary)
	query("series.json", s.series)
	query("story.json", s.story)
	query("logs.json", s.logs)
	query("profile.json", s.profile)
	query("stacks.json", s.stacks)
	mux.HandleFunc("GET /millstream/tile", s.tile)
	mux.Handle("GET /millstream/live", &s.live)
	mux.HandleFunc("GET /millstream/report", s.report)
	mux.HandleFunc("GET /millstream/trace.json", s.trace)
}

// errNoSource is returned for pages that need a running scheduler.
var errNoSource = errors.New("dashboard: no scheduler: this is a history")

// ErrNoWorker is returned by the methods of a Source for an address at which there is no worker.
var ErrNoWorker = errors.New("dashboard: no such worker")

// badQuery is the error of an invalid query.
type badQuery struct{ error }

func encode(v any, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// answer sends JSON or an error.
func answer(w http.ResponseWriter, body []byte, err error) {
	var bad badQuery
	switch {
	case errors.As(err, &bad):
		http.Error(w, err.Error(), http.StatusBadRequest)
	case errors.Is(err, errNoSource) || errors.Is(err, ErrNoWorker):
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Cache-Control", "no-store")
		_, _ = w.Write(body)
	}
}

// values reads the numbers of a query. The first invalid one is kept as the error.
type values struct {
	url.Values
	err error
}

// number returns the number of a name, otherwise if there is none.
func (v *values) number(name string, otherwise int64) int64 {
	text := v.Get(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > maxNumber {
		if v.err == nil {
			v.err = badQuery{fmt.Errorf("%s=%.40q: want a number from 0 to 2^53", name, text)}
		}
		return otherwise
	}
	return n
}

// maxNumber is the largest integer that JavaScript represents.
const maxNumber = 1 << 53

// rows returns the range of rows of a query: all by default.
func (v *values) rows() spans.Range {
	return spans.Range{From: uint32(min(v.number("from", 0), 1<<31)), To: uint32(min(v.number("to", 1<<31), 1<<31))}
}

// meta is the answer of meta.json.
type meta struct {
	Identity
	Origin  int64 `json:"origin"`
	First   int64 `json:"first"`
	Last    int64 `json:"last"`
	Now     int64 `json:"now"`
	Spans   int64 `json:"spans"`
	Dropped int64 `json:"dropped"`
	Bytes   int64 `json:"bytes"`
	Rows    int   `json:"rows"`
	Names   int   `json:"names"`
	Report  bool  `json:"report"`
}

func (s *Server) meta() meta {
	m := s.store.Meta()
	out := meta{Origin: m.Origin, First: m.First, Last: m.Last, Now: s.now(m.Origin), Spans: m.Spans,
		Dropped: m.Dropped, Bytes: m.Disk, Rows: m.Rows, Names: m.Names}
	if s.source != nil {
		out.Identity = s.source.Identity()
	}
	return out
}

// now returns the time in microseconds since the origin.
func (s *Server) now(origin int64) int64 { return time.Now().UnixMicro() - origin }
