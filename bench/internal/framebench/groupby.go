package framebench

import (
	"fmt"
	"math"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"

	"go.millstream.dev/frame"
)

// groupBy has the queries of the group-by and join tasks of the database-like ops benchmark of h2o.ai.
var groupBy = suite{
	rows:   10_000_000,
	peers:  []string{DuckDB, Dask},
	bars:   map[string]float64{DuckDB: 1.2, Dask: 0.05},
	sum:    true,
	cases:  append(groupCases(), joinCases()...),
	tables: func(o Options, cases []Case) []table { return wanted(append(groupTables(o), joinTables(o)...), cases) },
}

// col, cols and sums shorten the queries.
func col(name string) frame.Expr { return frame.Col(name) }

func cols(names ...string) []frame.Expr {
	out := make([]frame.Expr, len(names))
	for i, n := range names {
		out[i] = frame.Col(n)
	}
	return out
}

// groupCases are q1 to q10 on the table g.
func groupCases() []Case {
	by := func(keys []string, aggs ...frame.Agg) func(t map[string]*frame.Query) *frame.Query {
		return func(t map[string]*frame.Query) *frame.Query { return t["g"].GroupBy(cols(keys...)...).Agg(aggs...) }
	}
	mean := func(c string) frame.Agg { return frame.Mean(col(c)).As(c) }
	sum := func(c string) frame.Agg { return frame.Sum(col(c)).As(c) }
	list := []Case{
		{About: "sum v1 by id1", sql: "select id1, sum(v1)::bigint from g group by id1",
			ours: by([]string{"id1"}, sum("v1"))},
		{About: "sum v1 by id1, id2", sql: "select id1, id2, sum(v1)::bigint from g group by id1, id2",
			ours: by([]string{"id1", "id2"}, sum("v1"))},
		{About: "sum v1, mean v3 by id3", sql: "select id3, sum(v1)::bigint, avg(v3) from g group by id3",
			ours: by([]string{"id3"}, sum("v1"), mean("v3"))},
		{About: "mean v1, v2, v3 by id4", sql: "select id4, avg(v1), avg(v2), avg(v3) from g group by id4",
			ours: by([]string{"id4"}, mean("v1"), mean("v2"), mean("v3"))},
		{About: "sum v1, v2, v3 by id6",
			sql:  "select id6, sum(v1)::bigint, sum(v2)::bigint, sum(v3) from g group by id6",
			ours: by([]string{"id6"}, sum("v1"), sum("v2"), sum("v3"))},
		{About: "median v3, sd v3 by id4, id5",
			sql:  "select id4, id5, quantile_cont(v3, 0.5), stddev(v3) from g group by id4, id5",
			ours: by([]string{"id4", "id5"}, frame.Median(col("v3")).As("median"), frame.Std(col("v3")).As("sd"))},
		{About: "max v1 - min v2 by id3", sql: "select id3, max(v1) - min(v2) from g group by id3",
			ours: func(t map[string]*frame.Query) *frame.Query {
				return t["g"].GroupBy(col("id3")).Agg(frame.Max(col("v1")).As("x"), frame.Min(col("v2")).As("y")).
					Select(col("id3"), col("x").Sub(col("y")).As("range"))
			}},
		{About: "largest two v3 by id6", sql: "select id6, v3 from (select id6, v3, row_number() over " +
			"(partition by id6 order by v3 desc) as n from g) where n <= 2",
			ours: func(t map[string]*frame.Query) *frame.Query {
				return t["g"].Select(col("id6"), col("v3")).Window(frame.WindowOptions{PartitionBy: cols("id6"),
					OrderBy: []frame.SortKey{frame.Desc(col("v3"))}}, frame.RowNumber().As("n")).
					Filter(col("n").Le(2)).Select(col("id6"), col("v3"))
			}},
		{About: "regression v1 v2 by id2, id4", sql: "select id2, id4, pow(corr(v1, v2), 2) from g group by id2, id4",
			ours: regression},
		{About: "sum v3, count by id1:id6", sql: "select id1, id2, id3, id4, id5, id6, sum(v3), count(*) from g " +
			"group by id1, id2, id3, id4, id5, id6",
			ours: by([]string{"id1", "id2", "id3", "id4", "id5", "id6"}, sum("v3"), frame.Count().As("count"))},
	}
	for i := range list {
		list[i].Name, list[i].tables = fmt.Sprintf("q%d", i+1), []string{"g"}
	}
	return list
}

// regression returns the square of the correlation of v1 and v2, from sums, which are exact.
func regression(t map[string]*frame.Query) *frame.Query {
	x, y := col("v1"), col("v2")
	n, sx, sy, sxy, sxx, syy := col("n"), col("sx"), col("sy"), col("sxy"), col("sxx"), col("syy")
	xy := n.Mul(sxy).Sub(sx.Mul(sy))
	xx, yy := n.Mul(sxx).Sub(sx.Mul(sx)), n.Mul(syy).Sub(sy.Mul(sy))
	float := arrow.PrimitiveTypes.Float64
	return t["g"].GroupBy(cols("id2", "id4")...).
		Agg(frame.Count().As("n"), frame.Sum(x).As("sx"), frame.Sum(y).As("sy"), frame.Sum(x.Mul(y)).As("sxy"),
			frame.Sum(x.Mul(x)).As("sxx"), frame.Sum(y.Mul(y)).As("syy")).
		Select(col("id2"), col("id4"),
			xy.Cast(float).Mul(xy.Cast(float)).Div(xx.Cast(float).Mul(yy.Cast(float))).As("r2"))
}

// groupTables returns the table g: id1 to id3 are texts, id4 to id6 integers, of few, few and many values.
func groupTables(o Options) []table {
	few, many := uint64(o.Groups), uint64(max(1, o.Rows/o.Groups))
	schema := schemaOf(field("id1", textType), field("id2", textType), field("id3", textType),
		field("id4", intType), field("id5", intType), field("id6", intType), field("v1", intType), field("v2", intType),
		field("v3", floatType))
	integer := func(seed, n uint64) func(uint64) int32 {
		return func(row uint64) int32 { return int32(1 + below(seed, row, n)) }
	}
	text := func(seed, n uint64, width int) func([]byte, uint64) []byte {
		return func(to []byte, row uint64) []byte { return padded(to, 1+below(seed, row, n), width) }
	}
	return []table{{name: "g", schema: schema, rows: o.Rows, parts: o.Partitions,
		batch: func(from, to int) arrow.RecordBatch {
			return rowsOf(schema, texts(from, to, text(11, few, 3)), texts(from, to, text(12, few, 3)),
				texts(from, to, text(13, many, 10)), numbers(from, to, integer(14, few)),
				numbers(from, to, integer(15, few)), numbers(from, to, integer(16, many)),
				numbers(from, to, integer(17, 5)), numbers(from, to, integer(18, 15)),
				numbers(from, to, func(row uint64) float64 { return rounded(19, row) }))
		}}}
}

var (
	textType  = arrow.BinaryTypes.String
	intType   = arrow.PrimitiveTypes.Int32
	floatType = arrow.PrimitiveTypes.Float64
)

// padded appends "id" and a number with zeros in front.
func padded(to []byte, v uint64, width int) []byte {
	to = append(to, "id"...)
	for limit := uint64(math.Pow10(width - 1)); v < limit && limit > 1; limit /= 10 {
		to = append(to, '0')
	}
	return strconv.AppendUint(to, v, 10)
}

// rounded returns a number from 0 to 100 with six digits after the point.
func rounded(seed, row uint64) float64 { return float64(below(seed, row, 100_000_000)) / 1e6 }
