package sql

import (
	"fmt"
	"testing"

	"go.millstream.dev/frame"
	"go.millstream.dev/internal/bench/tpch"
	"go.millstream.dev/internal/testkit/duckdb"
	"go.millstream.dev/internal/testkit/leak"
)

// TestTPCH compares the answers to the 22 queries of TPC-H with those of DuckDB.
func TestTPCH(t *testing.T) {
	const factor = 0.01
	leak.Check(t)
	ctx, c := connect(t)
	db := duckdb.Start(t)
	scale := tpch.NewScale(factor)
	tables := map[string]*frame.Query{}
	for _, name := range tpch.Names {
		tables[name] = table(t, ctx, c, db, name, parts(scale, name))
	}
	for n := 1; n <= tpch.Queries; n++ {
		t.Run(fmt.Sprintf("q%02d", n), func(t *testing.T) {
			text := tpch.Query(n, factor)
			want, err := db.Try(text)
			if err != nil {
				t.Fatal(err)
			}
			got, err := answer(ctx, c, text, tables)
			if err != nil {
				t.Fatal(err)
			}
			if diff := duckdb.Diff(got, want); diff != "" {
				t.Error(diff)
			}
		})
	}
}
