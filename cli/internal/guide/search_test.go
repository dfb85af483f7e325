package guide

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"
)

func small(t *testing.T) *site {
	t.Helper()
	s := &site{pages: map[string]*page{}}
	for name, text := range map[string]string{
		"a.md": "# Journal\n\nA scheduler with a journal.\n\n## Repair\n\nThe journal is repaired. İstanbul journal\n",
		"b.md": "# Retries\n\nTasks are retried. See the journal.\n",
		"c.md": "# Memory\n\nNothing of that.\n",
	} {
		p, err := parsePage("docs/"+name, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		s.order = append(s.order, p)
	}
	return s
}

func TestSearch(t *testing.T) {
	s := small(t)
	for _, tc := range []struct {
		query string
		want  string // places, best first
	}{
		{"journal", "docs/a.md#journal docs/a.md#repair docs/b.md#retries"},
		{"JOURNAL repair", "docs/a.md#repair"},
		{"retried journal", "docs/b.md#retries"},
		{"journal nowhere", ""},
		{"", ""},
		{" , \"", ""},
		{"\xff\xfe", ""},
		{strings.Repeat("journal ", 1000), "docs/a.md#journal docs/a.md#repair docs/b.md#retries"},
	} {
		var got []string
		for _, h := range s.search(tc.query) {
			got = append(got, h.Path+"#"+h.Anchor)
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("search %.40q: got %v, want %s", tc.query, got, tc.want)
		}
	}
}

func TestExcerpt(t *testing.T) {
	long := strings.Repeat("é", 200) + " needle " + strings.Repeat("ü", 200)
	before, match, after := excerpt(long, []string{"absent", "needle"})
	if match != "needle" || !strings.HasPrefix(before, "… ") || !strings.HasSuffix(after, " …") ||
		!utf8.ValidString(before+match+after) {
		t.Errorf("excerpt: got %q, %q, %q", before, match, after)
	}
	if before, match, after = excerpt("İ needle", []string{"needle"}); match != "needle" || after != "" {
		t.Errorf("excerpt with a letter that changes its length: got %q, %q, %q", before, match, after)
	}
	if before, match, after = excerpt("short text", []string{"absent"}); before+match+after != "short text" {
		t.Errorf("excerpt without the word: got %q, %q, %q", before, match, after)
	}
}

// FuzzSearch checks that no query and no document breaks a search.
func FuzzSearch(f *testing.F) {
	f.Add("journal", "# A\n\ntext `code` journal\n")
	f.Add("\xff i̇", "İİİ journal\n\n## İ\n")
	f.Fuzz(func(t *testing.T, query, text string) {
		h, err := New(fstest.MapFS{"README.md": {Data: []byte(text)}})
		if err != nil {
			t.Fatal(err)
		}
		if w := get(t, h, "/search?q="+url.QueryEscape(query)); w.Code != http.StatusOK {
			t.Errorf("search %q: got status %d, want 200", query, w.Code)
		}
	})
}

// A query is text on the page, not markup, and a search of the guide finds its subject first.
func TestSearchPage(t *testing.T) {
	h := documents(t)
	body := get(t, h, "/search?q="+url.QueryEscape(`"><script>alert(1)</script>`)).Body.String()
	if strings.Contains(body, "<script") {
		t.Errorf("the query is on the page as markup: %s", body)
	}
	body = get(t, h, "/search?q=net.Conn").Body.String()
	first, _, _ := strings.Cut(body[strings.Index(body, `class="hits"`):], "</li>")
	if !strings.Contains(first, "/docs/guide/netconn.md#") || !strings.Contains(first, "<mark>") {
		t.Errorf("first result for net.Conn: got %s, want the page netconn.md with a mark", first)
	}
	if body := get(t, h, "/search?q=qqxyzzy").Body.String(); !strings.Contains(body, "No section contains") {
		t.Errorf("search without results: %s", body)
	}
}
