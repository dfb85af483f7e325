package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"go.millstream.dev/internal/engine/scheduler/state"
	"go.millstream.dev/internal/task"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/scheduler/internal/peers"
)

const hostile = `"><script>alert('x')</script>`

// serveDask starts the HTTP server of a rig with tasks and a worker of hostile names. Ops are recorded in calls.
func serveDask(t *testing.T, token string, api bool) (r *rig, calls *[]string) {
	t.Helper()
	r, calls = start(t), new([]string)
	r.Inspector.Token, r.Inspector.API = token, api
	r.Inspector.Ask = func(_ context.Context, op string, args msgpack.Map) (any, error) {
		*calls = append(*calls, fmt.Sprint(op, args))
		switch op {
		case "get_logs":
			return []any{[]any{"INFO", "a line " + hostile}}, nil
		case "worker_logs":
			return msgpack.MapOf(hostile, []any{[]any{"INFO", hostile}}), nil
		case "call_stack":
			return msgpack.MapOf("tcp://w", msgpack.MapOf(hostile, []any{"frame " + hostile})), nil
		case "adaptive_target":
			return int64(7), nil
		case "check_idle":
			return nil, nil
		case "retire_workers":
			return msgpack.MapOf("tcp://w", msgpack.MapOf("name", "w")), nil
		}
		return nil, errors.New("no such op")
	}
	r.Do(func() {
		w := &peers.Worker{Address: hostile, Name: hostile, Alias: "\xa2\"h", Host: hostile,
			Services: msgpack.MapOf("dashboard", int64(1234)), Metrics: msgpack.MapOf("memory", 2048.0)}
		w.ID = r.AddWorker(hostile, w)
		r.Inspector.Workers.Add(w)
		r.Submit(r.AddClient(hostile, nil), []string{hostile}, []string{"z", hostile})
		x := r.Host.State.Task(task.NewKey(hostile))
		r.Host.Apply(&state.TaskErred{Worker: x.ProcessingOn().ID(), Key: x.Key(), RunID: x.RunID(),
			ExceptionText: "Error" + hostile, TracebackText: hostile})
	})
	if err := r.Inspector.Serve("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		r.Inspector.Close(context.Background())
	})
	return r, calls
}

// Every page of Dask's dashboard leads to a page of this one, by a relative link.
func TestDaskPages(t *testing.T) {
	r, _ := serveDask(t, "", false)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for path, want := range daskPages {
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost} {
			req, err := http.NewRequestWithContext(t.Context(), method, "http://"+r.Inspector.Address()+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			a, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = a.Body.Close()
			if method == http.MethodPost {
				if a.StatusCode != http.StatusMethodNotAllowed {
					t.Errorf("POST %s: got status %d, want 405", path, a.StatusCode)
				}
			} else if got := a.Header.Get("Location"); a.StatusCode != http.StatusFound || got != "./"+want {
				t.Errorf("%s %s: got status %d to %q, want 302 to ./%s", method, path, a.StatusCode, got, want)
			}
		}
	}
	for path, want := range map[string]string{"/info": "main/workers.html", "/json/index.html": `href="counts.json"`,
		"/sitemap.json": `"/info/worker/(.*).html"`, "/counters": "dask_scheduler_tasks",
		"/individual-plots.json": `"Individual Task Stream":"/individual-task-stream"`} {
		if status, body := r.fetch(t, path); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: got %d, %.200s, want %s", path, status, body, want)
		}
	}
	_, body := r.fetch(t, "/sitemap.json")
	var site struct{ Paths []string }
	if err := json.Unmarshal([]byte(body), &site); err != nil {
		t.Fatal(err)
	}
	for _, path := range site.Paths {
		if strings.Contains(path, "(.*)") {
			continue
		}
		if status, body := r.fetch(t, path); status != http.StatusOK {
			t.Errorf("%s of the site map: got status %d, %.100s, want 200", path, status, body)
		}
	}
}

// The pages below /info contain what peers sent, escaped.
func TestDaskInfo(t *testing.T) {
	r, calls := serveDask(t, "", false)
	escaped := url.PathEscape(hostile)
	for path, want := range map[string]string{
		"/info/main/workers.html":                           "tcp://w",
		"/info/main/exceptions.html":                        "Error&#34;&gt;&lt;script&gt;",
		"/info/main/logs.html":                              "a line",
		"/info/worker/" + escaped + ".html":                 "2 KiB",
		"/info/worker/tcp%3A%2F%2Fw.html":                   "x",
		"/info/worker/tcp://w.html":                         "x",
		"/info/task/" + escaped + ".html":                   "Traceback",
		"/info/task/x.html":                                 "Workers with data",
		"/info/task/y.html":                                 "Processing on",
		"/info/call-stacks/tcp%3A%2F%2Fw.html":              "frame",
		"/info/call-stack/y.html":                           "frame",
		"/info/logs/" + escaped + ".html":                   "&lt;script&gt;",
		"/info/logs/" + url.PathEscape("tcp://w") + ".html": "script",
	} {
		status, body := r.fetch(t, path)
		if status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: got %d, %s, want %s in it", path, status, body, want)
		}
		if strings.Contains(body, "<script") || strings.Contains(body, "alert('x')") || strings.Contains(body, `""`) {
			t.Errorf("%s: got %s, want names escaped", path, body)
		}
		for _, link := range strings.Split(body, `href="`)[1:] {
			link, _, _ = strings.Cut(link, `"`)
			if !strings.HasPrefix(link, "../") && !strings.HasPrefix(link, "http://") {
				t.Errorf("%s: got link %q, want a relative one", path, link)
			}
		}
	}
	for _, path := range []string{"/info/worker/tcp%3A%2F%2Fnone.html", "/info/task/none.html", "/info/main/other.html",
		"/info/call-stacks/none.html", "/info/call-stack/none.html", "/info/logs/none.html", "/info/x", "/info/",
		"/info/task/" + strings.Repeat("(", 5000) + ".html"} {
		if status, body := r.fetch(t, path); status != http.StatusNotFound {
			t.Errorf("%.60s: got %d, %.100s, want 404", path, status, body)
		}
	}
	if got := strings.Join(*calls, "\n"); !strings.Contains(got, "call_stack[{keys [[161 121]]}]") ||
		!strings.Contains(got, "worker_logs[{workers [tcp://w]}]") {
		t.Errorf("ops: got %s", got)
	}
}

