package httpguard

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const token = "abcdefghijklmnop0123"

func access(t *testing.T, address string, cfg Config) *Access {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	addr, err := net.ResolveTCPAddr("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	a, err := NewAccess(addr, cfg)
	if err != nil {
		t.Fatal(err)
	}
	a.refusals.burst = 1e9
	return a
}

// served is a handler that counts the requests that were admitted.
type served int

func (s *served) ServeHTTP(http.ResponseWriter, *http.Request) { *s++ }

// Every combination of address, token of the server, credential, path, method, Host and origin has the expected status,
// and only those with status 200 reach the handler.
func TestAccess(t *testing.T) {
	credentials := map[string]func(*http.Request){
		"missing":      func(*http.Request) {},
		"query":        func(r *http.Request) { r.URL.RawQuery = "topic=a&token=" + token },
		"wrong query":  func(r *http.Request) { r.URL.RawQuery = "token=" + token + "x" },
		"empty query":  func(r *http.Request) { r.URL.RawQuery = "token=" },
		"bearer":       func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+token) },
		"wrong bearer": func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+strings.ToUpper(token)) },
		"basic":        func(r *http.Request) { r.SetBasicAuth("", token) },
		"cookie": func(r *http.Request) {
			r.AddCookie(&http.Cookie{Name: "millstream-8787", Value: cookieValue(token, "millstream-8787")})
		},
		"cookie of another port": func(r *http.Request) {
			r.AddCookie(&http.Cookie{Name: "millstream-8788", Value: cookieValue(token, "millstream-8788")})
		},
		"token as cookie": func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "millstream-8787", Value: token}) },
	}
	hosts := map[string]bool{"10.0.0.1:8787": true, "localhost:8787": true, "proxy.example": true,
		"rebound.evil.example:8787": false, "10.0.0.1:80@evil.example": false}
	origins := map[string]bool{"": true, "own": true, "https://proxy.example": true, "null": false,
		"http://evil.example": false, "http://10.0.0.1:9999": false, "http://10.0.0.1": false}
	n := 0
	for address, local := range map[string]bool{"127.0.0.1:8787": true, "[::1]:8787": true, "10.0.0.1:8787": false,
		"0.0.0.0:8787": false, "[::]:8787": false} {
		for _, given := range []string{"", token, None} {
			a := access(t, address, Config{Token: given, Contact: "10.0.0.1", Hosts: []string{"proxy.example"}})
			var calls served
			h := a.Handler(&calls)
			for name, add := range credentials {
				for _, path := range []string{"/", "/health", "/health/", "/metrics", "/static/a", "//evil.example/a"} {
					for _, method := range []string{"GET", "HEAD", "POST", "DELETE", "OPTIONS"} {
						for host, hostAllowed := range hosts {
							for origin, originAllowed := range origins {
								n++
								r := httptest.NewRequest(method, "http://x/", nil)
								r.URL.Path, r.Host = path, host
								if origin == "own" {
									origin = "http://" + host
								}
								if origin != "" {
									r.Header.Set("Origin", origin)
								}
								add(r)
								reads := method == "GET" || method == "HEAD"
								want := http.StatusUnauthorized
								switch {
								case !hostAllowed || !originAllowed:
									want = http.StatusForbidden
								case path == "/health" && reads, given == None, given == "" && local:
									want = http.StatusOK
								case given == "": // a random token
								case name == "bearer" || name == "cookie":
									want = http.StatusOK
								case name == "query" && reads:
									want = http.StatusSeeOther
								}
								calls = 0
								w := httptest.NewRecorder()
								h.ServeHTTP(w, r)
								if w.Code != want || (calls == 1) != (want == http.StatusOK) {
									t.Fatalf("%s, token %q, %s, %s %s, Host %s, Origin %q: got status %d and %d "+
										"calls, want status %d", address, given, name, method, path, host, origin,
										w.Code, calls, want)
								}
								if to := w.Header().Get("Location"); strings.Contains(to, "token") ||
									strings.HasPrefix(to, "//") || want == http.StatusSeeOther && to == "" {
									t.Fatalf("%s %s: got redirect to %q, want a path of the server without the token",
										method, path, to)
								}
								if got := w.Header().Get("Referrer-Policy"); got != "no-referrer" {
									t.Fatalf("Referrer-Policy: got %q, want no-referrer", got)
								}
							}
						}
					}
				}
			}
		}
	}
	t.Logf("%d requests", n)
}

