package scheduler

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"go.millstream.dev/comm"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/internal/wire/msgpack"
	"go.millstream.dev/secure"
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
	s := start(t, Config{Dashboard: "0.0.0.0:0", DashboardHosts: []string{"grafana.example"}, DashboardToken: "none"})
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
	for _, path := range []string{"/", "/health", "/metrics", "/json/identity.json", "/json/counts.json",
		"/millstream/unrunnable", "/millstream/tasks", "/millstream/transfers", "/millstream/events"} {
		if code, _ := get(t, s, path, ""); code != http.StatusOK {
			t.Errorf("%s: got status %d, want 200", path, code)
		}
	}
	if code, _ := get(t, s, "/nothing", ""); code != http.StatusNotFound {
		t.Errorf("/nothing: got status %d, want 404", code)
	}
}

// On an address that other machines reach every page except /health needs the token, which is not in the identity, the
// log, the events or any page.
func TestDashboardToken(t *testing.T) {
	leak.Check(t)
	const token = "0123456789abcdefXYZ"
	log := &logText{}
	s := start(t, Config{Dashboard: "0.0.0.0:0", DashboardToken: token,
		Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	local := start(t, Config{Dashboard: "127.0.0.1:0"})
	unknown := start(t, Config{Dashboard: "0.0.0.0:0"})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	ask := func(s *Scheduler, method, path string, header ...string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+s.DashboardAddress()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		a, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		b, err := io.ReadAll(a.Body)
		if err != nil {
			t.Fatal(err)
		}
		if cookies := a.Cookies(); len(cookies) > 0 {
			return a.StatusCode, cookies[0].String()
		}
		return a.StatusCode, string(b)
	}
	_, cookie := ask(s, "GET", "/?token="+token)
	cookie, _, _ = strings.Cut(cookie, ";")
	paths := []string{"/", "/metrics", "/json/identity.json", "/json/counts.json", "/millstream/events",
		"/millstream/tasks", "/millstream/transfers", "/millstream/unrunnable", "/nothing"}
	for _, path := range paths {
		want := http.StatusOK
		if path == "/nothing" {
			want = http.StatusNotFound
		}
		for _, c := range []struct {
			of     *Scheduler
			path   string
			header []string
			want   int
		}{
			{s, path, nil, 401},
			{s, path, []string{"Authorization", "Bearer " + token}, want},
			{s, path, []string{"Authorization", "Bearer " + token + "x"}, 401},
			{s, path, []string{"Cookie", cookie}, want},
			{s, path, []string{"Cookie", cookie + "x"}, 401},
			{s, path, []string{"Cookie", cookie, "Origin", "http://evil.example"}, 403},
			{s, path, []string{"Cookie", cookie, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors"}, 403},
			{s, path + "?token=" + token, nil, 303},
			{s, path + "?token=wrong", nil, 401},
			{unknown, path, nil, 401},
			{unknown, path, []string{"Authorization", "Bearer "}, 401},
			{local, path, nil, want},
			{local, path, []string{"Origin", "http://evil.example"}, 403},
		} {
			code, body := ask(c.of, "GET", c.path, c.header...)
			if code != c.want {
				t.Errorf("%s with %q: got status %d, want %d", c.path, c.header, code, c.want)
			}
			if strings.Contains(body, token) {
				t.Errorf("%s with %q: the page contains the token", c.path, c.header)
			}
		}
	}
	for _, of := range []*Scheduler{s, local, unknown} {
		if code, body := ask(of, "GET", "/health"); code != http.StatusOK || body != "ok" {
			t.Errorf("/health: got %d %q, want 200 ok", code, body)
		}
		if code, _ := ask(of, "POST", "/health"); code == http.StatusOK {
			t.Error("POST /health: got status 200")
		}
	}
	c := connect(t, s, "client")
	for _, op := range []string{"get_logs", "identity", "events"} {
		if got := fmt.Sprint(c.call(op)); strings.Contains(got, token) {
			t.Errorf("%s contains the token: %s", op, got)
		}
	}
	if log.has(token) {
		t.Error("the log contains the token")
	}
	if _, err := Start(t.Context(), Config{Listen: []string{"tcp://127.0.0.1:0"}, Dashboard: "127.0.0.1:0",
		DashboardToken: "short"}); err == nil || !strings.Contains(err.Error(), "token of 5 characters") {
		t.Errorf("short token: got %v, want an error", err)
	}
}

// With certificates the pages are served over TLS outside the loopback interface: every role may read, clients may send
// commands, and a browser without a certificate needs the token.
func TestDashboardCertificates(t *testing.T) {
	leak.Check(t)
	const token = "0123456789abcdefXYZ"
	ca, err := secure.NewCA(secure.CAConfig{})
	if err != nil {
		t.Fatal(err)
	}
	pair := func(role secure.Role) (id *secure.Identity, cert tls.Certificate) {
		id, err := ca.Issue(secure.Request{Roles: []secure.Role{role}})
		if err == nil {
			cert, err = tls.X509KeyPair(id.Cert, id.Key)
		}
		if err != nil {
			t.Fatal(err)
		}
		return id, cert
	}
	own, _ := pair(secure.Scheduler)
	listen, err := own.Listen()
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, Config{Listen: []string{"tls://127.0.0.1:0"}, ListenConfig: comm.ListenConfig{TLS: listen},
		Dashboard: "0.0.0.0:0", DashboardToken: token})
	for _, c := range []struct {
		role      secure.Role
		get, post int
	}{{"", 401, 401}, {secure.Viewer, 200, 403}, {secure.Worker, 200, 403}, {secure.Scheduler, 200, 403},
		{secure.Client, 200, 200}} {
		cfg := &tls.Config{InsecureSkipVerify: true} // certificates of clusters have no host names
		if c.role != "" {
			_, cert := pair(c.role)
			cfg.Certificates = []tls.Certificate{cert}
		}
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: cfg, DisableKeepAlives: true}}
		for _, x := range []struct {
			method, path, token string
			want                int
		}{{"GET", "/json/counts.json", "", c.get}, {"POST", "/api/v1/retire_workers", "", c.post},
			{"GET", "/health", "", 200}, {"GET", "/json/counts.json", token, 200},
			{"POST", "/api/v1/retire_workers", token, 200}} {
			r, err := http.NewRequestWithContext(t.Context(), x.method, "https://"+s.DashboardAddress()+x.path,
				strings.NewReader("{}"))
			if err != nil {
				t.Fatal(err)
			}
			if x.token != "" {
				r.Header.Set("Authorization", "Bearer "+x.token)
			}
			a, err := client.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			_ = a.Body.Close()
			if a.StatusCode != x.want {
				t.Errorf("role %q, %s %s, token %q: got status %d, want %d", c.role, x.method, x.path, x.token,
					a.StatusCode, x.want)
			}
		}
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
