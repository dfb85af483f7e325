package dashboard

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"

	"go.millstream.dev/internal/dashboard/spans"
	"go.millstream.dev/internal/dashboard/trace"
	"go.millstream.dev/internal/dashboard/web"
)

// ReportOptions are the arguments of WriteReport.
type ReportOptions struct {
	// Title is that of the page (default "Millstream report").
	Title string
	// From is the time in microseconds since 1970 before which spans are left out (default 0: none).
	From int64
	// Limit bounds the spans; the latest are kept (default 300,000).
	Limit int
}

// defaultReport is the default of ReportOptions.Limit.
const defaultReport = 300_000

// WriteReport writes the pages into one HTML file that needs no server: see src/report.ts of package web for the data.
func (s *Server) WriteReport(ctx context.Context, w io.Writer, o ReportOptions) error {
	data, err := s.reportData(ctx, o)
	if err != nil {
		return fmt.Errorf("dashboard: report: %w", err)
	}
	return web.WriteReport(w, cmp.Or(o.Title, "Millstream report"), data)
}

// reportHead is the JSON at the begin of the data of a report.
type reportHead struct {
	Files      map[string]any `json:"files"`
	Columns    []column       `json:"columns"`
	Peers      []string       `json:"peers"`
	Transports []string       `json:"transports"`
}

// column is one column of the spans: its place after the head.
type column struct {
	Name   string `json:"name"`
	Type   string `json:"type"`
	Offset int    `json:"offset"`
	Length int    `json:"length"`
}

// reportData returns the compressed data of a report.
func (s *Server) reportData(ctx context.Context, o ReportOptions) ([]byte, error) {
	m := s.meta()
	list := s.latest(max(o.From-m.Origin, 0), cmp.Or(max(o.Limit, 0), defaultReport))
	m.Report, m.Spans, m.Now = true, int64(len(list)), m.Last
	if len(list) > 0 {
		m.First = list[0].Start
		for i := range list {
			m.First = min(m.First, list[i].Start)
		}
	}
	head := reportHead{Files: map[string]any{"/millstream/meta.json": m, "/millstream/rows.json": s.rows(),
		"/millstream/failures.json": s.failures(),
		"/millstream/series.json":   map[string]any{"series": s.seriesOf(m.First, m.Last+1, maxPoints/4)}}}
	for name, f := range map[string]func(context.Context) (any, error){
		"workers.json": s.workers, "progress.json": s.progress, "bandwidth.json": s.bandwidth, "graph.json": s.graph,
		"cliques.json": s.cliques, "why.json": s.why,
	} {
		v, err := f(ctx)
		if err != nil {
			return nil, err
		}
		head.Files["/millstream/"+name] = v
	}
	if s.source != nil { // workers may fail to answer; the rest of the report does not need them
		if v, err := s.profile(ctx, &values{}); err == nil {
			head.Files["/millstream/profile.json"] = v
		}
	}
	body := head.addSpans(list)
	text, err := json.Marshal(head)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.DefaultCompression)
	length := binary.LittleEndian.AppendUint32(nil, uint32(len(text)))
	for _, b := range [][]byte{length, text, body} {
		if _, err := z.Write(b); err != nil {
			return nil, err
		}
	}
	err = z.Close()
	return out.Bytes(), err
}

// latest returns at most limit spans that end after from, the latest, by row and start.
func (s *Server) latest(from int64, limit int) []spans.Span {
	m := s.store.Meta()
	from = max(from, m.First)
	end := m.Last + 1
	list := s.store.Spans(from, end, spans.AllRows, limit+1)
	// Too many: look for a later begin.
	for low := from; len(list) > limit; {
		middle := low + (end-low)/2
		if middle == low {
			list = list[:limit]
			break
		}
		later := s.store.Spans(middle, end, spans.AllRows, limit+1)
		if len(later) > limit || len(later) > limit/2 {
			low, list = middle, later
			continue
		}
		list = s.enough(low, middle, end, limit, later)
		break
	}
	slices.SortFunc(list, func(a, b spans.Span) int {
		return cmp.Or(cmp.Compare(a.Row, b.Row), cmp.Compare(a.Start, b.Start))
	})
	return list
}

// enough looks for a begin between low, which has too many spans, and high, which has few, the list.
func (s *Server) enough(low, high, end int64, limit int, list []spans.Span) []spans.Span {
	for range 16 {
		middle := low + (high-low)/2
		if middle == low || len(list) > limit/2 {
			break
		}
		if more := s.store.Spans(middle, end, spans.AllRows, limit+1); len(more) > limit {
			low = middle
		} else {
			high, list = middle, more
		}
	}
	return list
}