// The link of the token sets the cookie with which the next request is served.
func TestCookie(t *testing.T) {
	a := access(t, "10.0.0.1:8787", Config{Token: token})
	var calls served
	h := a.Handler(&calls)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest("GET", "http://10.0.0.1:8787/a/b?x=1&token="+token+"&y=2", nil))
	if got := w.Header().Get("Location"); got != "/a/b?x=1&y=2" {
		t.Errorf("redirect: got %q, want /a/b?x=1&y=2", got)
	}
	c := w.Result().Cookies()
	if len(c) != 1 || !c[0].HttpOnly || c[0].SameSite != http.SameSiteStrictMode || c[0].Name != "millstream-8787" ||
		c[0].Path != "/" || c[0].Domain != "" || strings.Contains(c[0].Value, token) {
		t.Fatalf("cookies: got %v, want one with HttpOnly and SameSite=Strict that does not contain the token", c)
	}
	r := httptest.NewRequest("GET", "http://10.0.0.1:8787/a/b", nil)
	r.AddCookie(c[0])
	w = httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK || calls != 1 {
		t.Errorf("with the cookie: got status %d, want 200", w.Code)
	}
	r = httptest.NewRequest("GET", "http://10.0.0.1:8787/a/b?token=ofanearlierserver", nil)
	r.AddCookie(c[0])
	w = httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if got := w.Header().Get("Location"); w.Code != http.StatusSeeOther || got != "/a/b" {
		t.Errorf("with the cookie and an old link: got status %d to %q, want 303 to /a/b", w.Code, got)
	}
}

// Requests that a browser makes for other pages are refused, except that links may be followed: then a page of the
// server opens the next one, because the browser would not send the cookie after a redirect.
func TestFetchMetadata(t *testing.T) {
	h := access(t, "10.0.0.1:8787", Config{Token: token}).Handler(new(served))
	for _, c := range []struct {
		site, mode, dest, method, referer string
		want                              int
	}{
		{"none", "navigate", "document", "GET", "", 303},
		{"same-origin", "cors", "empty", "GET", "", 303},
		{"", "", "", "GET", "", 303},
		{"", "", "", "GET", "http://10.0.0.1:8787/", 303},
		{"", "", "", "GET", "http://notebook.example/", 200},
		{"cross-site", "navigate", "document", "GET", "", 200},
		{"same-site", "navigate", "document", "GET", "", 200},
		{"cross-site", "navigate", "iframe", "GET", "", 403},
		{"cross-site", "navigate", "document", "POST", "", 403},
		{"cross-site", "no-cors", "script", "GET", "", 403},
		{"cross-site", "no-cors", "image", "GET", "", 403},
		{"same-site", "cors", "empty", "GET", "", 403},
		{"cross-site", "websocket", "websocket", "GET", "", 403},
	} {
		r := httptest.NewRequest(c.method, "http://10.0.0.1:8787/status?token="+token, nil)
		for name, value := range map[string]string{"Sec-Fetch-Site": c.site, "Sec-Fetch-Mode": c.mode,
			"Sec-Fetch-Dest": c.dest, "Referer": c.referer} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != c.want {
			t.Errorf("%+v: got status %d, want %d", c, w.Code, c.want)
		}
		if body := w.Body.String(); c.want == 200 && !strings.Contains(body, `content="0;url=/status"`) {
			t.Errorf("%+v: got %s, want a page that opens /status", c, body)
		}
	}
}

