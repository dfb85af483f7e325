package client_test

import (
	"strings"
	"testing"

	"go.millstream.dev/client"
	"go.millstream.dev/scheduler"
	"go.millstream.dev/worker"
)

// TestLargeArguments submits calls around the limit: one log line for each function, which mentions Scatter.
func TestLargeArguments(t *testing.T) {
	r := newShortRig(t, func(_ *scheduler.Config, c *client.Config) { c.ArgumentWarning = 10_000 })
	r.addWorker(worker.Config{})
	const text = "client.Scatter"
	small, large := make([]int, 100), make([]int, 20_000)
	results := sum.Map(r.ctx, r.c, [][]int{small, small})
	results = append(results, sum.Submit(r.ctx, r.c, client.Val(small)))
	if got := r.clientLog.String(); strings.Contains(got, text) {
		t.Errorf("small arguments were logged: %s", got)
	}
	results = append(results, sum.Submit(r.ctx, r.c, client.Val(large)))
	large[0] = 1
	results = append(results, sum.Map(r.ctx, r.c, [][]int{large})...)
	if got := r.clientLog.String(); strings.Count(got, text) != 1 || !strings.Contains(got, "function=sum") ||
		!strings.Contains(got, "limit=10000") {
		t.Errorf("the log is %q, want one line about sum", got)
	}
	g := client.NewGraph()
	n := sum.Node(g, "a-large-node", client.Val(large))
	more, err := client.Compute(r.ctx, r.c, g, n)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.clientLog.String(); strings.Count(got, text) != 2 || !strings.Contains(got, "a-large-node") {
		t.Errorf("the log is %q, want another line about the node", got)
	}
	if err := client.Wait(r.ctx, append(results, more...)); err != nil {
		t.Error(err)
	}
}
