package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.millstream.dev/internal/testkit/leak"
)

// patience bounds the wait for something that must happen.
const patience = time.Minute

// cluster is a scheduler and a server of dask-gateway, as far as a Service sees them.
type cluster struct {
	t     *testing.T
	s     *Service
	beats chan beat
	ends  chan struct{}

	mu      sync.Mutex
	workers map[string]string
	changed chan struct{}
	target  int
	idle    time.Time
	refuse  bool // heartbeats
	retire  error
}

func start(t *testing.T, o Options) *cluster {
	leak.Check(t)
	c := &cluster{t: t, beats: make(chan beat, 1000), ends: make(chan struct{}, 1000), workers: map[string]string{},
		changed: make(chan struct{})}
	server := httptest.NewServer(http.HandlerFunc(c.serve))
	t.Cleanup(server.Close)
	o.Listen, o.Server, o.Cluster, o.Token = "127.0.0.1:0", server.URL+"/api", "name/1", "secret"
	ctx, cancel := context.WithCancel(context.Background())
	var serving sync.WaitGroup
	host := Host{
		Log: slog.New(slog.DiscardHandler), Context: ctx, Go: serving.Go, Address: "tls://127.0.0.1:1",
		ContactHost: "127.0.0.1", Dashboard: "http://127.0.0.1:2",
		Workers: func(context.Context) (map[string]string, <-chan struct{}, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			return maps.Clone(c.workers), c.changed, nil
		},
		Target: func(context.Context, time.Duration) (int, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.target, nil
		},
		ToClose: func(_ context.Context, count int) ([]string, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			names := slices.Sorted(maps.Values(c.workers))
			return names[min(count, len(names)):], nil
		},
		Retire: c.retireWorkers,
		IdleSince: func(context.Context) (time.Time, error) {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.idle, nil
		},
	}
	s, err := Start(t.Context(), host, o)
	if err != nil {
		t.Fatal(err)
	}
	c.s = s
	t.Cleanup(func() {
		s.Close(context.Background())
		cancel()
		serving.Wait()
	})
	return c
}

// serve is the server of dask-gateway.
func (c *cluster) serve(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	refuse := c.refuse
	c.mu.Unlock()
	switch path := r.URL.EscapedPath(); {
	case r.Header.Get("Authorization") != "token secret":
		http.Error(w, "who is this", http.StatusForbidden)
	case r.Method == http.MethodDelete && path == "/api/v1/clusters/name%2F1":
		c.ends <- struct{}{}
	case r.Method == http.MethodPost && path == "/api/v1/clusters/name%2F1/heartbeat" && !refuse:
		text, _ := io.ReadAll(r.Body)
		if strings.Contains(string(text), "null") {
			http.Error(w, "null in "+string(text), http.StatusInternalServerError)
			return
		}
		var b beat
		_ = json.Unmarshal(text, &b)
		c.beats <- b
	default:
		http.Error(w, "no", http.StatusInternalServerError)
	}
}

// set changes the workers: names by address.
func (c *cluster) set(workers map[string]string) {
	c.mu.Lock()
	c.workers = workers
	close(c.changed)
	c.changed = make(chan struct{})
	c.mu.Unlock()
}

func (c *cluster) retireWorkers(_ context.Context, names []string) error {
	c.mu.Lock()
	rest, err := maps.Clone(c.workers), c.retire
	c.mu.Unlock()
	if err != nil {
		return err
	}
	maps.DeleteFunc(rest, func(_, name string) bool { return slices.Contains(names, name) })
	c.set(rest)
	return nil
}

// await reads heartbeats until one has a property.
func (c *cluster) await(what string, ok func(beat) bool) beat {
	c.t.Helper()
	limit := time.After(patience)
	var last beat
	for {
		select {
		case last = <-c.beats:
			if ok(last) {
				return last
			}
		case <-limit:
			c.t.Fatalf("no heartbeat with %s; the last was %+v", what, last)
		}
	}
}

