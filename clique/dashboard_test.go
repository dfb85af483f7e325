package clique_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"go.millstream.dev/clique"
	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/dashboard"
	"go.millstream.dev/internal/testkit/leak"
)

// The dashboard of the scheduler shows a clique with the collectives of its ranks, and still does after its end.
func TestDashboard(t *testing.T) {
	leak.Check(t)
	k, c := local(t, cluster.Config{Workers: 2, Dashboard: "127.0.0.1:0"})
	q := form(t, c, clique.Options{})
	for range 3 {
		if _, err := total.RunAll(t.Context(), q, []float64{1, 2}); err != nil {
			t.Fatal(err)
		}
	}
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	url := "http://" + k.Scheduler().DashboardAddress() + "/millstream/cliques.json"
	awaitClique(t, web, url, func(c dashboard.Clique) bool {
		return c.ID == q.ID() && c.State == "running" && c.End == 0
	})
	before := float64(time.Now().Unix())
	if err := q.Dissolve(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitClique(t, web, url, func(c dashboard.Clique) bool {
		return c.ID == q.ID() && c.State == "dissolved" && c.End >= before
	})
}

// cliquesPage returns what the dashboard shows.
func cliquesPage(t *testing.T, web *http.Client, url string) []dashboard.Clique {
	t.Helper()
	r, err := web.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	var got struct{ Cliques []dashboard.Clique }
	if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
		t.Fatal(err)
	}
	return got.Cliques
}

// awaitClique waits until the dashboard shows one clique of two ranks with three calls of AllReduce, for which is
// returns true.
func awaitClique(t *testing.T, web *http.Client, url string, is func(dashboard.Clique) bool) {
	t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		got := cliquesPage(t, web, url)
		complete := len(got) == 1 && len(got[0].Ranks) == 2 &&
			slices.ContainsFunc(got[0].Collectives, func(o dashboard.Collective) bool {
				return o.Op == "AllReduce" && o.Count == 3 && o.Bytes == 48 && o.Seconds > 0 && o.Slowest.Rank >= 0
			})
		if complete && is(got[0]) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("cliques: got %+v, want one with 3 calls of AllReduce on 2 ranks", got)
		}
	}
}

// A worker reports its last dissolved cliques only.
func TestDashboardBound(t *testing.T) {
	leak.Check(t)
	k, c := local(t, cluster.Config{Workers: 1, Dashboard: "127.0.0.1:0"})
	var last *clique.Clique
	for range 20 {
		last = form(t, c, clique.Options{})
		if err := last.Dissolve(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	web := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	url := "http://" + k.Scheduler().DashboardAddress() + "/millstream/cliques.json"
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		got := cliquesPage(t, web, url)
		past := 0
		for _, c := range got {
			if c.End > 0 {
				past++
			}
		}
		if past > 16 {
			t.Fatalf("got %d dissolved cliques, want at most 16", past)
		}
		if past == 16 && len(got) == 16 && slices.ContainsFunc(got, func(c dashboard.Clique) bool {
			return c.ID == last.ID()
		}) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("got %d cliques, want 16 with the last", len(got))
		}
	}
}
