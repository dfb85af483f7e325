// Package sql compares the answers of frame.SQL with those of DuckDB.
package sql

import (
	"context"
	"os"
	"testing"
	"time"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/client"
	"go.millstream.dev/cluster"
	"go.millstream.dev/frame"
	"go.millstream.dev/internal/proc/childproc"
	"go.millstream.dev/internal/testkit/duckdb"
)

func TestMain(m *testing.M) {
	cluster.Main()
	childproc.NoRaceSleep()
	os.Exit(m.Run())
}

// connect starts a cluster of two workers and a client of it.
func connect(t *testing.T) (context.Context, *client.Client) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	t.Cleanup(cancel)
	lc, err := cluster.Local(ctx, cluster.Config{Workers: 2, Threads: 2, Mode: cluster.Goroutines,
		DataConnections: "none"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lc.Close(); err != nil {
			t.Error(err)
		}
	})
	c, err := lc.Client(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return ctx, c
}

// answer returns the rows of a statement.
func answer(ctx context.Context, c *client.Client, text string, tables map[string]*frame.Query) (duckdb.Rows, error) {
	q, err := frame.SQL(ctx, c, text, tables)
	if err != nil {
		return nil, err
	}
	f, err := q.Compute(ctx)
	if err != nil {
		return nil, err
	}
	defer f.Release()
	batches, err := f.Collect(ctx)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, b := range batches {
			b.Release()
		}
	}()
	return duckdb.RowsOf(batches...), nil
}

// table returns batches as a table of the cluster and of DuckDB.
func table(t *testing.T, ctx context.Context, c *client.Client, db *duckdb.DB, name string,
	batches []arrow.RecordBatch) *frame.Query {
	t.Helper()
	db.Table(name, batches...)
	f, err := frame.FromBatches(ctx, c, batches)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Release)
	return f.Query()
}
