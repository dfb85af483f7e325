package fake

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"go.millstream.dev/internal/dashboard/web"
)

// Server serves the page and made-up data.
type Server struct {
	ID      string
	History *History
	// Requests counts requests for data, by path.
	Ticks atomic.Int64
	start time.Time
	pages map[string]any
}

// New returns a server of a history that ends now.
func New(id string, h *History) *Server {
	s := &Server{ID: id, History: h, start: time.Now()}
	s.pages = pages(h)
	return s
}

// Last returns the time of the last span.
func (s *Server) Last() int64 {
	var last int64
	for _, sp := range s.History.Spans {
		last = max(last, sp.Stop)
	}
	return last
}

// Page returns the JSON value of a page, such as "workers.json".
func (s *Server) Page(name string) any { return s.pages[name] }

// Handler returns the handler of the dashboard.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", web.Handler())
	mux.HandleFunc("GET /millstream/meta.json", func(w http.ResponseWriter, r *http.Request) { send(w, s.meta()) })
	mux.HandleFunc("GET /millstream/rows.json", func(w http.ResponseWriter, r *http.Request) {
		send(w, map[string]any{"rows": s.History.Rows, "names": s.History.Names})
	})
	mux.HandleFunc("GET /millstream/tile", s.tile)
	mux.HandleFunc("GET /millstream/spans.json", func(w http.ResponseWriter, r *http.Request) {
		spans, truncated := s.History.overlap(arg(r, "start"), arg(r, "stop"), int(arg(r, "from")), int(arg(r, "to")),
			int(arg(r, "limit")))
		send(w, map[string]any{"spans": spans, "truncated": truncated})
	})
	mux.HandleFunc("GET /millstream/summary.json", s.summary)
	mux.HandleFunc("GET /millstream/live", s.live)
	for name, v := range s.pages {
		mux.HandleFunc("GET /millstream/"+name, func(w http.ResponseWriter, r *http.Request) { send(w, v) })
	}
	return mux
}

func (s *Server) meta() map[string]any {
	last := s.Last()
	return map[string]any{"version": "test", "scheduler": "tcp://10.0.0.1:8786", "id": s.ID, "started": 0,
		"origin": s.start.UnixMicro() - last, "first": 0, "last": last, "spans": len(s.History.Spans), "dropped": 0,
		"bytes": 0, "rows": len(s.History.Rows), "names": len(s.History.Names), "report": false}
}

func arg(r *http.Request, name string) int64 {
	v, _ := strconv.ParseInt(r.URL.Query().Get(name), 10, 64)
	return v
}

func send(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		panic(http.ErrAbortHandler)
	}
}

func (s *Server) tile(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/octet-stream")
	_, _ = w.Write(s.History.tile(arg(r, "level"), arg(r, "index"), int(arg(r, "from")), int(arg(r, "to")),
		int(arg(r, "group"))))
}

func (s *Server) summary(w http.ResponseWriter, r *http.Request) {
	start, stop := arg(r, "start"), arg(r, "stop")
	spans, _ := s.History.overlap(start, stop, int(arg(r, "from")), int(arg(r, "to")), 1<<30)
	type total struct {
		Cat       int     `json:"cat"`
		Transport string  `json:"transport"`
		Count     int     `json:"count"`
		Seconds   float64 `json:"seconds"`
		Bytes     int64   `json:"bytes"`
	}
	cats, transports := map[int]*total{}, map[string]*total{}
	for _, sp := range spans {
		if cats[sp.Cat] == nil {
			cats[sp.Cat] = &total{Cat: sp.Cat}
		}
		list := []*total{cats[sp.Cat]}
		if sp.Transport != "" {
			if transports[sp.Transport] == nil {
				transports[sp.Transport] = &total{Transport: sp.Transport}
			}
			list = append(list, transports[sp.Transport])
		}
		for _, t := range list {
			t.Count++
			t.Seconds += float64(min(sp.Stop, stop)-max(sp.Start, start)) / 1e6
			t.Bytes += sp.Bytes
		}
	}
	var out struct {
		Categories []*total `json:"categories"`
		Transports []*total `json:"transports"`
	}
	for _, t := range cats {
		out.Categories = append(out.Categories, t)
	}
	for _, t := range transports {
		out.Transports = append(out.Transports, t)
	}
	send(w, out)
}

// live sends a tick twice a second.
func (s *Server) live(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/event-stream")
	c := http.NewResponseController(w)
	t := time.NewTicker(500 * time.Millisecond)
	defer t.Stop()
	last := s.Last()
	for {
		n := s.Ticks.Add(1)
		tick := map[string]any{"id": s.ID, "now": last + time.Since(s.start).Microseconds(), "last": last,
			"rows": len(s.History.Rows), "names": len(s.History.Names),
			"tasks":   map[string]int{"memory": 1200, "processing": 16, "waiting": 400, "erred": 3, "released": 5000},
			"workers": len(s.History.Rows) / 5, "threads": len(s.History.Rows) / 5 * 2, "rate": 1000 + n,
			"memory": 12 << 30, "bytes_rate": map[string]int64{"rc_mlx5": 7e9, "tcp": 4e8}, "failures": 2}
		data, err := json.Marshal(tick)
		if err != nil {
			return
		}
		if _, err := fmt.Fprintf(w, "event: tick\ndata: %s\n\n", data); err != nil || c.Flush() != nil {
			return
		}
		select {
		case <-t.C:
		case <-r.Context().Done():
			return
		}
	}
}
