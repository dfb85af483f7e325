package scheduler

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/dashboard"
	"go.millstream.dev/internal/proc/profile"
	"go.millstream.dev/internal/rpc"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/val"
)

// page reads a page of the dashboard.
func page[T any](t *testing.T, s *Scheduler, path string) (out T) {
	t.Helper()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Get("http://" + s.DashboardAddress() + "/millstream/" + path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != http.StatusOK {
		t.Fatalf("%s: got %d, %s, error %v", path, r.StatusCode, b, err)
	}
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatalf("%s: %v in %.300s", path, err, b)
	}
	return out
}

type spansPage struct {
	Spans []struct {
		Row, Start, Stop             int64
		Cat                          int
		Key, Peer, Transport, Status string
		Bytes                        int64
	}
}

type rowsPage struct {
	Rows []struct {
		Worker, Kind string
	}
	Names []string
}

// The dashboard shows what workers did: tasks, a failure, transfers, a lost worker.
func TestDashboard(t *testing.T) {
	s := start(t, Config{Dashboard: "127.0.0.1:0"})
	a := join(t, s, "a")
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "x-1", spec: "x"}, {key: "y-1", spec: "y", deps: []string{"x-1"}}}, "y-1")
	c.expectKey("key-in-memory", "y-1")
	c.submit([]node{{key: "bad-1", spec: "fail"}}, "bad-1")
	c.expectKey("task-erred", "bad-1")
	now := val.Seconds(time.Now())
	a.call("heartbeat_worker", "address", a.address, "metrics",
		msgpack.MapOf("memory", 1000, "managed_bytes", 400, "cpu", 150.0, "task_counts", msgpack.MapOf("ready", 3)),
		"extensions", msgpack.MapOf("millstream", msgpack.MapOf("transfers", []any{
			[]any{now - 1, now - 0.5, 1000, "ucxx", "tcp://b:1", "incoming", 3, "cma"},
			[]any{-1e300, 1e300, 1000, "ucxx", "tcp://b:1", "incoming", 3, "cma"},
		})))
	var got spansPage
	until(t, "spans in the history", func() bool {
		got = page[spansPage](t, s, "spans.json")
		return len(got.Spans) >= 4
	})
	rows := page[rowsPage](t, s, "rows.json")
	var list []string
	for _, x := range got.Spans {
		list = append(list, fmt.Sprintf("%s %s %s %s %s", rows.Rows[x.Row].Kind, rows.Names[x.Cat], x.Key, x.Transport,
			x.Status))
	}
	slices.Sort(list)
	want := []string{"thread error bad-1  error", "thread x x-1  OK", "thread y y-1  OK", "transfer transfer  cma OK"}
	if !slices.Equal(list, want) {
		t.Errorf("spans: got %q, want %q", list, want)
	}
	var failures []dashboard.Failure
	until(t, "a failure in the history", func() bool {
		failures = page[struct{ Failures []dashboard.Failure }](t, s, "failures.json").Failures
		return len(failures) > 0
	})
	if len(failures) != 1 || failures[0].Kind != "task-erred" || failures[0].Key != "bad-1" ||
		failures[0].Worker != a.address || failures[0].Cause != "failed on purpose" || failures[0].Time <= 0 {
		t.Errorf("failures: got %+v, want that of bad-1", failures)
	}
	workers := page[struct{ Workers []dashboard.Worker }](t, s, "workers.json").Workers
	if len(workers) != 1 || workers[0].Address != a.address || workers[0].Memory.RSS != 1000 ||
		workers[0].Memory.Unmanaged != 600 || workers[0].CPU != 150 || workers[0].Ready != 3 ||
		!slices.Equal(workers[0].Transports, []string{"cma"}) || workers[0].Device != nil {
		t.Errorf("workers: got %+v", workers)
	}
	progress := page[struct{ Prefixes []dashboard.Prefix }](t, s, "progress.json").Prefixes
	counts := page[map[string]any](t, s, "../json/counts.json")
	memory, erred := 0, 0
	for _, p := range progress {
		memory += p.Memory
		erred += p.Erred
	}
	if float64(memory) != counts["memory"] || float64(erred) != counts["erred"] || memory == 0 || erred != 1 {
		t.Errorf("progress: got %d in memory and %d erred, want those of %v", memory, erred, counts)
	}
	pairs := page[dashboard.Bandwidth](t, s, "bandwidth.json")
	if len(pairs.Pairs) != 1 || pairs.Pairs[0].Transport != "cma" || pairs.Pairs[0].Bytes != 1000 ||
		!slices.Equal(pairs.Workers, []string{a.address}) {
		t.Errorf("bandwidth: got %+v, want a transfer over cma", pairs)
	}
	graph := page[dashboard.Graph](t, s, "graph.json")
	if graph.Grouped || float64(len(graph.Nodes)) != counts["tasks"] {
		t.Errorf("graph: got %+v, want %v tasks", graph, counts["tasks"])
	}
	story := page[struct{ Events []dashboard.Step }](t, s, "story.json?key=y-1").Events
	if n := len(story); n < 3 || story[n-1].To != "memory" || story[n-1].Worker != a.address {
		t.Errorf("story of y-1: got %+v, want it to end in memory", story)
	}
	if lines := page[map[string]any](t, s, "logs.json"); !strings.Contains(fmt.Sprint(lines), "worker registered") {
		t.Errorf("log of the scheduler: got %v", lines)
	}
	a.server.Handle("call_stack", func(context.Context, *rpc.Request) (any, error) {
		return msgpack.MapOf("x-1", []any{"line 1"}), nil
	})
	a.server.Handle("profile", func(context.Context, *rpc.Request) (any, error) {
		var tree profile.Tree
		tree.Add([]*profile.Frame{{ID: "f", Name: "f", File: "f.go", Line: 7}}, 3)
		return tree.Encoded(), nil
	})
	stacks := page[struct{ Stacks []dashboard.Stack }](t, s, "stacks.json?worker="+a.address).Stacks
	if len(stacks) != 1 || stacks[0].Worker != a.address || stacks[0].Key != "x-1" ||
		!slices.Equal(stacks[0].Frames, []string{"line 1"}) {
		t.Errorf("call stacks: got %+v, want that of x-1", stacks)
	}
	tree := page[profile.View](t, s, "profile.json")
	if tree.Count != 3 || len(tree.Children) != 1 || tree.Children[0].Name != "f" || tree.Children[0].Line != 7 {
		t.Errorf("profile: got %+v, want three samples of f", tree)
	}
	if tree := page[profile.View](t, s, "profile.json?worker=tcp://none:1"); tree.Count != 0 {
		t.Errorf("profile of an unknown worker: got %+v, want none", tree)
	}
	a.crash()
	until(t, "the failure of the worker", func() bool {
		f := page[struct{ Failures []dashboard.Failure }](t, s, "failures.json").Failures
		return slices.ContainsFunc(f, func(x dashboard.Failure) bool {
			return x.Kind == "worker-lost" && x.Worker == a.address
		})
	})
}

