package clique_test

import (
	"context"
	"log/slog"
	"os"
	"testing"
	"time"

	"go.millstream.dev/client"
	"go.millstream.dev/clique"
	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/testkit/leak"
)

func TestMain(m *testing.M) {
	cluster.Main()
	os.Exit(leak.Main(m))
}

// patience is how long a test waits for something that must come. Nothing is asserted about
// how long it takes.
const patience = 90 * time.Second

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func quiet() *slog.Logger {
	if os.Getenv("LOUD") != "" {
		return slog.Default()
	}
	return slog.New(slog.DiscardHandler)
}

// local starts a cluster and a client of it.
func local(t testing.TB, opts cluster.Config) (*cluster.Cluster, *client.Client) {
	t.Helper()
	ctx := testContext(t)
	if opts.Threads == 0 {
		opts.Threads = 1
	}
	opts.MemoryLimit = cluster.NoMemoryLimit
	if opts.Logger == nil {
		opts.Logger = quiet()
	}
	opts.Log.Level = "error"
	k, err := cluster.Local(ctx, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	c, err := k.Client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close()
	})
	if err := c.WaitForWorkers(ctx, opts.Workers); err != nil {
		t.Fatal(err)
	}
	return k, c
}

// form forms a clique that is dissolved at the end.
func form(t testing.TB, c *client.Client, opts clique.Options) *clique.Clique {
	t.Helper()
	opts.Timeout = patience
	q, err := clique.Form(testContext(t), c, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := q.Dissolve(ctx); err != nil && c.Err() == nil {
			t.Errorf("dissolve: %v", err)
		}
	})
	return q
}

// total sums up what the ranks have.
var total = clique.Func("test.total", func(ctx context.Context, r *clique.Rank, in []float64) ([]float64, error) {
	out := make([]float64, len(in))
	err := r.Do(ctx, clique.AllReduce(clique.Of(in), clique.Of(out), clique.Sum))
	return out, err
})

// whoami tells rank, size and worker, as they are seen on the rank itself.
var whoami = clique.Func("test.whoami", func(ctx context.Context, r *clique.Rank, _ int) ([]string, error) {
	all := make([]int64, r.Size())
	if err := r.Do(ctx, clique.AllGather(clique.Of([]int64{int64(r.Rank())}), clique.Of(all))); err != nil {
		return nil, err
	}
	return []string{r.Worker(r.Rank()), string(rune('0' + all[r.Size()-1])), r.Backend()}, nil
})
