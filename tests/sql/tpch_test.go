package sql

import (
	"fmt"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"

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
		n := scale.Units(name)
		part := n/3 + 1
		var batches []arrow.RecordBatch
		for from := int64(0); from < n; from += part {
			batches = append(batches, scale.Batch(name, from, from+part))
		}
		tables[name] = table(t, ctx, c, db, name, batches)
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