// A refusal names the fix, repeats nothing of the request, is limited in rate, and its log has no token.
func TestRefusal(t *testing.T) {
	var log bytes.Buffer
	a := access(t, "10.0.0.1:8787", Config{Token: token, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	h := a.Handler(new(served))
	get := func(query, accept string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", "http://10.0.0.1:8787/"+query, nil)
		r.Header.Set("Accept", accept)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	for _, accept := range []string{"text/html,*/*", "*/*"} {
		w := get("?token=%3Cscript%3E"+token+"x", accept)
		body := w.Body.String()
		if !strings.Contains(body, "--dashboard-token") || !strings.Contains(body, "wrong token") ||
			strings.Contains(body, "script") || strings.Contains(body, token) {
			t.Errorf("Accept %s: got %s, want the fix and nothing of the request", accept, body)
		}
		if html := strings.Contains(body, "<form"); html != strings.HasPrefix(accept, "text/html") {
			t.Errorf("Accept %s: got a form %v, want %v", accept, html, !html)
		}
		if got := w.Header().Get("WWW-Authenticate"); !strings.HasPrefix(got, "Bearer ") {
			t.Errorf("WWW-Authenticate: got %q, want Bearer", got)
		}
	}
	if got := log.String(); strings.Contains(got, token) || strings.Count(got, "wrong token") != 1 {
		t.Errorf("log: got %q, want one line without the token", got)
	}
	a.refusals = limiter{rate: 1e-9, burst: 3}
	var codes []int
	for range 5 {
		codes = append(codes, get("", "").Code)
	}
	if got, want := fmt.Sprint(codes), "[401 401 401 429 429]"; got != want {
		t.Errorf("refusals: got %s, want %s", got, want)
	}
	if w := get("?token="+token, ""); w.Code != http.StatusSeeOther {
		t.Errorf("the token after many refusals: got status %d, want 303", w.Code)
	}
}

// None is logged as insecure except on the loopback interface, and a random token is never logged.
func TestAccessLog(t *testing.T) {
	for _, c := range []struct{ address, token, want string }{
		{"127.0.0.1:1", None, ""}, {"10.0.0.1:1", None, "INSECURE"}, {"10.0.0.1:1", "", ""},
	} {
		var log bytes.Buffer
		a := access(t, c.address, Config{Token: c.token, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		if got := log.String(); strings.Contains(got, "INSECURE") != (c.want != "") ||
			a.token != "" && strings.Contains(got, a.token) {
			t.Errorf("%s, token %q: got log %q, want %q in it", c.address, c.token, got, c.want)
		}
	}
	if _, err := NewAccess(&net.TCPAddr{}, Config{Token: "short"}); err == nil || strings.Contains(err.Error(), `short`) {
		t.Errorf("short token: got error %v, want one without the token", err)
	}
}

// Without authorities for clients no client certificate is accepted, not even one of a public authority.
func TestServerTLS(t *testing.T) {
	cfg := serverTLS(&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert})
	if cfg.ClientAuth != tls.NoClientCert {
		t.Errorf("without authorities: got ClientAuth %v, want NoClientCert", cfg.ClientAuth)
	}
	cfg = serverTLS(&tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: x509.NewCertPool()})
	if cfg.ClientAuth != tls.VerifyClientCertIfGiven {
		t.Errorf("with authorities: got ClientAuth %v, want VerifyClientCertIfGiven", cfg.ClientAuth)
	}
}

func TestPolicy(t *testing.T) {
	got := Policy("'sha256-a'", "")
	for _, want := range []string{"style-src 'self' 'sha256-a';", "script-src 'self';", "frame-ancestors 'none'"} {
		if !strings.Contains(got, want) {
			t.Errorf("policy: got %s, want %s in it", got, want)
		}
	}
}
