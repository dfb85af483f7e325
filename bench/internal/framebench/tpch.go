package framebench

import (
	"fmt"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/internal/bench/tpch"
)

// tpchSuite has the 22 queries of TPC-H, as SQL on all sides.
var tpchSuite = suite{rows: 1, peers: []string{DuckDB}, bars: map[string]float64{DuckDB: 1.5}, sum: true,
	cases: tpchCases(), tables: tpchTables}

// tpchTitles are the names of the queries.
var tpchTitles = [tpch.Queries]string{"pricing summary report", "minimum cost supplier", "shipping priority",
	"order priority checking", "local supplier volume", "forecasting revenue change", "volume shipping",
	"national market share", "product type profit measure", "returned item reporting", "important stock identification",
	"shipping modes and order priority", "customer distribution", "promotion effect", "top supplier",
	"parts/supplier relationship", "small-quantity-order revenue", "large volume customer", "discounted revenue",
	"potential part promotion", "suppliers who kept orders waiting", "global sales opportunity"}

func tpchCases() []Case {
	var cases []Case
	for i, title := range tpchTitles {
		cases = append(cases, Case{Name: fmt.Sprintf("q%d", i+1), About: title, tables: tpch.Names,
			text: func(o Options) string { return tpch.Query(i+1, o.Scale) }})
	}
	return cases
}

// tpchTables returns the tables of a scale factor.
func tpchTables(o Options, _ []Case) []table {
	scale := tpch.NewScale(o.Scale)
	var out []table
	for _, name := range tpch.Names {
		parts := 1
		if scale.Units(name) > 50_000 {
			parts = o.Partitions
		}
		out = append(out, table{name: name, schema: tpch.Schema(name), rows: int(scale.Units(name)), parts: parts,
			parquet: o.Source == Parquet, batch: func(from, to int) arrow.RecordBatch {
				return scale.Batch(name, int64(from), int64(to))
			}})
	}
	return out
}
