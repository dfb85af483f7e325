// Package web has the browser part of the dashboard: one page, its script and its style, built from the TypeScript in
// src by `make dashboard` and embedded, so that they work without network.
package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"html"
	"io"
	"net/http"
	"strings"
)

// Policy is the Content-Security-Policy of the live page: everything comes from the server of the page.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'self'"

//go:embed dist/index.html dist/app.js dist/app.css
var dist embed.FS

// file is an embedded file and how it is served.
type file struct {
	body []byte
	kind string
	etag string
}

var files = map[string]file{
	"/":               load("index.html", "text/html; charset=utf-8"),
	"/static/app.js":  load("app.js", "text/javascript; charset=utf-8"),
	"/static/app.css": load("app.css", "text/css; charset=utf-8"),
}

func load(name, kind string) file {
	body, err := dist.ReadFile("dist/" + name)
	if err != nil {
		panic(err) // go:embed names it
	}
	sum := sha256.Sum256(body)
	return file{body, kind, `"` + hex.EncodeToString(sum[:12]) + `"`}
}

// Index returns the live page.
func Index() []byte { return bytes.Clone(files["/"].body) }

// Handler returns a handler for the page at "/" and its parts below "/static/". Parts have an ETag, by which browsers
// ask whether theirs are current.
func Handler() http.Handler { return http.HandlerFunc(serve) }

func serve(w http.ResponseWriter, r *http.Request) {
	f, ok := files[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", f.etag)
	if r.URL.Path == "/" {
		h.Set("Content-Security-Policy", Policy)
		h.Set("Referrer-Policy", "no-referrer")
	}
	if matches(r.Header.Get("If-None-Match"), f.etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", fmt.Sprint(len(f.body)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(f.body) // the client has left
	}
}

// matches reports whether a list of entity tags has one.
func matches(list, etag string) bool {
	for tag := range strings.SplitSeq(list, ",") {
		if tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/"); tag == etag || tag == "*" {
			return true
		}
	}
	return false
}

// WriteReport writes the page as one file that needs no server. data is the gzip of a container of JSON and columns of
// spans, as src/report.ts reads it.
func WriteReport(w io.Writer, title string, data []byte) error {
	script, style := files["/static/app.js"].body, files["/static/app.css"].body
	page := string(files["/"].body)
	var err error
	cut := func(old string) string {
		before, after, ok := strings.Cut(page, old)
		if !ok && err == nil {
			err = fmt.Errorf("web: index.html has no %q; run make dashboard", old)
		}
		page = after
		return before
	}
	parts := []string{
		cut(`<meta name="viewport"`), policy(script, style) + `<meta name="viewport"`,
		cut("<title>Millstream</title>"), "<title>" + html.EscapeString(title) + "</title>",
		cut(`<link rel="stylesheet" href="static/app.css">`), "<style>" + string(style) + "</style>",
		cut(`<script src="static/app.js"></script>`),
	}
	if err != nil {
		return err
	}
	for _, p := range append(parts, `<script type="application/octet-stream;base64" id="data">`) {
		if _, err := io.WriteString(w, p); err != nil {
			return err
		}
	}
	enc := base64.NewEncoder(base64.StdEncoding, w)
	if _, err := enc.Write(data); err != nil {
		return err
	}
	if err := enc.Close(); err != nil {
		return err
	}
	_, err = io.WriteString(w, "</script>\n<script>"+string(script)+"</script>"+page)
	return err
}

// policy returns the element that allows only the script and the style of a report.
func policy(script, style []byte) string {
	hash := func(b []byte) string {
		sum := sha256.Sum256(b)
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src ` + hash(script) +
		"; style-src " + hash(style) + `; img-src data:; base-uri 'none'; form-action 'none'">` + "\n"
}
