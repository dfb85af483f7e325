package framebench

import (
	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame"
)

// merge is the merge of Dask-CUDA's local_cudf_merge: two tables with a unique int64 key and an int64 payload. A
// fraction of the keys on the right occurs on the left.
var merge = suite{
	rows:  10_000_000,
	peers: []string{DuckDB, Dask},
	bars:  map[string]float64{DuckDB: 1.3, Dask: 0.1},
	cases: []Case{
		mergeCase("dense", "inner join, keys are the numbers from 0"),
		mergeCase("sparse", "inner join, keys are random int64"),
	},
	tables: mergeTables,
}

func mergeCase(name, about string) Case {
	left, right := name+"_left", name+"_right"
	return Case{Name: name, About: about, tables: []string{left, right},
		sql: "select key, l.payload, r.payload as payload_right from " + left + " l join " + right + " r using (key)",
		ours: func(t map[string]*frame.Query) *frame.Query {
			return t[left].Join(t[right], frame.JoinOptions{On: []string{"key"}})
		}}
}

func mergeTables(o Options, cases []Case) []table {
	n, match := o.Rows, uint64(float64(o.Rows)*o.FracMatch)
	left, right, chosen, payload := permute(1, n), permute(2, n), permute(3, n), permute(4, n)
	schema := schemaOf(field("key", arrow.PrimitiveTypes.Int64), field("payload", arrow.PrimitiveTypes.Int64))
	make := func(name string, key func(row uint64) uint64, spread bool) table {
		return table{name: name, schema: schema, rows: n, parts: o.Partitions,
			batch: func(from, to int) arrow.RecordBatch {
				return rowsOf(schema, numbers(from, to, func(i uint64) int64 {
					k := key(i)
					if spread {
						k = mix(k)
					}
					return int64(k)
				}), numbers(from, to, func(i uint64) int64 { return int64(payload.at(i)) }))
			}}
	}
	other := func(i uint64) uint64 {
		if j := right.at(i); j >= match {
			return uint64(n) + j // without a match
		} else {
			return chosen.at(j)
		}
	}
	return wanted([]table{make("dense_left", left.at, false), make("dense_right", other, false),
		make("sparse_left", left.at, true), make("sparse_right", other, true)}, cases)
}
