package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/internal/dashboard/spans"
	"go.millstream.dev/internal/proc/profile"
	"go.millstream.dev/internal/testkit/leak"
)

// fakeSource is a Source with fixed answers.
type fakeSource struct {
	err  error
	deps map[string][]string
}

func (f *fakeSource) Identity() Identity {
	return Identity{Version: "v1", Scheduler: "tcp://s:1", ID: "the-id", Started: 100}
}

func (f *fakeSource) Counts(context.Context) (Counts, error) {
	return Counts{Tasks: map[string]int{"memory": 3}, Workers: 2, Threads: 4, Finished: 7, Memory: 11,
		Moved: map[string]int64{"cma": 5}, Failures: 1}, f.err
}

func (f *fakeSource) Workers(context.Context) ([]Worker, error) {
	return []Worker{{Address: "tcp://a", Threads: 2, Transports: []string{"cma"}}}, f.err
}

func (f *fakeSource) Progress(context.Context) ([]Prefix, error) {
	return []Prefix{{Name: "inc", Memory: 3}}, f.err
}

func (f *fakeSource) Bandwidth(context.Context) (Bandwidth, error) {
	return Bandwidth{Workers: []string{"tcp://a"}, Pairs: []Pair{{From: "tcp://a", To: "tcp://b"}}}, f.err
}

func (f *fakeSource) Graph(context.Context) (Graph, error) {
	return Graph{Nodes: []Node{{ID: "x"}}}, f.err
}

func (f *fakeSource) Cliques(context.Context) ([]Clique, error) { return []Clique{{ID: "c"}}, f.err }

func (f *fakeSource) Story(_ context.Context, key string) ([]Step, error) {
	return []Step{{Time: origin.UnixMicro() + 5, From: "waiting", To: "memory", Stimulus: key}}, f.err
}

func (f *fakeSource) Logs(_ context.Context, worker string) ([]LogLine, error) {
	return []LogLine{{"INFO", "hello " + worker}}, f.err
}

func (f *fakeSource) Profile(_ context.Context, q ProfileQuery) (*profile.View, error) {
	text := fmt.Sprint(q.Worker, " ", q.Scheduler, " ", q.Server)
	for _, at := range []*float64{q.Start, q.Stop} {
		if at != nil {
			text += fmt.Sprint(" ", *at-float64(origin.Unix()))
		}
	}
	if q.Key != nil {
		text += " " + *q.Key
	}
	return &profile.View{Name: text, Count: 5, Children: []*profile.View{}}, f.err
}

func (f *fakeSource) Stacks(_ context.Context, worker string) ([]Stack, error) {
	return []Stack{{worker, "inc-1", []string{"line 1"}}}, f.err
}

func (f *fakeSource) Path(_ context.Context, last string, stop func(string) (int64, bool)) ([]string, error) {
	path := []string{last}
	for len(f.deps[last]) > 0 {
		var next string
		latest := int64(-1)
		for _, d := range f.deps[last] {
			if at, ok := stop(d); ok && at > latest {
				next, latest = d, at
			}
		}
		if next == "" {
			break
		}
		path, last = append(path, next), next
	}
	return path, f.err
}

// origin is that of the histories of tests.
var origin = time.Now().Add(-time.Minute).Truncate(time.Second)

// at returns a time in ns for milliseconds since the origin.
func at(ms int64) int64 { return origin.UnixNano() + ms*1e6 }

// newStore returns a history in which two workers ran tasks a and b and moved data.
func newStore(t *testing.T) *spans.Store {
	t.Helper()
	s, err := spans.Open(spans.Config{Origin: origin})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	w1, w2, inc, sum := s.Worker("tcp://a", "a"), s.Worker("tcp://b", "b"), s.Prefix("inc"), s.Prefix("sum")
	b := new(spans.Batch)
	b.Task(w1, 10, []byte("inc-1"), inc, at(0), at(1000), 8, 0)
	b.Task(w2, 20, []byte("inc-2"), inc, at(0), at(100), 8, 0)
	b.Transfer(w1, w2, true, s.Transport("cma"), 1e6, 1, at(1000), at(1200))
	b.Task(w1, 10, []byte("sum-1"), sum, at(1200), at(2000), 8, 0)
	b.Task(w2, 20, []byte("bad-1"), s.Prefix("bad"), at(300), at(400), 0, spans.FlagError)
	s.Put(b)
	if err := s.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Sample(origin.Add(time.Second), "memory", 5)
	s.Event(origin.Add(2*time.Second), FailureEvent, []byte(`{"kind":"worker-lost","worker":"tcp://c","cause":"kill"}`))
	s.Event(origin.Add(time.Second), "other", []byte(`{}`))
	return s
}

