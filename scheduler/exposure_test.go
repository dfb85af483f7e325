package scheduler

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
)

// get fetches a page with a Host header.
func get(t *testing.T, s *Scheduler, path, host string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.DashboardAddress()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Host, r.Close = host, true
	a, err := http.DefaultClient.Do(r)
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

// HTTP is served on the loopback interface, to requests with a name of the server, and the page at / lists pages that
// exist.
func TestDashboardExposure(t *testing.T) {
	leak.Check(t)
	for _, address := range []string{":0", "0"} {
		s := start(t, Config{Dashboard: address})
		if host, _, err := net.SplitHostPort(s.DashboardAddress()); err != nil || host != "127.0.0.1" {
			t.Errorf("dashboard %q: got address %s, want 127.0.0.1", address, s.DashboardAddress())
		}
	}
	s := start(t, Config{Dashboard: "0.0.0.0:0", DashboardHosts: []string{"grafana.example"}})
	if host, _, err := net.SplitHostPort(s.DashboardAddress()); err != nil || host != "127.0.0.1" {
		t.Errorf("dashboard on all interfaces: got address %s, want one that a browser opens",
			s.DashboardAddress())
	}
	for host, want := range map[string]int{"": 200, "localhost:1": 200, "grafana.example": 200,
		"rebound.evil.example": 403} {
		if got, _ := get(t, s, "/json/identity.json", host); got != want {
			t.Errorf("Host %q: got status %d, want %d", host, got, want)
		}
	}
	code, page := get(t, s, "/", "")
	if code != http.StatusOK {
		t.Fatalf("/: got status %d, want 200", code)
	}
	links := strings.Split(page, `<a href="`)[1:]
	if len(links) < 5 {
		t.Errorf("pages of /: got %d, want at least 5", len(links))
	}
	for _, l := range links {
		path, _, _ := strings.Cut(l, `"`)
		if code, _ := get(t, s, "/"+path, ""); code != http.StatusOK {
			t.Errorf("/%s: got status %d, want 200", path, code)
		}
	}
	if code, _ := get(t, s, "/nothing", ""); code != http.StatusNotFound {
		t.Errorf("/nothing: got status %d, want 404", code)
	}
}

// The log has the peers that connect, close the scheduler or take over a worker's address, and get_logs returns one
// line for each record whatever peers put into it.
func TestLogNamesPeers(t *testing.T) {
	leak.Check(t)
	log := &logText{}
	s := start(t, Config{Logger: slog.New(slog.NewTextHandler(log, nil))})
	c := connect(t, s, "client\nlevel=ERROR msg=forged\x1b[2J")
	until(t, "the client's address is in the log", func() bool { return log.has("peer=" + c.comm.LocalAddr()) })
	for _, l := range c.call("get_logs").([]any) {
		if text := l.([]any)[1].(string); strings.ContainsAny(text, "\n\r\x1b") {
			t.Errorf("line of get_logs: got %q, want no control characters", text)
		}
	}
	if err := c.pool.Call(t.Context(), s.Address(), "terminate", msgpack.Map{}, nil); err != nil {
		t.Fatal(err)
	}
	<-s.Done()
	if !log.has(`msg="scheduler closes" reason=unknown peer=tcp://127.0.0.1:`) {
		t.Error("log: got no peer that closed the scheduler")
	}
}