// Flags of a span, and the index of no key, in a report.
const (
	reportIncoming = 1
	reportFailed   = 2
	noKey          = math.MaxUint32
)

// addSpans describes the spans in the head and returns their columns.
func (h *reportHead) addSpans(list []spans.Span) []byte {
	n := len(list)
	u32 := func() []byte { return make([]byte, 0, 4*n) }
	f64 := func() []byte { return make([]byte, 0, 8*n) }
	row, key, peer, transport := u32(), u32(), u32(), u32()
	start, duration, size := f64(), f64(), f64()
	category, flags := make([]byte, 0, n), make([]byte, 0, n)
	peers, transports, keyIndex := map[string]uint32{}, map[string]uint32{}, map[string]uint32{}
	var keys, offsets []byte
	put := binary.LittleEndian.AppendUint32
	float := func(b []byte, v int64) []byte {
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(v)))
	}
	h.Peers, h.Transports = []string{}, []string{}
	for i := range list {
		x := &list[i]
		row = put(row, x.Row)
		start, duration, size = float(start, x.Start), float(duration, x.Stop-x.Start), float(size, x.Bytes)
		category = append(category, x.Category)
		var f byte
		if x.Flags&spans.FlagIncoming != 0 {
			f |= reportIncoming
		}
		if x.Flags&spans.FlagError != 0 {
			f |= reportFailed
		}
		flags = append(flags, f)
		k := uint32(noKey)
		if x.Key != "" {
			var ok bool
			if k, ok = keyIndex[x.Key]; !ok {
				k = uint32(len(keyIndex))
				keyIndex[x.Key] = k
				offsets = put(offsets, uint32(len(keys)))
				keys = append(keys, x.Key...)
			}
		}
		key = put(key, k)
		peer = put(peer, intern(peers, &h.Peers, x.Peer))
		transport = put(transport, intern(transports, &h.Transports, x.Transport))
	}
	offsets = put(offsets, uint32(len(keys)))
	var body []byte
	for _, c := range []struct {
		name, kind string
		data       []byte
	}{
		{"start", "f64", start}, {"duration", "f64", duration}, {"bytes", "f64", size}, {"row", "u32", row},
		{"key", "u32", key}, {"peer", "u32", peer}, {"transport", "u32", transport},
		{"key-offsets", "str-offsets", offsets}, {"category", "u8", category}, {"flags", "u8", flags},
		{"keys", "bytes", keys},
	} {
		h.Columns = append(h.Columns, column{c.name, c.kind, len(body), len(c.data)})
		body = append(body, c.data...)
	}
	return body
}

// intern returns the number of a text in a list, from 1 on; 0 for none.
func intern(index map[string]uint32, list *[]string, text string) uint32 {
	if text == "" {
		return 0
	}
	n, ok := index[text]
	if !ok {
		*list = append(*list, text)
		n = uint32(len(*list))
		index[text] = n
	}
	return n
}

// maxTrace bounds the spans of a trace that a scheduler writes: about 200 MB. Histories on disk have no bound.
const maxTrace = 1_000_000

// WriteTrace writes all spans as JSON for Chrome's trace viewer and Perfetto.
func (s *Server) WriteTrace(w io.Writer) error {
	if n := s.store.Meta().Spans; n > maxTrace && s.source != nil {
		return fmt.Errorf("dashboard: trace of %d spans exceeds the limit of %d; use `millstream report --history` "+
			"with the folder of the history", n, maxTrace)
	}
	return trace.WriteChrome(w, s.store)
}

// trace serves the trace.
func (s *Server) trace(w http.ResponseWriter, _ *http.Request) {
	var b bytes.Buffer
	if err := s.WriteTrace(&b); err != nil {
		answer(w, nil, err)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Disposition", `attachment; filename="millstream-trace.json"`)
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(b.Bytes())
}

// report serves the report file.
func (s *Server) report(w http.ResponseWriter, r *http.Request) {
	v := &values{Values: r.URL.Query()}
	from := v.number("from", 0)
	if v.err != nil {
		answer(w, nil, v.err)
		return
	}
	var b bytes.Buffer
	if err := s.WriteReport(r.Context(), &b, ReportOptions{From: from}); err != nil {
		answer(w, nil, err)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="millstream-report.html"`)
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(b.Bytes())
}