// serve returns the address of a server.
func serve(t *testing.T, s *Server) string {
	t.Helper()
	mux := http.NewServeMux()
	s.Register(mux)
	h := httptest.NewServer(mux)
	t.Cleanup(func() {
		s.Close()
		s.Close() // twice
		h.Close()
	})
	return h.URL
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(b)
}

func TestPages(t *testing.T) {
	leak.Check(t)
	url := serve(t, New(newStore(t), &fakeSource{}))
	for path, want := range map[string][]string{
		"meta.json": {`"id":"the-id"`, `"spans":5`, `"report":false`, `"rows":3`, `"version":"v1"`,
			`"last":2000000`},
		"rows.json":      {`"worker":"tcp://a","name":"a","kind":"thread","slot":0`, `"kind":"transfer"`, `"inc"`},
		"workers.json":   {`"address":"tcp://a"`, `"device":null`, `"transports":["cma"]`},
		"progress.json":  {`"name":"inc"`, `"memory":3`},
		"bandwidth.json": {`"from":"tcp://a","to":"tcp://b"`},
		"graph.json":     {`"nodes":[{"id":"x"`},
		"cliques.json":   {`"cliques":[{"id":"c"`},
		"failures.json":  {`{"failures":[{"time":2000000,"kind":"worker-lost","worker":"tcp://c"`},
		"spans.json": {`"key":"inc-1"`, `"transport":"cma"`, `"incoming":true`, `"status":"error"`,
			`"truncated":false`},
		"spans.json?start=900000&stop=1100000&limit=1": {`"key":"inc-1"`, `"truncated":true`},
		"spans.json?from=1&to=2":                       {`"row":1`},
		"summary.json": {`"name":"inc","count":2,"seconds":1.1`,
			`"transport":"cma","count":1`},
		"summary.json?start=0&stop=100000":              {`"name":"inc","count":2,"seconds":0.2`, `"transports":[]`},
		"series.json?points=10":                         {`"memory":[[`},
		"story.json?key=inc-1":                          {`"key":"inc-1"`, `"events":[{"time":5,`, `"to":"memory"`},
		"logs.json?worker=tcp://a":                      {`hello tcp://a`},
		"stacks.json?worker=tcp://a":                    {`{"worker":"tcp://a","key":"inc-1","frames":["line 1"]}`},
		"profile.json?worker=tcp://a":                   {`{"name":"tcp://a false false",`, `"count":5,"children":[]}`},
		"profile.json?start=2000000&stop=3500000&key=x": {`" false false 2 3.5 x"`},
		"profile.json?kind=scheduler":                   {`" true false"`},
		"profile.json?kind=server":                      {`" false true"`},
		"why.json":                                      {`"kind":"prefix"`, `"kind":"transfer"`, `"kind":"headroom"`},
	} {
		status, body := get(t, url+"/millstream/"+path)
		if status != http.StatusOK || !json.Valid([]byte(body)) {
			t.Errorf("%s: got %d, %.300s", path, status, body)
		}
		for _, w := range want {
			if !strings.Contains(body, w) {
				t.Errorf("%s: got %.600s, want %s", path, body, w)
			}
		}
	}
	for _, path := range []string{"spans.json?start=x", "tile?level=-1", "tile?index=99999999999999999",
		"series.json?points=-1", "summary.json?from=1e3", "spans.json?limit=x", "profile.json?start=x"} {
		if status, body := get(t, url+"/millstream/"+path); status != http.StatusBadRequest {
			t.Errorf("%s: got %d, %.200s, want 400", path, status, body)
		}
	}
}

// A tile is that of the store; one that is far in the past may be kept by the browser.
func TestTile(t *testing.T) {
	leak.Check(t)
	store := newStore(t)
	url := serve(t, New(store, &fakeSource{}))
	r, err := http.Get(url + "/millstream/tile?level=13&index=0&from=0&to=3&group=1")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	got, _ := io.ReadAll(r.Body)
	want, err := store.Tile(t.Context(), 13, 0, spans.Range{From: 0, To: 3}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) || len(got) == 0 || r.Header.Get("Cache-Control") != "no-store" ||
		r.Header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("tile: got %d bytes, headers %v, want %d bytes", len(got), r.Header, len(want))
	}
	m := store.Meta()
	for _, c := range []struct {
		last, level, index int64
		want               bool
	}{
		{m.Last, 13, 0, false}, {1e12, 13, 0, true}, {1e12, 40, 0, false}, {1e12, 41, 0, true},
		{1e12, 40, 1 << 52, true},
	} {
		m.Last = c.last
		if got := closed(m, c.level, c.index); got != c.want {
			t.Errorf("tile %d of level %d at %d is closed: got %v, want %v", c.index, c.level, c.last, got, c.want)
		}
	}
}

