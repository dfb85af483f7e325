package browser

import (
	"context"
	"testing"

	"go.millstream.dev/clique"
	"go.millstream.dev/cluster"
)

// sumRanks sums a vector over the ranks of a clique.
var sumRanks = clique.Func("browser.sum", func(ctx context.Context, r *clique.Rank, v []float64) (float64, error) {
	err := r.Do(ctx, clique.AllReduce(clique.Of(v), clique.Of(v), clique.Sum))
	return v[0], err
})

// formed forms a clique of all workers and runs collectives in it.
func formed(t *testing.T, c *cluster.Cluster) *clique.Clique {
	t.Helper()
	cl, err := c.Client(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cl.Close() })
	q, err := clique.Form(t.Context(), cl, clique.Options{Name: "browser"})
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		got, err := sumRanks.RunAll(t.Context(), q, []float64{2, 3})
		if err != nil || len(got) != 3 || got[1] != 6 {
			t.Fatalf("sum of 3 ranks: got %v, error %v, want 6 at each", got, err)
		}
	}
	return q
}

// TestCliques shows a clique with its collectives and ranks, also after its end.
func TestCliques(t *testing.T) {
	c, url := start(t, 0, "")
	q := formed(t, c)
	tab := open(t, Look{})
	visit(t, tab, url+"/#/cliques", `document.body.innerText.includes("3 ranks, running")`)
	wait(t, tab, `[...document.querySelectorAll("tbody tr")].some((r) => r.innerText.match(/^AllReduce\s+3\s+48 B/))`)
	wait(t, tab, `document.querySelectorAll(".card tbody tr").length === 4`)
	if err := q.Dissolve(t.Context()); err != nil {
		t.Fatal(err)
	}
	wait(t, tab, `document.body.innerText.includes("3 ranks, dissolved at ")`)
	wait(t, tab, `document.querySelectorAll(".card tbody tr").length === 4`)
	shoot(t, tab, "cluster-cliques-dissolved")
}
