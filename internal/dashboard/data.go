package dashboard

import (
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"

	"go.millstream.dev/internal/dashboard/spans"
)

// Bounds of queries: spans of one answer, points of a series.
const (
	maxSpans      = 50_000
	defaultSpans  = 5_000
	defaultPoints = 500
	maxPoints     = 4096
)

// rowsPage is the answer of rows.json.
type rowsPage struct {
	Rows  []spans.Row `json:"rows"`
	Names []string    `json:"names"`
}

func (s *Server) rows() rowsPage {
	p := rowsPage{s.store.Rows(), s.store.Names()}
	if p.Rows == nil {
		p.Rows = []spans.Row{}
	}
	return p
}

// tile serves a tile of the task stream. One that ended some time ago does not change.
func (s *Server) tile(w http.ResponseWriter, r *http.Request) {
	v := &values{Values: r.URL.Query()}
	level, index, group := v.number("level", 0), v.number("index", 0), v.number("group", 0)
	rows := v.rows()
	if v.err != nil {
		answer(w, nil, v.err)
		return
	}
	b, err := s.store.Tile(r.Context(), level, index, rows, int(min(group, 64)))
	if err != nil {
		answer(w, nil, err)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if closed(s.store.Meta(), level, index) {
		w.Header().Set("Cache-Control", "private, max-age=3600")
	} else {
		w.Header().Set("Cache-Control", "no-store")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	_, _ = w.Write(b)
}

// settled is the time in microseconds after which no more spans are expected: workers report transfers with their
// heartbeats, and long tasks when they end.
const settled = 300_000_000

// closed reports whether a tile ended before spans that may still arrive.
func closed(m spans.Meta, level, index int64) bool {
	if level > spans.MaxLevel || index > maxNumber>>(level+8) {
		return true
	}
	return (index+1)<<(level+8) < m.Last-settled
}

// spanJSON is a span in spans.json.
type spanJSON struct {
	Row       uint32 `json:"row"`
	Start     int64  `json:"start"`
	Stop      int64  `json:"stop"`
	Category  uint8  `json:"cat"`
	Key       string `json:"key,omitempty"`
	Bytes     int64  `json:"bytes"`
	Keys      int64  `json:"keys,omitempty"`
	Peer      string `json:"peer,omitempty"`
	Transport string `json:"transport,omitempty"`
	Status    string `json:"status"`
	Incoming  bool   `json:"incoming,omitempty"`
}

func newSpan(x *spans.Span) spanJSON {
	out := spanJSON{Row: x.Row, Start: x.Start, Stop: x.Stop, Category: x.Category, Key: x.Key, Bytes: x.Bytes,
		Keys: x.Keys, Peer: x.Peer, Transport: x.Transport, Status: "OK", Incoming: x.Flags&spans.FlagIncoming != 0}
	if x.Flags&spans.FlagError != 0 {
		out.Status = "error"
	}
	return out
}

func (s *Server) spans(_ context.Context, v *values) (any, error) {
	from, to := v.number("start", 0), v.number("stop", maxNumber)
	limit := int(min(v.number("limit", defaultSpans), maxSpans))
	rows := v.rows()
	if v.err != nil {
		return nil, v.err
	}
	list := s.store.Spans(from, to, rows, limit+1)
	truncated := len(list) > limit
	list = list[:min(len(list), limit)]
	out := make([]spanJSON, len(list))
	for i := range list {
		out[i] = newSpan(&list[i])
	}
	return map[string]any{"spans": out, "truncated": truncated}, nil
}

// totalJSON are the totals of a category or a transport.
type totalJSON struct {
	Category  *int    `json:"cat,omitempty"`
	Name      string  `json:"name,omitempty"`
	Transport string  `json:"transport,omitempty"`
	Count     int64   `json:"count"`
	Seconds   float64 `json:"seconds"`
	Bytes     int64   `json:"bytes"`
}

func (s *Server) summary(_ context.Context, v *values) (any, error) {
	from, to := v.number("start", 0), v.number("stop", maxNumber)
	rows := v.rows()
	if v.err != nil {
		return nil, v.err
	}
	sum := s.store.Summary(from, to, rows)
	names := s.store.Names()
	categories, transports := []totalJSON{}, []totalJSON{}
	for i, t := range sum.Categories {
		if t.Count == 0 {
			continue
		}
		out := totalJSON{Category: &i, Count: t.Count, Seconds: t.Seconds, Bytes: t.Bytes}
		if i < len(names) {
			out.Name = names[i]
		}
		categories = append(categories, out)
	}
	for name, t := range sum.Transports {
		transports = append(transports, totalJSON{Transport: name, Count: t.Count, Seconds: t.Seconds, Bytes: t.Bytes})
	}
	slices.SortFunc(transports, func(a, b totalJSON) int { return int(b.Seconds*1e6) - int(a.Seconds*1e6) })
	return map[string]any{"categories": categories, "transports": transports}, nil
}

func (s *Server) series(_ context.Context, v *values) (any, error) {
	from, to := v.number("start", 0), v.number("stop", maxNumber)
	points := int(min(v.number("points", defaultPoints), maxPoints))
	if v.err != nil {
		return nil, v.err
	}
	return map[string]any{"series": s.seriesOf(from, to, points)}, nil
}

func (s *Server) seriesOf(from, to int64, points int) map[string][][2]float64 {
	out := map[string][][2]float64{}
	for name, list := range s.store.Series(from, min(to, s.store.Meta().Last+60_000_000), points) {
		pairs := make([][2]float64, len(list))
		for i, p := range list {
			pairs[i] = [2]float64{float64(p.T), p.V}
		}
		out[name] = pairs
	}
	return out
}

// failures returns the answer of failures.json, the latest first.
func (s *Server) failures() any {
	list := []Failure{}
	for _, e := range slices.Backward(s.store.Events(0)) {
		var f Failure
		if e.Kind == FailureEvent && json.Unmarshal(e.JSON, &f) == nil {
			f.Time = e.T
			list = append(list, f)
		}
	}
	return map[string]any{"failures": list}
}

func (s *Server) workers(ctx context.Context) (any, error) {
	list := []Worker{}
	if s.source != nil {
		var err error
		if list, err = s.source.Workers(ctx); err != nil {
			return nil, err
		}
	}
	return map[string]any{"workers": list}, nil
}

func (s *Server) progress(ctx context.Context) (any, error) {
	if s.source == nil {
		return map[string]any{"prefixes": s.progressOfHistory()}, nil
	}
	list, err := s.source.Progress(ctx)
	return map[string]any{"prefixes": list}, err
}

// progressOfHistory returns the finished tasks of each prefix.
func (s *Server) progressOfHistory() []Prefix {
	list := []Prefix{}
	names := s.store.Names()
	for i, t := range s.store.Summary(0, maxNumber, spans.AllRows).Categories {
		if i >= int(spans.FirstPrefix) && i < len(names) && t.Count > 0 {
			list = append(list, Prefix{Name: names[i], Forgotten: t.Count, Seconds: t.Seconds})
		}
	}
	return list
}

func (s *Server) bandwidth(ctx context.Context) (any, error) {
	if s.source == nil {
		return s.bandwidthOfHistory(), nil
	}
	b, err := s.source.Bandwidth(ctx)
	return b, err
}

// bandwidthOfHistory returns the matrix of the transfers in the history.
func (s *Server) bandwidthOfHistory() Bandwidth {
	b := Bandwidth{Workers: []string{}, Pairs: []Pair{}, Transports: map[string]Transport{}}
	rows := s.store.Rows()
	type key struct{ from, to, transport string }
	index := map[key]int{}
	known := map[string]bool{}
	for _, r := range rows {
		if !known[r.Worker] {
			known[r.Worker] = true
			b.Workers = append(b.Workers, r.Worker)
		}
	}
	_ = s.store.Each(func(x spans.Span) error {
		if x.Category != spans.Transfer || x.Peer == "" || int(x.Row) >= len(rows) {
			return nil
		}
		k := key{x.Peer, rows[x.Row].Worker, x.Transport}
		if x.Flags&spans.FlagIncoming == 0 {
			k.from, k.to = k.to, k.from
		}
		i, ok := index[k]
		if !ok {
			i = len(b.Pairs)
			index[k] = i
			b.Pairs = append(b.Pairs, Pair{From: k.from, To: k.to, Transport: k.transport})
		}
		p, seconds := &b.Pairs[i], float64(x.Stop-x.Start)/1e6
		p.Bytes += x.Bytes
		p.Seconds += seconds
		p.Count++
		t := b.Transports[k.transport]
		b.Transports[k.transport] = Transport{t.Bytes + x.Bytes, t.Seconds + seconds, t.Count + 1}
		return nil
	})
	for i := range b.Pairs {
		if p := &b.Pairs[i]; p.Seconds > 0 {
			p.Rate = float64(p.Bytes) / p.Seconds
		}
	}
	return b
}

func (s *Server) graph(ctx context.Context) (any, error) {
	if s.source == nil {
		return Graph{Complete: true, Nodes: []Node{}, Edges: [][3]int{}}, nil
	}
	g, err := s.source.Graph(ctx)
	return g, err
}

func (s *Server) cliques(ctx context.Context) (any, error) {
	list := []Clique{}
	if s.source != nil {
		var err error
		if list, err = s.source.Cliques(ctx); err != nil {
			return nil, err
		}
	}
	return map[string]any{"cliques": list}, nil
}

func (s *Server) story(ctx context.Context, v *values) (any, error) {
	key := v.Get("key")
	events := []Step{}
	if s.source != nil {
		list, err := s.source.Story(ctx, key)
		if err != nil {
			return nil, err
		}
		origin := s.store.Meta().Origin
		for _, e := range list {
			e.Time -= origin
			events = append(events, e)
		}
	}
	return map[string]any{"key": key, "events": events}, nil
}

func (s *Server) logs(ctx context.Context, v *values) (any, error) {
	if s.source == nil {
		return nil, errNoSource
	}
	lines, err := s.source.Logs(ctx, v.Get("worker"))
	return map[string]any{"lines": lines}, err
}

// profile serves the call tree of a worker or of all; kind selects that of servers: "scheduler" or "server".
func (s *Server) profile(ctx context.Context, v *values) (any, error) {
	if s.source == nil {
		return nil, errNoSource
	}
	q := ProfileQuery{Worker: v.Get("worker"), Scheduler: v.Get("kind") == "scheduler",
		Server: v.Get("kind") == "server"}
	origin := s.store.Meta().Origin
	for name, to := range map[string]**float64{"start": &q.Start, "stop": &q.Stop} {
		if v.Get(name) != "" {
			at := float64(origin+v.number(name, 0)) / 1e6
			*to = &at
		}
	}
	if key := v.Get("key"); key != "" {
		q.Key = &key
	}
	if v.err != nil {
		return nil, v.err
	}
	return s.source.Profile(ctx, q)
}

func (s *Server) stacks(ctx context.Context, v *values) (any, error) {
	if s.source == nil {
		return nil, errNoSource
	}
	list, err := s.source.Stacks(ctx, v.Get("worker"))
	return map[string]any{"stacks": list}, err
}
