package dashboard

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"go.millstream.dev/internal/dashboard/spans"
	"go.millstream.dev/internal/dashboard/trace"
	"go.millstream.dev/internal/testkit/leak"
)

// reportFile is a decoded report.
type reportFile struct {
	Files   map[string]json.RawMessage
	Columns []column
	Peers   []string
	body    []byte
}

// column returns the bytes of a column.
func (f *reportFile) column(name string) []byte {
	for _, c := range f.Columns {
		if c.Name == name {
			return f.body[c.Offset : c.Offset+c.Length]
		}
	}
	return nil
}

// decodeReport reads the data of a report as the page does.
func decodeReport(t *testing.T, page string) *reportFile {
	t.Helper()
	_, rest, _ := strings.Cut(page, `id="data">`)
	text, _, ok := strings.Cut(rest, "</script>")
	if !ok {
		t.Fatalf("report has no data: %.300s", page)
	}
	zipped, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(bytes.NewReader(zipped))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	n := binary.LittleEndian.Uint32(raw)
	f := &reportFile{body: raw[4+n:]}
	if err := json.Unmarshal(raw[4:4+n], f); err != nil {
		t.Fatal(err)
	}
	return f
}

// The trace has all spans, and can be read again.
func TestTrace(t *testing.T) {
	leak.Check(t)
	url := serve(t, New(newStore(t), &fakeSource{}))
	status, text := get(t, url+"/millstream/trace.json")
	if status != http.StatusOK || !json.Valid([]byte(text)) {
		t.Fatalf("trace: got %d, %.300s", status, text)
	}
	again, err := trace.ReadChrome(strings.NewReader(text), spans.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if got := again.Meta().Spans; got != 5 {
		t.Errorf("spans of the trace: got %d, want 5", got)
	}
}

func TestReport(t *testing.T) {
	leak.Check(t)
	url := serve(t, New(newStore(t), &fakeSource{}))
	status, page := get(t, url+"/millstream/report")
	if status != http.StatusOK {
		t.Fatalf("report: got %d, %.200s", status, page)
	}
	f := decodeReport(t, page)
	for name, want := range map[string]string{"meta.json": `"report":true`, "rows.json": `"inc"`, "workers.json": "tcp://a",
		"progress.json": "inc", "bandwidth.json": "tcp://b", "graph.json": `"x"`, "cliques.json": `"c"`,
		"failures.json": "worker-lost", "why.json": "headroom", "series.json": "memory",
		"profile.json": `"count":5`} {
		if got := string(f.Files["/millstream/"+name]); !strings.Contains(got, want) {
			t.Errorf("%s: got %.300s, want %s", name, got, want)
		}
	}
	rows, starts, flags := f.column("row"), f.column("start"), f.column("flags")
	if len(rows) != 5*4 || len(starts) != 5*8 || len(flags) != 5 || len(f.column("category")) != 5 {
		t.Fatalf("columns: got %+v, want those of 5 spans", f.Columns)
	}
	keys, offsets := f.column("keys"), f.column("key-offsets")
	var got []string
	for i := range 5 {
		k := binary.LittleEndian.Uint32(f.column("key")[4*i:])
		name := "-"
		if k != math.MaxUint32 {
			from, to := binary.LittleEndian.Uint32(offsets[4*k:]), binary.LittleEndian.Uint32(offsets[4*k+4:])
			name = string(keys[from:to])
		}
		start := math.Float64frombits(binary.LittleEndian.Uint64(starts[8*i:]))
		peer := binary.LittleEndian.Uint32(f.column("peer")[4*i:])
		row := binary.LittleEndian.Uint32(rows[4*i:])
		got = append(got, fmt.Sprintf("%d %s %g %d %d", row, name, start, peer, flags[i]))
	}
	want := "[0 inc-1 0 0 0 0 sum-1 1.2e+06 0 0 1 inc-2 0 0 0 1 bad-1 300000 0 2 2 - 1e+06 1 1]"
	if fmt.Sprint(got) != want || fmt.Sprint(f.Peers) != "[tcp://b]" {
		t.Errorf("spans: got %v, peers %v, want %s", got, f.Peers, want)
	}
	if status, _ := get(t, url+"/millstream/report?from=x"); status != http.StatusBadRequest {
		t.Errorf("bad time: got status %d, want 400", status)
	}
}

// A report has the latest spans, those since a time, and few if there are too many.
func TestReportLimits(t *testing.T) {
	leak.Check(t)
	store := newStore(t)
	w, p := store.Worker("tcp://a", "a"), store.Prefix("many")
	b := new(spans.Batch)
	for i := range int64(1000) {
		b.Task(w, 10, fmt.Appendf(nil, "many-%d", i), p, at(5000+10*i), at(5009+10*i), 8, 0)
	}
	store.Put(b)
	if err := store.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := New(store, nil)
	count := func(o ReportOptions) (n int, first float64) {
		t.Helper()
		var page strings.Builder
		if err := s.WriteReport(t.Context(), &page, o); err != nil {
			t.Fatal(err)
		}
		f := decodeReport(t, page.String())
		var m struct{ First float64 }
		if err := json.Unmarshal(f.Files["/millstream/meta.json"], &m); err != nil {
			t.Fatal(err)
		}
		return len(f.column("row")) / 4, m.First
	}
	if n, _ := count(ReportOptions{}); n != 1005 {
		t.Errorf("whole report: got %d spans, want 1005", n)
	}
	if n, first := count(ReportOptions{From: origin.UnixMicro() + 10_000_000}); n != 500 || first < 9.9e6 {
		t.Errorf("report since half of the time: got %d spans from %g on, want 500", n, first)
	}
	for _, limit := range []int{1, 7, 100, 999} {
		n, first := count(ReportOptions{Limit: limit})
		if n > limit || n < limit/2 || first < 14.98e6-2e4*float64(limit) {
			t.Errorf("report of %d spans: got %d from %g on, want the latest", limit, n, first)
		}
	}
}

// A report of 100,000 tasks with hashes in their keys is small.
func TestReportSize(t *testing.T) {
	leak.Check(t)
	store, err := spans.Open(spans.Config{Origin: origin})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	random := rand.New(rand.NewPCG(1, 2))
	var workers, prefixes []uint32
	for i := range 16 {
		workers = append(workers, store.Worker(fmt.Sprintf("tcp://10.0.0.%d:40000", i), fmt.Sprint(i)))
		prefixes = append(prefixes, store.Prefix(fmt.Sprintf("function-%d", i)))
	}
	b := new(spans.Batch)
	const n = 100_000
	for i := range int64(n) {
		start := at(0) + i*200_000 + random.Int64N(100_000)
		key := fmt.Appendf(nil, "function-%d-%016x%016x", i%16, random.Uint64(), random.Uint64())
		b.Task(workers[i/4%16], i%4, key, prefixes[i%16], start, start+random.Int64N(12_000_000),
			8+random.Int64N(1000), 0)
		if b.Len() == 1000 {
			b = store.Put(b)
			if err := store.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	var page strings.Builder
	if err := New(store, nil).WriteReport(t.Context(), &page, ReportOptions{}); err != nil {
		t.Fatal(err)
	}
	if got := len(decodeReport(t, page.String()).column("row")) / 4; got != n {
		t.Errorf("spans: got %d, want %d", got, n)
	}
	const most = 5e6
	if page.Len() > most {
		t.Errorf("report of %d tasks: got %d bytes, want at most %g", n, page.Len(), most)
	}
}