// The page and its parts are served.
func TestDashboardPage(t *testing.T) {
	s := start(t, Config{Dashboard: "127.0.0.1:0"})
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for path, want := range map[string]string{"/": "text/html", "/static/app.js": "text/javascript",
		"/static/app.css": "text/css"} {
		r, err := c.Get("http://" + s.DashboardAddress() + path)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
		got := r.Header.Get("Content-Type")
		if err != nil || r.StatusCode != 200 || !strings.HasPrefix(got, want) || n == 0 {
			t.Errorf("%s: got %d, %s, %d bytes, error %v, want %s", path, r.StatusCode, got, n, err, want)
		}
	}
}

// The live stream ends when the scheduler closes.
func TestDashboardLive(t *testing.T) {
	s := start(t, Config{Dashboard: "127.0.0.1:0"})
	join(t, s, "a")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
		"http://"+s.DashboardAddress()+"/millstream/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	lines := bufio.NewScanner(r.Body)
	var tick struct {
		ID      string
		Workers int
	}
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			if err := json.Unmarshal([]byte(data), &tick); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	if tick.ID != s.ID() || tick.Workers != 1 {
		t.Errorf("tick: got %+v, want %s with one worker", tick, s.ID())
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, r.Body)
	}()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	<-ended
}

// performance_report returns a page with the data since a time.
func TestPerformanceReport(t *testing.T) {
	s := start(t, Config{Dashboard: "127.0.0.1:0"})
	join(t, s, "a")
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "x-1", spec: "x"}}, "x-1")
	c.expectKey("key-in-memory", "x-1")
	got, _ := c.call("performance_report", "start", val.Seconds(time.Now())-60, "last_count", 0, "code", "x()",
		"mode", nil).(string)
	if !strings.HasPrefix(got, "<!doctype html>") || !strings.Contains(got, `id="data"`) {
		t.Errorf("performance_report: got %.200q, want a page with data", got)
	}
	b, _ := c.call("millstream-report").([]byte)
	if !strings.HasPrefix(string(b), "<!doctype html>") {
		t.Errorf("millstream-report: got %.200q, want a page", b)
	}
	b, _ = c.call("millstream-report", "format", "trace").([]byte)
	if !json.Valid(b) || !strings.Contains(string(b), "x-1") {
		t.Errorf("trace: got %.900q, want JSON with x-1", b)
	}
	c.fails("want html or trace", "millstream-report", "format", "pdf")
	off := start(t, Config{})
	other := connect(t, off, "client-2")
	for _, op := range []string{"performance_report", "millstream-report"} {
		other.fails("scheduler has no dashboard", op, "start", 0.0)
	}
}

