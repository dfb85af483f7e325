package framebench

import (
	"fmt"
	"strings"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame"
)

// joinCases are the joins j1 to j5 of the table x with small, medium and big ones.
func joinCases() []Case {
	list := []Case{
		joinCase("small inner on an integer", "small", "id1", frame.InnerJoin, "id4"),
		joinCase("medium inner on an integer", "medium", "id2", frame.InnerJoin, "id1", "id4", "id5"),
		joinCase("medium left on an integer", "medium", "id2", frame.LeftJoin, "id1", "id4", "id5"),
		joinCase("medium inner on a text", "medium", "id5", frame.InnerJoin, "id1", "id2", "id4"),
		joinCase("big inner on an integer", "big", "id3", frame.InnerJoin, "id1", "id2", "id4", "id5", "id6"),
	}
	for i := range list {
		list[i].Name = fmt.Sprintf("j%d", i+1)
	}
	return list
}

// joinCase returns a join of x with another table on a key. others are the columns that both have, besides the key.
func joinCase(about, other, key string, kind frame.JoinKind, others ...string) Case {
	var columns strings.Builder
	for _, c := range others {
		fmt.Fprintf(&columns, ", r.%s as %s_right", c, c)
	}
	how := "join"
	if kind == frame.LeftJoin {
		how = "left join"
	}
	return Case{About: about, tables: []string{"x", other},
		sql: fmt.Sprintf("select x.*%s, v2 from x %s %s r using (%s)", columns.String(), how, other, key),
		ours: func(t map[string]*frame.Query) *frame.Query {
			return t["x"].Join(t[other], frame.JoinOptions{Kind: kind, On: []string{key}})
		}}
}

// joinTables returns the table x and those that it is joined with. Nine of ten values of a key are in both tables.
func joinTables(o Options) []table {
	sizes := [3]int{max(10, o.Rows/1_000_000), max(10, o.Rows/1_000), max(10, o.Rows)}
	var order [3]permutation // of the values of a key, one and a tenth times as many as the size
	for i, n := range sizes {
		order[i] = permute(uint64(20+i), n+n/10)
	}
	// key returns a value of a key: rows of x have the first values, those of the others the last.
	key := func(i int, at uint64, right bool) uint64 {
		if n := uint64(sizes[i]); right && at >= n-n/10 {
			at += n / 10
		}
		return 1 + order[i].at(at)
	}
	// value returns that of a row of a table with n rows: each occurs once if the key has as many values.
	value := func(i int, seed, row uint64, right bool, n int) uint64 {
		at := permute(seed, sizes[i]).at(row % uint64(sizes[i]))
		if n != sizes[i] {
			at = below(seed, row, uint64(sizes[i]))
		}
		return key(i, at, right)
	}
	make := func(name, v string, n, keys int, right bool) table {
		var fields []arrow.Field
		for i := range keys {
			fields = append(fields, field(fmt.Sprintf("id%d", i+1), intType))
		}
		for i := range keys {
			fields = append(fields, field(fmt.Sprintf("id%d", i+4), textType))
		}
		schema := schemaOf(append(fields, field(v, floatType))...)
		seed := uint64(30)
		if right {
			seed += uint64(10 * keys)
		}
		parts := o.Partitions
		if keys < 3 {
			parts = 1
		}
		return table{name: name, schema: schema, rows: n, parts: parts, batch: func(from, to int) arrow.RecordBatch {
			var columns []arrow.Array
			for i := range keys {
				columns = append(columns, numbers(from, to, func(row uint64) int32 {
					return int32(value(i, seed+uint64(i), row, right, n))
				}))
			}
			for i := range keys {
				columns = append(columns, texts(from, to, func(to []byte, row uint64) []byte {
					return padded(to, value(i, seed+uint64(i), row, right, n), 1)
				}))
			}
			return rowsOf(schema, append(columns, numbers(from, to, func(row uint64) float64 {
				return rounded(seed+9, row)
			}))...)
		}}
	}
	return []table{make("x", "v1", sizes[2], 3, false), make("small", "v2", sizes[0], 1, true),
		make("medium", "v2", sizes[1], 2, true), make("big", "v2", sizes[2], 3, true)}
}
