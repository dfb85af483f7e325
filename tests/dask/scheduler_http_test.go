package dask

import (
	"fmt"
	"strings"
	"testing"

	"go.millstream.dev/tests/dask/rig"
)

// httpPage is what dashboard_paths.py found at a path. Status is that of the path itself, Final that after redirects.
type httpPage struct {
	Status, Final        int
	Kind, Location, Page string
	Shape                string
}

// httpPages returns the paths of a scheduler with one Dask worker, and the address of the worker.
func httpPages(r *rig.Rig, s *rig.Process) (map[string]httpPage, string) {
	r.Helper()
	r.DaskWorker(s.Address, "--name", "only")
	res := r.Python(s.Address, "dashboard_paths.py")
	values, _ := res.Values["paths"].(map[string]any)
	out := map[string]httpPage{}
	for path, v := range values {
		m, _ := v.(map[string]any)
		status, _ := m["status"].(float64)
		final, _ := m["final"].(float64)
		p := httpPage{Status: int(status), Final: int(final), Shape: fmt.Sprint(m["shape"])}
		p.Kind, _ = m["kind"].(string)
		p.Location, _ = m["location"].(string)
		p.Page, _ = m["page"].(string)
		out[path] = p
	}
	worker, _ := res.Values["worker"].(string)
	return out, worker
}

// Every path of the dashboard of Dask's scheduler has the same status, type and form on a Millstream scheduler. Pages
// that Dask draws are redirects to a page of Millstream with that content.
func TestSchedulerHTTP(t *testing.T) {
	r := rig.New(t)
	r.Env = []string{"DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES=['distributed.http.scheduler.prometheus', " +
		"'distributed.http.scheduler.info', 'distributed.http.scheduler.json', 'distributed.http.health', " +
		"'distributed.http.scheduler.api']"}
	theirs, theirWorker := httpPages(r, r.DaskScheduler())
	ours, ourWorker := httpPages(r, r.Scheduler())
	// reasons are the differences.
	reasons := map[string]string{
		"/":                      "Dask redirects to /status, Millstream has its page here",
		"/counters":              "Dask draws the counters of /metrics",
		"/individual-plots.json": "Dask has a drawing of the cluster",
		"/metrics":               "Dask has no /metrics without prometheus_client",
		"/sitemap.json":          "Dask fails with the routes of its API",
		"/json/identity.json":    "Millstream adds a field",
	}
	if len(theirs) < 70 || len(ours) != len(theirs) {
		t.Fatalf("paths: got %d, want %d", len(ours), len(theirs))
	}
	for path, want := range theirs {
		got := ours[path]
		_, differs := reasons[path]
		switch {
		case differs:
			if got.Final != 200 {
				t.Errorf("%s: got status %d, want 200", path, got.Final)
			}
		case want.Status == 200 && strings.HasPrefix(got.Location, "./#/"): // a page of Dask
			if got.Status != 302 || got.Final != 200 || got.Kind != "text/html" {
				t.Errorf("%s: got %d, after the redirect %d %s, want 302, 200 text/html", path, got.Status, got.Final,
					got.Kind)
			}
		case got.Status != want.Status || got.Final != want.Final || got.Kind != want.Kind && want.Status < 400 ||
			got.Shape != want.Shape:
			t.Errorf("%s: got %d, %d, %s, %s, want %d, %d, %s, %s: %.300s", path, got.Status, got.Final, got.Kind,
				got.Shape, want.Status, want.Final, want.Kind, want.Shape, got.Page)
		}
	}
	for path, texts := range map[string][]string{
		"/info/main/workers.html":                 {"WORKER", "only", "logs"},
		"/info/main/exceptions.html":              {"erred-1", "&lt;b&gt;failed&lt;/b&gt;"},
		"/info/worker/ADDRESS.html":               {"WORKER", "done-1", "waiting-1"},
		"/info/task/done-1.html":                  {"memory", "int", "WORKER"},
		"/info/task/erred-1.html":                 {"erred", "&lt;b&gt;failed&lt;/b&gt;", "Traceback"},
		"/info/task/%28%27pair%27%2C%200%29.html": {"pair", "memory"},
		"/info/call-stacks/ADDRESS.html":          {"waiting-1", "in wait"},
		"/info/call-stack/waiting-1.html":         {"waiting-1", "in wait"},
		"/info/logs/ADDRESS.html":                 {"Registered to"},
		"/individual-plots.json":                  {`"Individual Task Stream"`, `"/individual-task-stream"`},
		"/json/index.html":                        {"counts.json", "identity.json"},
		"/health":                                 {"ok"},
	} {
		for _, text := range texts {
			for name, of := range map[string]struct {
				pages  map[string]httpPage
				worker string
			}{"Dask": {theirs, theirWorker}, "Millstream": {ours, ourWorker}} {
				want := strings.ReplaceAll(text, "WORKER", of.worker)
				if !strings.Contains(of.pages[path].Page, want) {
					t.Errorf("%s of %s: got %.2000s, want %q in it", path, name, of.pages[path].Page, want)
				}
			}
		}
	}
	for path, why := range reasons {
		if theirs[path].Status == 0 {
			t.Errorf("%s: got a difference (%s) of a path that was not fetched", path, why)
		}
	}
}

// The paths of the dashboard of Dask's worker have the same status and type on a Millstream worker of the same Dask
// scheduler.
func TestWorkerHTTP(t *testing.T) {
	r := rig.New(t)
	s := r.DaskScheduler()
	r.DaskWorker(s.Address, "--name", "python")
	r.Worker(s.Address, "--name", "go", "--no-python")
	paths, _ := r.Python(s.Address, "worker_paths.py").Values["paths"].(map[string]any)
	theirs, _ := paths["python"].(map[string]any)
	ours, _ := paths["go"].(map[string]any)
	reasons := map[string]string{
		"/counters":     "Dask draws the counters of /metrics",
		"/metrics":      "Dask has no /metrics without prometheus_client",
		"/sitemap.json": "Millstream workers have none: no tool uses it",
	}
	if len(theirs) < 9 || len(ours) != len(theirs) {
		t.Fatalf("paths: got %d, want %d, at least 9", len(ours), len(theirs))
	}
	for path, v := range theirs {
		want, _ := v.(map[string]any)
		got, _ := ours[path].(map[string]any)
		if reasons[path] == "" && (got["status"] != want["status"] || got["kind"] != want["kind"] &&
			want["status"] == 200.0) {
			t.Errorf("%s: got %v %v, want %v %v", path, got["status"], got["kind"], want["status"], want["kind"])
		}
	}
	for _, path := range []string{"/counters", "/metrics"} {
		if got, _ := ours[path].(map[string]any); got["status"] != 200.0 {
			t.Errorf("%s: got status %v, want 200", path, got["status"])
		}
	}
}
