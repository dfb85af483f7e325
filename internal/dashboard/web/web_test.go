package web

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func get(t *testing.T, method, path string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	Handler().ServeHTTP(w, r)
	return w.Result()
}

func TestHandler(t *testing.T) {
	for _, c := range []struct {
		method, path string
		status       int
		kind         string
	}{
		{"GET", "/", 200, "text/html; charset=utf-8"},
		{"HEAD", "/", 200, "text/html; charset=utf-8"},
		{"GET", "/static/app.js", 200, "text/javascript; charset=utf-8"},
		{"GET", "/static/app.css", 200, "text/css; charset=utf-8"},
		{"GET", "/static/", 404, ""},
		{"GET", "/static/../web.go", 404, ""},
		{"GET", "/index.html", 404, ""},
		{"POST", "/", 405, ""},
	} {
		r := get(t, c.method, c.path)
		if r.StatusCode != c.status {
			t.Errorf("%s %s: got status %d, want %d", c.method, c.path, r.StatusCode, c.status)
		}
		if got := r.Header.Get("Content-Type"); c.kind != "" && got != c.kind {
			t.Errorf("%s %s: got type %q, want %q", c.method, c.path, got, c.kind)
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		if empty := len(body) == 0; empty != (c.method == "HEAD") {
			t.Errorf("%s %s: got %d bytes", c.method, c.path, len(body))
		}
	}
}

func TestETag(t *testing.T) {
	for _, path := range []string{"/", "/static/app.js", "/static/app.css"} {
		tag := get(t, "GET", path).Header.Get("ETag")
		if len(tag) < 10 || tag[0] != '"' {
			t.Fatalf("%s: got ETag %q", path, tag)
		}
		for header, want := range map[string]int{tag: 304, "W/" + tag: 304, `"x", ` + tag: 304, "*": 304, `"x"`: 200} {
			if r := get(t, "GET", path, "If-None-Match", header); r.StatusCode != want {
				t.Errorf("%s, If-None-Match %s: got status %d, want %d", path, header, r.StatusCode, want)
			}
		}
	}
}

// TestPolicy requires that the live page has no script and no style of its own, which its policy forbids.
func TestPolicy(t *testing.T) {
	r := get(t, "GET", "/")
	if got := r.Header.Get("Content-Security-Policy"); got != Policy {
		t.Errorf("got policy %q, want %q", got, Policy)
	}
	page := string(Index())
	for _, bad := range []string{"<style", " style=", "<script>", " onclick", "unsafe-inline", "http://", "https://"} {
		if i := strings.Index(page, bad); i >= 0 && !strings.HasPrefix(page[i:], "http://www.w3.org/") {
			t.Errorf("got %q in index.html, want none", bad)
		}
	}
}

// TestOffline requires that the built files name no other host.
func TestOffline(t *testing.T) {
	for path, f := range files {
		for _, scheme := range []string{"http://", "https://"} {
			rest := string(f.body)
			for {
				_, after, ok := strings.Cut(rest, scheme)
				if !ok {
					break
				}
				if !strings.HasPrefix(after, "www.w3.org/") {
					t.Errorf("%s: got address %s%.40s, want none", path, scheme, after)
				}
				rest = after
			}
		}
	}
}

func TestWriteReport(t *testing.T) {
	var out bytes.Buffer
	data := []byte{0, 1, 2, 250, 251, 252, '<', '/'}
	if err := WriteReport(&out, `run <1> & "2"`, data); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	if want := "<title>run &lt;1&gt; &amp; &#34;2&#34;</title>"; !strings.Contains(page, want) {
		t.Errorf("got no %s", want)
	}
	for _, bad := range []string{"static/app.js", "static/app.css", `href="static`} {
		if strings.Contains(page, bad) {
			t.Errorf("got %q in a report, want none", bad)
		}
	}
	between := func(from, to string) string {
		_, after, ok := strings.Cut(page, from)
		if !ok {
			t.Fatalf("got no %s in a report", from)
		}
		before, _, _ := strings.Cut(after, to)
		return before
	}
	got, err := base64.StdEncoding.DecodeString(between(`id="data">`, "</script>"))
	if err != nil || !bytes.Equal(got, data) {
		t.Errorf("got data %v, %v, want %v", got, err, data)
	}
	policy := between(`http-equiv="Content-Security-Policy" content="`, `"`)
	for _, part := range []string{between("<script>", "</script>"), between("<style>", "</style>")} {
		sum := sha256.Sum256([]byte(part))
		if want := "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(policy, want) {
			t.Errorf("got policy %q, want one with %s", policy, want)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "'self'") {
		t.Errorf("got policy %q, want one with hashes only", policy)
	}
}

// full is a writer that takes n bytes.
type full struct{ n int }

var errFull = errors.New("full")

func (f *full) Write(p []byte) (int, error) {
	if len(p) > f.n {
		return 0, errFull
	}
	f.n -= len(p)
	return len(p), nil
}

func TestWriteReportError(t *testing.T) {
	var whole bytes.Buffer
	if err := WriteReport(&whole, "t", make([]byte, 5000)); err != nil {
		t.Fatal(err)
	}
	for n := 0; n < whole.Len(); n += whole.Len()/40 + 1 {
		if err := WriteReport(&full{n}, "t", make([]byte, 5000)); !errors.Is(err, errFull) {
			t.Errorf("%d bytes: got error %v, want %v", n, err, errFull)
		}
	}
}