// The live stream has the counts of the source, rates and the extent of the history.
func TestTick(t *testing.T) {
	leak.Check(t)
	url := serve(t, New(newStore(t), &fakeSource{}))
	r, err := http.Get(url + "/millstream/live")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	lines := bufio.NewScanner(r.Body)
	lines.Scan()
	event := lines.Text()
	lines.Scan()
	data, _ := strings.CutPrefix(lines.Text(), "data: ")
	var got map[string]any
	if err := json.Unmarshal([]byte(data), &got); err != nil || event != "event: tick" {
		t.Fatalf("event: got %q, %q, error %v", event, data, err)
	}
	for name, want := range map[string]any{"id": "the-id", "last": 2e6, "rows": 3.0, "workers": 2.0, "threads": 4.0,
		"memory": 11.0, "failures": 1.0, "rate": 0.0} {
		if got[name] != want {
			t.Errorf("%s: got %v, want %v", name, got[name], want)
		}
	}
	for _, name := range []string{"tasks", "bytes_rate", "now", "names"} {
		if got[name] == nil {
			t.Errorf("%s: got none in %v", name, got)
		}
	}
}

func TestRates(t *testing.T) {
	var r rates
	now := time.Unix(100, 0)
	for i, c := range []struct {
		after    time.Duration
		finished int64
		cma      int64
		rate     float64
		bytes    float64
	}{
		{0, 10, 5, 0, 0}, {time.Second, 20, 5, 0, 0}, {2 * time.Second, 30, 25, 10, 10},
		{2500 * time.Millisecond, 90, 99, 10, 10},
		{3 * time.Second, 0, 0, 10, 10}, {5 * time.Second, 8, 2, 4, 1},
	} {
		rate, bytes := r.update(now.Add(c.after), &Counts{Finished: c.finished, Moved: map[string]int64{"cma": c.cma}})
		if rate != c.rate || bytes["cma"] != c.bytes {
			t.Errorf("step %d: got %g tasks/s and %g bytes/s, want %g and %g", i, rate, bytes["cma"], c.rate, c.bytes)
		}
	}
}

// The last tick for a viewer that leaves and the first one for the next may be made at the same time.
func TestTicksOverlap(t *testing.T) {
	leak.Check(t)
	s := New(newStore(t), &fakeSource{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for range 100 {
				if b, err := s.tick(t.Context()); err != nil || len(b) == 0 {
					t.Errorf("tick: got %q, error %v", b, err)
				}
			}
		})
	}
	all.Wait()
}

// An error of the source is an error of its pages only.
func TestSourceFails(t *testing.T) {
	leak.Check(t)
	url := serve(t, New(newStore(t), &fakeSource{err: errors.New("scheduler closed")}))
	for _, path := range []string{"workers.json", "progress.json", "bandwidth.json", "graph.json", "cliques.json",
		"story.json?key=x", "logs.json", "profile.json", "stacks.json"} {
		if status, body := get(t, url+"/millstream/"+path); status != http.StatusServiceUnavailable ||
			!strings.Contains(body, "scheduler closed") {
			t.Errorf("%s: got %d, %q, want 503", path, status, body)
		}
	}
	if status, _ := get(t, url+"/millstream/rows.json"); status != http.StatusOK {
		t.Errorf("rows.json: got %d, want 200", status)
	}
}

// A history without a scheduler has the pages that the spans suffice for.
func TestHistory(t *testing.T) {
	leak.Check(t)
	url := serve(t, New(newStore(t), nil))
	for path, want := range map[string]string{
		"meta.json": `"id":""`, "workers.json": `"workers":[]`, "graph.json": `"nodes":[]`,
		"cliques.json":  `"cliques":[]`,
		"progress.json": `"name":"inc"`, "story.json?key=x": `"events":[]`, "why.json": `"kind":"balance"`,
		"bandwidth.json": `"from":"tcp://b","to":"tcp://a","transport":"cma","scheme":"","bytes":1000000,"seconds":0.2`,
	} {
		if status, body := get(t, url+"/millstream/"+path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: got %d, %.300s, want %s", path, status, body, want)
		}
	}
	for _, path := range []string{"logs.json", "profile.json", "stacks.json"} {
		if status, _ := get(t, url+"/millstream/"+path); status != http.StatusNotFound {
			t.Errorf("%s: got %d, want 404", path, status)
		}
	}
	empty, err := spans.Open(spans.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Close()
	url = serve(t, New(empty, nil))
	for _, path := range []string{"why.json", "rows.json", "spans.json", "bandwidth.json", "tile?level=20"} {
		if status, body := get(t, url+"/millstream/"+path); status != http.StatusOK {
			t.Errorf("%s of an empty history: got %d, %s, want 200", path, status, body)
		}
	}
}