// A scheduler with a journal continues its history.
func TestDashboardRestart(t *testing.T) {
	dir := t.TempDir()
	s := start(t, Config{Dashboard: "127.0.0.1:0", Journal: dir})
	join(t, s, "a")
	c := connect(t, s, "client-1")
	c.submit([]node{{key: "x-1", spec: "x"}}, "x-1")
	c.expectKey("key-in-memory", "x-1")
	until(t, "a span in the history", func() bool { return len(page[spansPage](t, s, "spans.json").Spans) == 1 })
	before := page[map[string]any](t, s, "meta.json")
	if err := s.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	s = start(t, Config{Dashboard: "127.0.0.1:0", Journal: dir})
	after := page[map[string]any](t, s, "meta.json")
	if after["origin"] != before["origin"] || after["spans"] != before["spans"] || after["id"] == before["id"] {
		t.Errorf("history after a restart: got %v, want that of %v with another ID", after, before)
	}
	until(t, "the event of the restart", func() bool {
		f := page[struct{ Failures []dashboard.Failure }](t, s, "failures.json").Failures
		return len(f) == 1 && f[0].Kind == "restart"
	})
	if err := s.Shutdown(context.Background()); err != nil {
		t.Fatal(err)
	}
	// A history that cannot be read does not prevent a start: it is kept under another name.
	names := filepath.Join(dir, "dashboard", "names.log")
	if err := os.WriteFile(names, []byte("garbage garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	s = start(t, Config{Dashboard: "127.0.0.1:0", Journal: dir})
	if n := page[map[string]any](t, s, "meta.json")["spans"]; n != 0.0 {
		t.Errorf("after damage: got %v spans, want none", n)
	}
	list, err := filepath.Glob(filepath.Join(dir, "dashboard.damaged-*", "names.log"))
	if err != nil || len(list) != 1 {
		t.Errorf("damaged history: got %v, %v, want it under another name", list, err)
	}
}
