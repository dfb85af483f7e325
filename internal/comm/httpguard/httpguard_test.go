package httpguard

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
)

func TestAddress(t *testing.T) {
	for _, c := range []struct{ in, otherwise, want string }{
		{"8787", "", "127.0.0.1:8787"}, {":8787", "", "127.0.0.1:8787"}, {":0", "10.0.0.1", "10.0.0.1:0"},
		{"0.0.0.0:1", "10.0.0.1", "0.0.0.0:1"}, {"[::1]:1", "", "[::1]:1"}, {":1", "::1", "[::1]:1"},
	} {
		if got, err := Address(c.in, c.otherwise); err != nil || got != c.want {
			t.Errorf("Address(%q, %q) is %q, %v, want %q", c.in, c.otherwise, got, err, c.want)
		}
	}
	if got, err := Address("nonsense", ""); err == nil {
		t.Errorf("Address of nonsense is %q, want an error", got)
	}
}

func TestReachable(t *testing.T) {
	for _, c := range []struct{ listening, host, want string }{
		{"[::]:8787", "10.0.0.1", "10.0.0.1:8787"}, {"0.0.0.0:8787", "", "127.0.0.1:8787"},
		{"127.0.0.1:1", "10.0.0.1", "127.0.0.1:1"},
		{"[::]:1", "0.0.0.0", "127.0.0.1:1"},
	} {
		if got := Reachable(c.listening, c.host); got != c.want {
			t.Errorf("Reachable(%q, %q) is %q, want %q", c.listening, c.host, got, c.want)
		}
	}
}

func TestGuard(t *testing.T) {
	h := Guard(Index("a <title>", Page{"/health", "is it alive"}), "grafana.example", "")
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{
		"127.0.0.1:8787": 200, "localhost": 200, "LOCALHOST.:80": 200, "[::1]:8787": 200, name + ":1": 200,
		"grafana.example:8787": 200,
		"evil.example":         403, "127.0.0.1.evil.example:8787": 403, "localhost.evil.example": 403, "": 403,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("Host %q: status %d, want %d", host, w.Code, want)
		}
		if want == 200 && (!strings.Contains(w.Body.String(), `<a href="health">/health</a>`) ||
			!strings.Contains(w.Body.String(), "a &lt;title&gt;")) {
			t.Errorf("Host %q: the page is %s", host, w.Body)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://127.0.0.1/other", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("another path: status %d, want 404", w.Code)
	}
}
