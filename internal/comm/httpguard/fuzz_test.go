package httpguard

import (
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
)

// No request without the token reaches the handler, no redirect leads to another server, and no answer has the token.
func FuzzAccess(f *testing.F) {
	f.Add("GET", "/", "10.0.0.1:8787", "", "token="+token[1:], "", "", "", "")
	f.Add("GET", "//evil.example/%2e%2e", "localhost", "null", "token=&token=x", "Bearer x", "millstream-8787=x",
		"none", "")
	f.Add("POST", "/health", "[::1]", "http://[::1]", "%zz", "Bearer", "=;", "cross-site", "http://evil.example/")
	f.Add("HEAD", `/\evil.example`, "a:b:c", "http://a:b:c", "a=%00", "Basic x", "\x00", "same-site", "%")
	a, err := NewAccess(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 8787}, Config{Token: token, Contact: "10.0.0.1",
		Hosts: []string{"proxy.example"}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.Fatal(err)
	}
	a.refusals.burst = 1e12
	cookie := cookieValue(token, "millstream-8787")
	f.Fuzz(func(t *testing.T, method, path, host, origin, query, auth, cookies, site, referer string) {
		if all := query + auth + cookies; strings.Contains(all, cookie) || strings.Contains(all, token) ||
			strings.Contains(all, "%") {
			return // may be the token
		}
		r := httptest.NewRequest(http.MethodGet, "http://x/", nil)
		r.Method, r.Host, r.URL = method, host, &url.URL{Path: "/" + path, RawQuery: query}
		for name, value := range map[string]string{"Origin": origin, "Authorization": auth, "Cookie": cookies,
			"Sec-Fetch-Site": site, "Referer": referer, "Accept": "text/html"} {
			if value != "" {
				r.Header.Set(name, value)
			}
		}
		var calls served
		w := httptest.NewRecorder()
		a.Handler(&calls).ServeHTTP(w, r)
		if calls > 0 && r.URL.Path != "/health" {
			t.Errorf("%s %q: got the page without the token", method, r.URL.Path)
		}
		if to := w.Header().Get("Location"); to != "" {
			t.Errorf("%s %q: got a redirect to %q, want none without the token", method, r.URL.Path, to)
		}
		if strings.Contains(w.Body.String(), token) {
			t.Errorf("%s %q: the answer contains the token", method, r.URL.Path)
		}
		// With the token a redirect stays on the server.
		r.Method, r.Host, r.URL.RawQuery = http.MethodGet, "10.0.0.1:8787", "token="+token
		r.Header.Del("Origin")
		r.Header.Set("Sec-Fetch-Site", "none")
		w = httptest.NewRecorder()
		a.Handler(&calls).ServeHTTP(w, r)
		if r.URL.Path == "/health" {
			return
		}
		to := w.Header().Get("Location")
		base := &url.URL{Scheme: "http", Host: "10.0.0.1:8787", Path: "/"}
		u, err := base.Parse(strings.ReplaceAll(to, `\`, "/")) // as browsers do
		if err != nil || u.Host != base.Host || w.Code != http.StatusSeeOther {
			t.Errorf("path %q: got status %d to %q, want a path of the server", r.URL.Path, w.Code, to)
		}
	})
}
