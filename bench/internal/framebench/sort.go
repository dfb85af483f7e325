package framebench

import (
	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame"
)

// sorts are sorts of a table with keys of several types and a payload.
var sorts = suite{
	rows:  10_000_000,
	peers: []string{DuckDB, Dask},
	bars:  map[string]float64{DuckDB: 1.2, Dask: 0.1},
	cases: []Case{
		sortCase("int64", "by a random int64"),
		sortCase("float64", "by a random float64"),
		sortCase("text", "by a random text of 12 bytes"),
		sortCase("few", "by an int64 with 1000 values and a random int64"),
	},
	tables: sortTables,
}

func sortCase(name, about string) Case {
	keys := []string{"key"}
	if name == "few" {
		keys = append(keys, "key2")
	}
	by, order := make([]frame.SortKey, len(keys)), ""
	for i, k := range keys {
		by[i] = frame.Asc(col(k))
		if order += k; i < len(keys)-1 {
			order += ", "
		}
	}
	return Case{Name: name, About: about, tables: []string{name}, sorted: keys[:1],
		sql:  "select * from \"" + name + "\" order by " + order,
		ours: func(t map[string]*frame.Query) *frame.Query { return t[name].Sort(by...) }}
}

func sortTables(o Options, cases []Case) []table {
	payload := field("payload", arrow.PrimitiveTypes.Int64)
	integer := arrow.PrimitiveTypes.Int64
	word := func(seed uint64) func(uint64) int64 {
		return func(row uint64) int64 { return int64(random(seed, row)) }
	}
	values := func(from, to int) arrow.Array { return numbers(from, to, word(2)) }
	make := func(name string, columns func(from, to int) []arrow.Array, keys ...arrow.DataType) table {
		fields := []arrow.Field{field("key", keys[0])}
		for _, k := range keys[1:] {
			fields = append(fields, field("key2", k))
		}
		s := schemaOf(append(fields, payload)...)
		return table{name: name, schema: s, rows: o.Rows, parts: o.Partitions,
			batch: func(from, to int) arrow.RecordBatch {
				return rowsOf(s, append(columns(from, to), values(from, to))...)
			}}
	}
	return wanted([]table{
		make("int64", func(from, to int) []arrow.Array { return []arrow.Array{numbers(from, to, word(1))} }, integer),
		make("float64", func(from, to int) []arrow.Array {
			return []arrow.Array{numbers(from, to, func(row uint64) float64 { return rounded(1, row) })}
		}, floatType),
		make("text", func(from, to int) []arrow.Array {
			return []arrow.Array{texts(from, to, func(to []byte, row uint64) []byte {
				return padded(to, below(1, row, 1e10), 10)
			})}
		}, textType),
		make("few", func(from, to int) []arrow.Array {
			return []arrow.Array{numbers(from, to, func(row uint64) int64 { return int64(below(3, row, 1000)) }),
				numbers(from, to, word(1))}
		}, integer, integer),
	}, cases)
}
