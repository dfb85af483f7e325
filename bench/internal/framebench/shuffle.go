package framebench

import (
	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame"
	"go.millstream.dev/internal/bench/benchfmt"
)

// shuffles exchange all rows of a table by the hash of a key, as Dask-CUDA's local_cudf_shuffle.
var shuffles = suite{
	rows:  32 << 20,
	unit:  benchfmt.UnitGBps,
	peers: []string{Dask},
	cases: []Case{
		shuffleCase("numbers", "a random int64 key and seven int64 columns"),
		shuffleCase("text", "a random int64 key and a text of 12 bytes"),
	},
	tables: shuffleTables,
}

func shuffleCase(name, about string) Case {
	return Case{Name: name, About: about, tables: []string{name}, sql: "select * from " + name,
		ours: func(t map[string]*frame.Query) *frame.Query { return t[name].Shuffle(0, "key") }}
}

// shuffleTables returns tables of 64 bytes and of 24 bytes a row; the latter has half as many rows.
func shuffleTables(o Options, cases []Case) []table {
	integer := arrow.PrimitiveTypes.Int64
	column := func(seed uint64, from, to int) arrow.Array {
		return numbers(from, to, func(row uint64) int64 { return int64(random(seed, row)) })
	}
	wide := []arrow.Field{field("key", integer)}
	for _, name := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		wide = append(wide, field(name, integer))
	}
	ints, words := schemaOf(wide...), schemaOf(field("key", integer), field("a", textType))
	return wanted([]table{
		{name: "numbers", schema: ints, rows: o.Rows, parts: o.Partitions, batch: func(from, to int) arrow.RecordBatch {
			var columns []arrow.Array
			for i := range wide {
				columns = append(columns, column(uint64(40+i), from, to))
			}
			return rowsOf(ints, columns...)
		}},
		{name: "text", schema: words, rows: max(1, o.Rows/2), parts: o.Partitions,
			batch: func(from, to int) arrow.RecordBatch {
				return rowsOf(words, column(50, from, to), texts(from, to, func(to []byte, row uint64) []byte {
					return padded(to, below(51, row, 1e10), 10)
				}))
			}},
	}, cases)
}
