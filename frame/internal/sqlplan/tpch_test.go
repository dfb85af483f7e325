package sqlplan

import (
	"fmt"
	"testing"

	"go.millstream.dev/frame/internal/sqltext"
	"go.millstream.dev/internal/bench/tpch"
	"go.millstream.dev/internal/testkit/duckdb"
)

// tpchCatalog returns the tables of TPC-H.
func tpchCatalog(factor float64) Catalog {
	s := tpch.NewScale(factor)
	out := Catalog{}
	for _, name := range tpch.Names {
		t := Table{Rows: float64(s.Units(name)), NotNull: map[string]bool{}}
		switch name {
		case "partsupp", "lineitem":
			t.Rows *= 4
		}
		for _, f := range tpch.Schema(name).Fields() {
			t.Columns = append(t.Columns, f.Name)
		}
		out[name] = t
	}
	return out
}

func lower(t *testing.T, text string, c Catalog) Node {
	t.Helper()
	q, err := sqltext.Parse(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	n, err := Lower(q, c)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return n
}

// TestTPCH compares DuckDB's answers to the queries with its answers to the lowered trees.
func TestTPCH(t *testing.T) {
	const factor = 0.01
	db := duckdb.Start(t)
	s := tpch.NewScale(factor)
	for _, name := range tpch.Names {
		b := s.Batch(name, 0, s.Units(name))
		db.Table(name, b)
		b.Release()
	}
	catalog := tpchCatalog(factor)
	for n := 1; n <= tpch.Queries; n++ {
		t.Run(fmt.Sprintf("q%02d", n), func(t *testing.T) {
			text := tpch.Query(n, factor)
			want, err := db.Try(text)
			if err != nil {
				t.Fatal(err)
			}
			if len(want) == 0 || len(want[0]) == 0 || want[0][0].Text == "NULL" {
				t.Errorf("DuckDB returns no rows")
			}
			lowered := statement(lower(t, text, catalog))
			got, err := db.Try(lowered)
			if err != nil {
				t.Fatalf("%s\n%v", lowered, err)
			}
			if diff := duckdb.Diff(got, want); diff != "" {
				t.Errorf("%s\n%s", lowered, diff)
			}
		})
	}
}
