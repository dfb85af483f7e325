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

// The dashboard of the scheduler shows a clique with the collectives of its ranks.
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
	var got struct{ Cliques []dashboard.Clique }
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		r, err := web.Get("http://" + k.Scheduler().DashboardAddress() + "/millstream/cliques.json")
		if err != nil {
			t.Fatal(err)
		}
		got.Cliques = nil
		err = json.NewDecoder(r.Body).Decode(&got)
		_ = r.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		complete := len(got.Cliques) == 1 && len(got.Cliques[0].Ranks) == 2 &&
			slices.ContainsFunc(got.Cliques[0].Collectives, func(o dashboard.Collective) bool {
				return o.Op == "AllReduce" && o.Count == 3 && o.Bytes == 48 && o.Seconds > 0 && o.Slowest.Rank >= 0
			})
		if complete && got.Cliques[0].ID == q.ID() && got.Cliques[0].State == "running" {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("cliques: got %+v, want one with 3 calls of AllReduce on 2 ranks", got.Cliques)
		}
	}
}
