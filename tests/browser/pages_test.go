package browser

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.millstream.dev/tests/browser/fake"
)

var chrome *Chrome

func TestMain(m *testing.M) {
	c, err := Start(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	chrome = c
	code := m.Run()
	c.Close()
	os.Exit(code)
}

// open opens a tab that is closed at the end of the test, which fails for every problem of the console.
func open(t *testing.T, look Look) *Tab {
	t.Helper()
	tab, err := chrome.Open(look)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, p := range tab.Problems() {
			t.Errorf("got problem of the console %q, want none", p)
		}
		tab.Close()
	})
	return tab
}

// limit bounds waits for what the page should show, on a busy machine.
const limit = 2 * time.Minute

func wait(t *testing.T, tab *Tab, expression string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	if err := tab.Wait(ctx, expression); err != nil {
		t.Fatal(err)
	}
}

// visit opens a page and waits until an expression is true.
func visit(t *testing.T, tab *Tab, url, ready string) {
	t.Helper()
	if err := tab.Go(url); err != nil {
		t.Fatal(err)
	}
	_, page, _ := strings.Cut(url, "#/")
	page, _, _ = strings.Cut(page, "?")
	wait(t, tab, `document.body.dataset.page === "`+page+`" && (`+ready+`)`)
}

// shots is the folder of the screenshots. Git ignores it.
const shots = "screenshots"

func shoot(t *testing.T, tab *Tab, name string) {
	t.Helper()
	png, err := tab.Screenshot()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(shots, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(shots, name+".png"), png, 0o644); err != nil {
		t.Fatal(err)
	}
}

// axe returns the script of axe-core.
func axe(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", ".local", "web", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		t.Fatalf("%v; run scripts/setup web", err)
	}
	return string(b)
}

// looks are the ways in which every page is shown.
var looks = map[string]Look{
	"light": {},
	"dark":  {Dark: true},
	"phone": {Width: 360, Height: 740, Mobile: true},
}

// pages are the pages and an expression that is true when one shows its data.
var pages = map[string]string{
	"stream":    `document.querySelectorAll(".streamlegend li").length > 8`,
	"workers":   `document.querySelectorAll("tbody tr").length === 12`,
	"progress":  `document.querySelectorAll("tbody tr").length === 10`,
	"bandwidth": `document.querySelectorAll("tbody tr").length > 50 && document.querySelector(".legend li")`,
	"graph":     `document.querySelectorAll("svg g").length === 30`,
	"cliques":   `document.querySelectorAll(".card tbody tr").length === 10`,
	"memory":    `document.querySelectorAll(".chart canvas").length === 3`,
	"failures":  `document.querySelectorAll("tbody tr").length === 2 && !document.querySelector("tr.empty")`,
	"story":     `document.querySelector("h1").textContent === "Story of a key"`,
	"why":       `document.querySelectorAll(".card h2").length === 3`,
	"profile":   `document.querySelectorAll("tbody tr").length === 7`,
}

// TestPages opens every page in every look: no problem in the console, nothing that axe-core finds.
func TestPages(t *testing.T) {
	server := httptest.NewServer(fake.New("a", fake.NewHistory(12, 60)).Handler())
	defer server.Close()
	script := axe(t)
	for look, how := range looks {
		t.Run(look, func(t *testing.T) {
			tab := open(t, how)
			for name, ready := range pages {
				visit(t, tab, server.URL+"/#/"+name, ready)
				wait(t, tab, `document.querySelector(".state").dataset.state === "live"`)
				violations, err := tab.Audit(script)
				if err != nil {
					t.Fatal(err)
				}
				for _, v := range violations {
					for _, n := range v.Nodes {
						t.Errorf("%s: %s (%s): %s\n%s", name, v.ID, v.Help, n.HTML, n.Summary)
					}
				}
				shoot(t, tab, name+"-"+look)
			}
		})
	}
}
