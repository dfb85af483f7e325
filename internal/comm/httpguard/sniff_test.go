package httpguard_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/internal/comm/httpguard"
	"go.millstream.dev/internal/testkit/leak"
	"go.millstream.dev/secure"
)

const token = "abcdefghijklmnop0123"

// serve starts a server on all interfaces with the certificates of a cluster, and returns its address at the loopback
// interface. Viewers may read.
func serve(t *testing.T, ca *secure.CA, token string) string {
	t.Helper()
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	id, err := ca.Issue(secure.Request{Name: "scheduler", Roles: []secure.Role{secure.Scheduler}})
	if err != nil {
		t.Fatal(err)
	}
	base, err := id.Listen()
	if err != nil {
		t.Fatal(err)
	}
	a, err := httpguard.NewAccess(l.Addr(), httpguard.Config{Token: token, TLS: base,
		Admit:  func(s *tls.ConnectionState, _ *http.Request) bool { return secure.Allows(s, secure.Viewer) },
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "served "+r.URL.Path)
	}), ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	done := make(chan struct{})
	go func() { defer close(done); _ = a.Serve(s, l) }()
	t.Cleanup(func() { _ = s.Close(); <-done })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return net.JoinHostPort("127.0.0.1", port)
}

// client returns an HTTP client with a certificate for a role, if that is not "".
func client(t *testing.T, issuer *secure.CA, role secure.Role) *http.Client {
	t.Helper()
	cfg := &tls.Config{InsecureSkipVerify: true} // certificates of clusters have no host names
	if role != "" {
		id, err := issuer.Issue(secure.Request{Name: "peer", Roles: []secure.Role{role}})
		if err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(id.Cert, id.Key)
		if err != nil {
			t.Fatal(err)
		}
		// As a hostile client, sends its certificate whatever authorities the server names.
		cfg.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: cfg, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// Certificates of the cluster admit what their role allows, those of another cluster nothing, and browsers without one
// use the token. Without TLS only /health is served.
func TestTLS(t *testing.T) {
	leak.Check(t)
	ca, err := secure.NewCA(secure.CAConfig{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := secure.NewCA(secure.CAConfig{})
	if err != nil {
		t.Fatal(err)
	}
	at, open := serve(t, ca, token), serve(t, ca, httpguard.None)
	for _, c := range []struct {
		name, url, bearer string
		issuer            *secure.CA
		role              secure.Role
		want              int
	}{
		{"no certificate", "https://" + at + "/metrics", "", nil, "", 401},
		{"token", "https://" + at + "/metrics", token, nil, "", 200},
		{"wrong token", "https://" + at + "/metrics", token + "x", nil, "", 401},
		{"link", "https://" + at + "/metrics?token=" + token, "", nil, "", 303},
		{"health", "https://" + at + "/health", "", nil, "", 200},
		{"viewer", "https://" + at + "/metrics", "", ca, secure.Viewer, 200},
		{"another role", "https://" + at + "/metrics", "", ca, secure.Worker, 403},
		{"another role and the token", "https://" + at + "/metrics", token, ca, secure.Worker, 200},
		{"certificate of another cluster", "https://" + at + "/metrics", "", other, secure.Viewer, 0},
		{"plain", "http://" + at + "/metrics?x=1&token=" + token, "", nil, "", 307},
		{"plain with the token", "http://" + at + "/metrics", token, nil, "", 307},
		{"plain health", "http://" + at + "/health", "", nil, "", 200},
		{"open", "https://" + open + "/metrics", "", nil, "", 200},
		{"open and plain", "http://" + open + "/metrics", "", nil, "", 200},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, c.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.bearer != "" {
			r.Header.Set("Authorization", "Bearer "+c.bearer)
		}
		a, err := client(t, c.issuer, c.role).Do(r)
		if err != nil {
			if c.want != 0 {
				t.Errorf("%s: got %v, want status %d", c.name, err, c.want)
			}
			continue
		}
		body, _ := io.ReadAll(a.Body)
		_ = a.Body.Close()
		if a.StatusCode != c.want {
			t.Errorf("%s: got status %d (%s), want %d", c.name, a.StatusCode, body, c.want)
		}
		if served := strings.HasPrefix(string(body), "served"); served != (c.want == 200) {
			t.Errorf("%s: got %s, want served %v", c.name, body, c.want == 200)
		}
		if c.want == 307 {
			if got := a.Header.Get("Location"); !strings.HasPrefix(got, "https://"+at+"/metrics") ||
				strings.Contains(got, "token") {
				t.Errorf("%s: got redirect to %s, want https without the token", c.name, got)
			}
		}
		for _, cookie := range a.Cookies() {
			if !cookie.Secure {
				t.Errorf("%s: got cookie %v, want Secure", c.name, cookie)
			}
		}
	}
	a, err := client(t, nil, "").Post("http://"+at+"/api", "text/plain", nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = a.Body.Close()
	if a.StatusCode != http.StatusForbidden {
		t.Errorf("plain POST: got status %d, want 403", a.StatusCode)
	}
}

// A connection serves several requests, and the redirect of a plain one leads to the page.
func TestTLSConnection(t *testing.T) {
	leak.Check(t)
	ca, err := secure.NewCA(secure.CAConfig{})
	if err != nil {
		t.Fatal(err)
	}
	at := serve(t, ca, token)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} // no host names
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport}
	reused := 0
	// A client on a busy machine may not keep a connection: the transport waits 50 ms for the end of its own write.
	for i := 0; i < 3 || reused < 2 && i < 100; i++ {
		scheme := []string{"https", "https", "http"}[i%3]
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(g httptrace.GotConnInfo) {
			if g.Reused {
				reused++
			}
		}})
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("%s://%s/%d", scheme, at, i), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		a, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(a.Body)
		_ = a.Body.Close()
		if want := fmt.Sprintf("served /%d", i); err != nil || string(b) != want {
			t.Errorf("%s: got %q, %v, want %q", scheme, b, err, want)
		}
	}
	if reused < 2 {
		t.Errorf("reused connections: got %d, want at least 2", reused)
	}
}

// Connections that end within the first bytes, or are neither TLS nor HTTP, are closed.
func TestTLSBounds(t *testing.T) {
	leak.Check(t)
	ca, err := secure.NewCA(secure.CAConfig{})
	if err != nil {
		t.Fatal(err)
	}
	at := serve(t, ca, token)
	for _, first := range []string{"", "\x16", "\x16\x03\x01\xff\xff", "\x00\x00\x00", "GET"} {
		c, err := net.Dial("tcp", at)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(c, first); err != nil {
			t.Fatal(err)
		}
		if err := c.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(c)
		_ = c.Close()
		if strings.Contains(string(got), "served") {
			t.Errorf("first bytes %q: got %q, want no page", first, got)
		}
	}
}
