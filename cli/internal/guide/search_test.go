package guide

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"
)

func small(t *testing.T) *site {
	t.Helper()
	s := &site{pages: map[string]*page{}}
	files := map[string]string{
		"a.md": "# Journal\n\nA scheduler with a journal.\n" +
			"\n## Repair\n\nThe journal is repaired. İstanbul journal\n",
		"b.md":     "# Retries\n\nTasks are retried. See the journal.\n",
		"c.md":     "# Memory\n\nNothing of that. rmm_pool_size and --device-memory-limit. Exchanging.\n",
		"adr/1.md": "# Decision on the journal\n\nWhy a journal, a journal, a journal.\n",
		"guide/d.md": "# Hints\n\nA call that hangs. LocalCUDACluster.\n" +
			"\n## One\n\nmany\n\n## Two\n\nmany\n\n## Three\n\nmany\n\n## Four\n\nmany\n",
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := files[name]
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
	const journal = "docs/a.md#journal docs/a.md#repair docs/adr/1.md#decision-on-the-journal docs/b.md#retries"
	for _, tc := range []struct {
		query string
		want  string // places, best first
	}{
		{"journal", journal},
		{"JOURNAL repair", "docs/a.md#repair"},
		{"retried journal", "docs/b.md#retries"},
		{"how do I repair the journal?", "docs/a.md#repair"},
		{"journal nowhere", "partial " + journal},
		{"nowhere", ""},
		{"journal repaired İstanbul", "docs/a.md#repair " + strings.Replace(journal, "docs/a.md#repair ", "", 1)},
		{"the", "docs/adr/1.md#decision-on-the-journal docs/a.md#repair docs/b.md#retries"},
		{"pool_size", "docs/c.md#memory"},
		{"device_memory_limit=…", "docs/c.md#memory"},
		{"--rmm-pool-size", "docs/c.md#memory"},
		{"hang", "docs/guide/d.md#hints"}, // and not "exchanging"
		{"cluster", "docs/guide/d.md#hints"},
		{"LocalCUDACluster()", "docs/guide/d.md#hints"},
		{"many", "docs/guide/d.md#one docs/guide/d.md#two docs/guide/d.md#three"},
		{"", ""},
		{" , \"", ""},
		{"\xff\xfe", ""},
		{strings.Repeat("journal ", 1000), journal},
	} {
		var got []string
		hits, partial := s.search(tc.query)
		if partial {
			got = append(got, "partial")
		}
		for _, h := range hits {
			got = append(got, h.Path+"#"+h.Anchor)
		}
		if strings.Join(got, " ") != tc.want {
			t.Errorf("search %.40q: got %v, want %s", tc.query, got, tc.want)
		}
	}
}

func TestExcerpt(t *testing.T) {
	long := strings.Repeat("é", 200) + " needle " + strings.Repeat("ü", 200)
	before, match, after := excerpt(long, []string{"absent", "needle"}, true)
	if match != "needle" || !strings.HasPrefix(before, "… ") || !strings.HasSuffix(after, " …") ||
		!utf8.ValidString(before+match+after) {
		t.Errorf("excerpt: got %q, %q, %q", before, match, after)
	}
	if before, match, after = excerpt("İ needle", []string{"needle"}, true); match != "needle" || after != "" {
		t.Errorf("excerpt with a letter that changes its length: got %q, %q, %q", before, match, after)
	}
	if before, match, after = excerpt("short text", []string{"absent"}, true); before+match+after != "short text" {
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
	body = get(t, h, "/search?q=qqxyzzy+journal").Body.String()
	if !strings.Contains(body, "These contain some of them") || !strings.Contains(body, "<mark>journal</mark>") {
		t.Errorf("search for a word that exists and one that does not: %s", body)
	}
	if body := get(t, h, "/search?q=qqxyzzy").Body.String(); !strings.Contains(body, "No section contains") {
		t.Errorf("search without results: %s", body)
	}
}