// Tables are bounded, and the rest is counted.
func TestDaskInfoBounds(t *testing.T) {
	r := start(t)
	r.Do(func() {
		var tasks [][]string
		for i := range maxInfoRows + 5 {
			tasks = append(tasks, []string{fmt.Sprintf("wide-%d", i), "x"})
		}
		r.Submit(r.AddClient("wide", nil), tasks...)
		p, err := r.taskPage("x")
		if err != nil {
			t.Fatal(err)
		}
		for _, table := range p.Tables {
			if table.Title == "Dependents" && (len(table.Rows) != maxInfoRows || table.More != 6) {
				t.Errorf("dependents: got %d rows and %d more, want %d and 6", len(table.Rows), table.More, maxInfoRows)
			}
		}
	})
	for n, want := range map[float64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 1 << 30: "1 GiB",
		1 << 62: "4096 PiB"} {
		if got := byteText(n); got != want {
			t.Errorf("byteText(%v): got %s, want %s", n, got, want)
		}
	}
}

// Dask's API is served if the configuration has its route, or if requests need a token.
func TestDaskAPI(t *testing.T) {
	const token = "0123456789abcdef"
	for _, c := range []struct {
		token string
		api   bool
		want  bool
	}{{"", false, false}, {"", true, true}, {token, false, true}} {
		r, calls := serveDask(t, c.token, c.api)
		ask := func(method, path, body string, header ...string) (int, string) {
			t.Helper()
			req, err := http.NewRequestWithContext(t.Context(), method, "http://"+r.Inspector.Address()+path,
				strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			req.Close = true
			if c.token != "" {
				req.Header.Set("Authorization", "Bearer "+c.token)
			}
			for i := 0; i < len(header); i += 2 {
				req.Header.Set(header[i], header[i+1])
			}
			a, err := http.DefaultClient.Do(req)
			if err != nil && len(body) > maxAPIBody {
				return 0, "" // the server has closed the connection before the end of the body
			}
			if err != nil {
				t.Fatal(err)
			}
			defer a.Body.Close()
			b, err := io.ReadAll(a.Body)
			if err != nil {
				t.Fatal(err)
			}
			return a.StatusCode, string(b)
		}
		for _, x := range []struct {
			method, path, body string
			status             int
			want               string
		}{
			{"GET", "/api/v1", "", 200, "API V1"},
			{"GET", "/api/v1/adaptive_target", "", 200, `{"workers":7}`},
			{"GET", "/api/v1/check_idle", "", 200, `{"idle_since":null}`},
			{"GET", "/api/v1/get_workers", "", 200, `"num_workers":2`},
			{"POST", "/api/v1/retire_workers", `{"n": 1}`, 200, `{"tcp://w":{"name":"w"}}`},
			{"POST", "/api/v1/retire_workers", `{"workers": ["tcp://w"]}`, 200, `{"tcp://w":{"name":"w"}}`},
			{"POST", "/api/v1/retire_workers", `{}`, 200, `{}`},
			{"POST", "/api/v1/retire_workers", `{"n": -1}`, 500, `{"Error": "Internal Server Error"}`},
			{"POST", "/api/v1/retire_workers", `not json`, 500, `{"Error": "Internal Server Error"}`},
			{"POST", "/api/v1/retire_workers", `{"workers": ["` + strings.Repeat("x", maxAPIBody) + `"]}`, 500, "Error"},
			{"GET", "/api/v1/retire_workers", "", 405, "not allowed"},
			{"GET", "/api/v1/retire_workers?n=1", "", 405, "not allowed"},
			{"POST", "/api/v1/adaptive_target", "", 405, "not allowed"},
			{"GET", "/api/v1/other", "", 404, "not found"},
		} {
			status, body := ask(x.method, x.path, x.body)
			if status == 0 {
				continue
			}
			if !c.want {
				if status != http.StatusNotFound && status != http.StatusMethodNotAllowed {
					t.Errorf("%s %s without the route: got %d, %s, want 404", x.method, x.path, status, body)
				}
				continue
			}
			if status != x.status || !strings.Contains(body, x.want) {
				t.Errorf("%s %s %.40s: got %d, %s, want %d, %s", x.method, x.path, x.body, status, body, x.status,
					x.want)
			}
		}
		before := len(*calls)
		status, _ := ask("POST", "/api/v1/retire_workers", `{"n": 1}`, "Origin", "http://evil.example")
		if status != http.StatusForbidden {
			t.Errorf("request of another page: got status %d, want 403", status)
		}
		if len(*calls) != before {
			t.Errorf("request of another page: got ops %v, want none", (*calls)[before:])
		}
		if got := strings.Contains(strings.Join(*calls, " "), "retire_workers[{workers [tcp://w]}]"); got != c.want {
			t.Errorf("API %v: got the workers retired %v", c.want, got)
		}
	}
}
