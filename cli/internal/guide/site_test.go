package guide

import (
	"html"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	_ "go.millstream.dev/docs"
	"go.millstream.dev/internal/proc/docfiles"
)

const root = "../../.."

func get(t *testing.T, h http.Handler, target string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	return w
}

func documents(t *testing.T) http.Handler {
	t.Helper()
	h, err := New(docfiles.Files)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

var (
	references = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	anchors    = regexp.MustCompile(` id="([^"]*)"`)
)

// Every document is served, and every reference on its page leads to a page, a heading, a file of the site or a file of
// the repository.
func TestReferences(t *testing.T) {
	h := documents(t)
	ids := map[string]map[string]bool{}
	var pages []string
	err := fs.WalkDir(docfiles.Files, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && path.Ext(name) == ".md" {
			pages = append(pages, "/docs/"+name)
		}
		return err
	})
	if err != nil || len(pages) < 50 {
		t.Fatalf("documents: got %d, %v, want more than 50", len(pages), err)
	}
	bodies := map[string]string{}
	for _, p := range pages {
		w := get(t, h, p)
		if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
			t.Errorf("GET %s: got %d %s, want a page", p, w.Code, w.Header().Get("Content-Type"))
		}
		bodies[p] = w.Body.String()
		ids[p] = map[string]bool{}
		for _, m := range anchors.FindAllStringSubmatch(bodies[p], -1) {
			ids[p][html.UnescapeString(m[1])] = true
		}
	}
	checked := 0
	for _, p := range pages {
		base, _ := url.Parse("http://host" + p)
		for _, m := range references.FindAllStringSubmatch(bodies[p], -1) {
			u, err := base.Parse(html.UnescapeString(m[1]))
			if err != nil {
				t.Errorf("%s: reference %q: %v", p, m[1], err)
				continue
			}
			if u.Host != "host" {
				continue
			}
			checked++
			code := get(t, h, u.Path).Code
			if code == http.StatusNotFound { // a file of the source tree
				if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(u.Path))); err != nil {
					t.Errorf("%s: reference %q leads nowhere: %v", p, m[1], err)
				}
				continue
			}
			if u.Fragment != "" && ids[u.Path] != nil && !ids[u.Path][u.Fragment] {
				t.Errorf("%s: reference %q: no such heading", p, m[1])
			}
		}
	}
	if checked < 1000 {
		t.Errorf("references: got %d, want more than 1000", checked)
	}
}

// The index lists every page of the guide.
func TestIndex(t *testing.T) {
	body := get(t, documents(t), "/docs/guide/README.md").Body.String()
	nav := body[strings.Index(body, "<nav"):strings.Index(body, "</nav>")]
	entries, err := fs.ReadDir(docfiles.Files, "guide")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "README.md" && !strings.Contains(nav, `"/docs/guide/`+e.Name()+`"`) {
			t.Errorf("index: no link to %s", e.Name())
		}
	}
	if !strings.Contains(get(t, documents(t), "/docs/guide/ucx.md").Body.String(), `ucx.md" aria-current="page"`) {
		t.Error("index on the page of ucx.md: the page is not marked as current")
	}
}

func TestServe(t *testing.T) {
	h := documents(t)
	for _, tc := range []struct {
		target string
		code   int
		want   string
	}{
		{"/", http.StatusFound, "/docs/guide/README.md"},
		{"/docs", http.StatusFound, "/docs/README.md"},
		{"/docs/guide", http.StatusFound, "/docs/guide/README.md"},
		{"/docs/guide/", http.StatusFound, "/docs/guide/README.md"},
		{"/style.css", http.StatusOK, "color-scheme"},
		{"/docs/glossary.md", http.StatusOK, "<table>"},
		{"/docs/../docs/glossary.md", http.StatusOK, "<table>"},
		{"/README.md", http.StatusFound, "/docs/guide/README.md"},
		{"/CONTRIBUTING.md", http.StatusNotFound, "<code>CONTRIBUTING.md</code> is not among"},
		{"/docs/gpu-run.json", http.StatusOK, "{"},
		{"/docs/guide/cluster.md", http.StatusOK, `<a rel="prev" href="/docs/guide/tutorial.md">`},
		{"/docs/guide/tutorial.md", http.StatusOK, `<p class="neighbors"><a rel="next" href="/docs/guide/cluster.md">`},
		{"/docs/nothing.md", http.StatusNotFound, "docs/nothing.md"},
		{"/docs/docs.go", http.StatusNotFound, "docs/docs.go"},
		{"/<script>x</script>", http.StatusNotFound, "&lt;script&gt;x"},
		{"/../../../etc/passwd", http.StatusNotFound, "etc/passwd"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.URL.Path = tc.target
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Header().Get("Location") + w.Body.String(); tc.code != w.Code &&
			w.Code != http.StatusMovedPermanently &&
			w.Code != http.StatusTemporaryRedirect || w.Code == tc.code && !strings.Contains(got, tc.want) {
			t.Errorf("GET %s: got %d, want %d with %q; body %.300s", tc.target, w.Code, tc.code, tc.want, got)
		}
	}
	entries, err := fs.ReadDir(docfiles.Files, "plots")
	if err != nil || len(entries) == 0 {
		t.Fatalf("plots: %v, %v", entries, err)
	}
	w := get(t, h, "/docs/plots/"+entries[0].Name())
	if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), "image/svg") {
		t.Errorf("plot: got %d %s, want an SVG image", w.Code, w.Header().Get("Content-Type"))
	}
}

func TestWithoutHome(t *testing.T) {
	if _, err := New(fstest.MapFS{"guide/a.md": {Data: []byte("# A\n")}}); err == nil {
		t.Error("documents without README.md: got no error")
	}
}

func TestParsePage(t *testing.T) {
	p, err := parsePage("docs/x.md",
		[]byte("intro\n\n# The `x` page\n\ntext of\nthe page\n\n## Go & C++: `ucx.Dial`\n\n"+
			"```go\nvar a = 1\n```\n\n## Again\n\n## Again\n\n| a | b |\n|---|---|\n| c | d |\n"))
	if err != nil {
		t.Fatal(err)
	}
	if p.title != "The x page" {
		t.Errorf("title: got %q, want %q", p.title, "The x page")
	}
	want := []section{{text: "intro"}, {"The x page", "the-x-page", "text of the page", 1},
		{"Go & C++: ucx.Dial", "go--c-ucxdial", "var a = 1", 2}, {"Again", "again", "", 2},
		{"Again", "again-1", "a b c d", 2}}
	if len(p.sections) != len(want) {
		t.Fatalf("sections: got %+v, want %+v", p.sections, want)
	}
	for i, s := range p.sections {
		if s != want[i] {
			t.Errorf("section %d: got %+v, want %+v", i, s, want[i])
		}
	}
	if !strings.Contains(string(p.body), `<h2 id="again-1">`) || !strings.Contains(string(p.body), "<td>c</td>") {
		t.Errorf("body without heading or table: %s", p.body)
	}
}