// post sends a request to the API and returns the status.
func (c *cluster) post(token, body string) int {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, c.s.API()+"/api/comm", strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Authorization", "token "+token)
	r.Close = true
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

// A number of workers is reported to the server; those that are too many are retired.
func TestScale(t *testing.T) {
	c := start(t, Options{Heartbeat: time.Second, Adaptive: time.Hour})
	b := c.await("addresses", func(beat) bool { return true })
	if b.Scheduler != "tls://127.0.0.1:1" || b.Dashboard != "http://127.0.0.1:2" || b.API != c.s.API() || b.Count != 0 {
		t.Errorf("got %+v", b)
	}
	if got := c.post("secret", `{"op": "scale", "count": 3}`); got != http.StatusOK {
		t.Fatalf("got status %d", got)
	}
	c.await("count 3", func(b beat) bool { return b.Count == 3 })
	c.set(map[string]string{"a": "w1", "b": "w2", "c": "w3"})
	c.await("three workers", func(b beat) bool { return slices.Equal(b.Active, []string{"w1", "w2", "w3"}) })
	c.post("secret", `{"op": "scale", "count": 1}`)
	b = c.await("closing workers", func(b beat) bool { return len(b.Closing) > 0 })
	if !slices.Equal(b.Active, []string{"w1"}) || !slices.Equal(b.Closing, []string{"w2", "w3"}) {
		t.Errorf("got %+v", b)
	}
	closed := map[string]bool{}
	c.await("closed workers", func(b beat) bool {
		for _, name := range b.Closed {
			closed[name] = true
		}
		return closed["w2"] && closed["w3"]
	})
	c.await("nothing else", func(b beat) bool { return len(b.Closed)+len(b.Closing) == 0 && len(b.Active) == 1 })
}

// A worker that is lost is reported as closed once, and not if another one with its name has joined.
func TestLostWorker(t *testing.T) {
	c := start(t, Options{Heartbeat: time.Second, Adaptive: time.Hour})
	c.post("secret", `{"op": "scale", "count": 2}`)
	c.await("count 2", func(b beat) bool { return b.Count == 2 })
	c.set(map[string]string{"a": "w1", "b": "w2"})
	c.await("two workers", func(b beat) bool { return len(b.Active) == 2 })
	c.set(map[string]string{"c": "w1"})
	b := c.await("a closed worker", func(b beat) bool { return len(b.Closed) > 0 })
	if !slices.Equal(b.Closed, []string{"w2"}) || !slices.Equal(b.Active, []string{"w1"}) {
		t.Errorf("got %+v", b)
	}
	c.await("no closed worker", func(b beat) bool { return len(b.Closed) == 0 })
}

// Heartbeats that the server rejects are repeated, with what they had to report.
func TestServerFails(t *testing.T) {
	c := start(t, Options{Heartbeat: 500 * time.Millisecond, Adaptive: time.Hour})
	c.post("secret", `{"op": "scale", "count": 1}`)
	c.await("count 1", func(b beat) bool { return b.Count == 1 })
	c.set(map[string]string{"a": "w1"})
	c.await("a worker", func(b beat) bool { return len(b.Active) == 1 })
	c.mu.Lock()
	c.refuse = true
	c.mu.Unlock()
	c.set(map[string]string{})
	time.Sleep(time.Second) // lets some heartbeats fail; with none the test checks less
	c.mu.Lock()
	c.refuse = false
	c.mu.Unlock()
	c.await("the closed worker", func(b beat) bool { return slices.Equal(b.Closed, []string{"w1"}) })
}

// Workers that could not be retired are chosen again.
func TestRetireFails(t *testing.T) {
	c := start(t, Options{Heartbeat: time.Second, Adaptive: time.Hour})
	c.mu.Lock()
	c.retire = errors.New("no other worker has room")
	c.mu.Unlock()
	c.set(map[string]string{"a": "w1"})
	for range 2 {
		c.await("a worker to close", func(b beat) bool { return len(b.Closing) == 1 })
	}
	c.mu.Lock()
	c.retire = nil
	c.mu.Unlock()
	c.await("its end", func(b beat) bool { return slices.Contains(b.Closed, "w1") })
}

func TestAdapt(t *testing.T) {
	c := start(t, Options{Heartbeat: time.Second, Adaptive: 20 * time.Millisecond})
	load := func(n int) {
		c.mu.Lock()
		c.target = n
		c.mu.Unlock()
	}
	load(7)
	c.post("secret", `{"op": "adapt", "minimum": 1, "maximum": 5}`)
	c.await("the maximum", func(b beat) bool { return b.Count == 5 })
	load(3)
	c.await("the load", func(b beat) bool { return b.Count == 3 })
	load(0)
	c.await("the minimum", func(b beat) bool { return b.Count == 1 })
	c.post("secret", `{"op": "adapt", "active": false}`)
	c.post("secret", `{"op": "scale", "count": 2}`)
	c.await("the number", func(b beat) bool { return b.Count == 2 })
	c.post("secret", `{"op": "adapt"}`)
	load(9)
	c.await("no limits", func(b beat) bool { return b.Count == 9 })
}

// An idle cluster asks for its end; a busy one does not.
func TestIdle(t *testing.T) {
	c := start(t, Options{Heartbeat: time.Second, Adaptive: time.Hour, Idle: 200 * time.Millisecond})
	c.await("a heartbeat", func(beat) bool { return true })
	select {
	case <-c.ends:
		t.Error("the cluster ended while it was busy")
	default:
	}
	c.mu.Lock()
	c.idle = time.Now()
	c.mu.Unlock()
	select {
	case <-c.ends:
	case <-time.After(patience):
		t.Error("the cluster did not end")
	}
}

func TestAPI(t *testing.T) {
	c := start(t, Options{Heartbeat: time.Second, Adaptive: time.Hour})
	for _, x := range []struct {
		token, body string
		want        int
	}{
		{"secret", `{"op": "scale", "count": 0}`, http.StatusOK},
		{"wrong", `{"op": "scale", "count": 1}`, http.StatusForbidden},
		{"", `{"op": "scale", "count": 1}`, http.StatusForbidden},
		{"secret", `{"op": "scale", "count": -1}`, http.StatusUnprocessableEntity},
		{"secret", `{"op": "scale", "count": 1e9}`, http.StatusUnprocessableEntity},
		{"secret", `{"op": "adapt", "minimum": 3, "maximum": 2}`, http.StatusUnprocessableEntity},
		{"secret", `{"op": "sing"}`, http.StatusUnprocessableEntity},
		{"secret", `{"op": 1}`, http.StatusUnprocessableEntity},
		{"secret", `{`, http.StatusUnprocessableEntity},
		{"secret", `{"op": "` + strings.Repeat("x", maxBody) + `"}`, http.StatusUnprocessableEntity},
	} {
		if got := c.post(x.token, x.body); got != x.want {
			t.Errorf("%.60s: got status %d, want %d", x.body, got, x.want)
		}
	}
	resp, err := http.Get(c.s.API() + "/api/health")
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("got %v %v", resp, err)
	}
	_ = resp.Body.Close()
	http.DefaultClient.CloseIdleConnections()
}
