// Package guide serves the documents of Millstream as a web site: rendered Markdown with an index and a search.
package guide

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
)

//go:embed page.html
var pageTemplate string

//go:embed style.css
var style []byte

// site is the set of pages.
type site struct {
	files    fs.FS
	pages    map[string]*page // by path
	order    []*page
	index    []indexGroup
	template *template.Template
}

// indexGroup is a heading of the index with its pages.
type indexGroup struct {
	Title string
	Links []indexLink
}

type indexLink struct{ Title, Path string }

// home is the first page, indexPage the one whose links are the index.
const (
	prefix    = "docs/"
	home      = prefix + "README.md"
	indexPage = prefix + "guide/README.md"
)

// New returns a handler for the documents in files, the docs folder of the repository. Every document is served at its
// path in the repository, so that relative links work.
func New(files fs.FS) (http.Handler, error) {
	s := &site{files: files, pages: map[string]*page{}}
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || path.Ext(name) != ".md" {
			return err
		}
		source, err := fs.ReadFile(files, name)
		if err != nil {
			return err
		}
		p, err := parsePage(prefix+name, source)
		if err != nil {
			return fmt.Errorf("guide: %s: %w", name, err)
		}
		s.pages[p.path] = p
		s.order = append(s.order, p)
		if p.path == indexPage {
			s.index = readIndex(string(source))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if s.pages[home] == nil {
		return nil, errors.New("guide: no README.md among the documents")
	}
	if s.template, err = template.New("page").Parse(pageTemplate); err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/"+indexPage, http.StatusFound)
	})
	mux.HandleFunc("GET /README.md", func(w http.ResponseWriter, r *http.Request) { // is not part of the docs folder
		http.Redirect(w, r, "/"+indexPage, http.StatusFound)
	})
	mux.HandleFunc("GET /style.css", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/css; charset=utf-8")
		_, _ = w.Write(style)
	})
	mux.HandleFunc("GET /search", s.serveSearch)
	mux.HandleFunc("GET /", s.serveFile)
	return mux, nil
}

var (
	indexHeading = regexp.MustCompile(`^## (.*)$`)
	indexLinks   = regexp.MustCompile(`\[([^\]]+)\]\(([^)#\s]+\.md)\)`)
)

// readIndex returns the links of the index page below its headings, in order.
func readIndex(source string) []indexGroup {
	var groups []indexGroup
	for line := range strings.Lines(source) {
		if m := indexHeading.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			groups = append(groups, indexGroup{Title: m[1]})
			continue
		}
		if len(groups) == 0 {
			continue
		}
		g := &groups[len(groups)-1]
		for _, m := range indexLinks.FindAllStringSubmatch(line, -1) {
			if strings.Contains(m[2], "://") {
				continue
			}
			g.Links = append(g.Links, indexLink{Title: strings.Trim(m[1], "`"),
				Path: path.Join(path.Dir(indexPage), m[2])})
		}
	}
	return groups
}

// view is what the template shows.
type view struct {
	Title    string
	Path     string // of the page, "" for others
	Index    []indexGroup
	Body     template.HTML
	Contents []section
	Previous indexLink // in the order of the index, empty if there is none
	Next     indexLink
	Query    string
	Hits     []hit
	Partial  bool // the hits contain some words of the query only
	Search   bool
	Missing  string // a path outside the documents
}

// neighbors returns the links before and after a page in the index.
func (s *site) neighbors(path string) (previous, next indexLink) {
	var order []indexLink
	for _, g := range s.index {
		order = append(order, g.Links...)
	}
	at := slices.IndexFunc(order, func(l indexLink) bool { return l.Path == path })
	if at > 0 {
		previous = order[at-1]
	}
	if at >= 0 && at+1 < len(order) {
		next = order[at+1]
	}
	return previous, next
}

func (s *site) serveFile(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
	if p := s.pages[name]; p != nil {
		v := view{Title: p.title, Path: p.path, Body: p.body}
		v.Previous, v.Next = s.neighbors(p.path)
		for _, sec := range p.sections {
			if sec.level == 2 {
				v.Contents = append(v.Contents, sec)
			}
		}
		s.show(w, http.StatusOK, v)
		return
	}
	inner, inside := strings.CutPrefix(name+"/", prefix)
	inner = strings.TrimSuffix(inner, "/")
	if inside {
		// A folder is its README, any other file is served as it is.
		if s.pages[path.Join(name, "README.md")] != nil {
			http.Redirect(w, r, "/"+path.Join(name, "README.md"), http.StatusFound)
			return
		}
		if info, err := fs.Stat(s.files, inner); err == nil && !info.IsDir() {
			http.ServeFileFS(w, r, s.files, inner)
			return
		}
	}
	s.show(w, http.StatusNotFound, view{Title: "Not part of the guide", Missing: name})
}

func (s *site) serveSearch(w http.ResponseWriter, r *http.Request) {
	query := strings.TrimSpace(r.URL.Query().Get("q"))
	hits, partial := s.search(query)
	s.show(w, http.StatusOK, view{Title: "Search", Query: query, Search: true, Hits: hits, Partial: partial})
}

func (s *site) show(w http.ResponseWriter, status int, v view) {
	v.Index = s.index
	var out bytes.Buffer
	if err := s.template.Execute(&out, v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy",
		"default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; "+
			"form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes())
}
