package sql

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/frame"
	"go.millstream.dev/internal/testkit/duckdb"
	"go.millstream.dev/internal/testkit/leak"
)

// random returns a table of random values in parts. A column has few values, so that keys repeat, and nulls.
func random(r *rand.Rand, fields []arrow.Field, rows, parts int) []arrow.RecordBatch {
	var out []arrow.RecordBatch
	for range parts {
		b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
		for range rows / parts {
			for i := range fields {
				if r.IntN(8) == 0 {
					b.Field(i).AppendNull()
					continue
				}
				value(r, b.Field(i))
			}
		}
		out = append(out, b.NewRecordBatch())
		b.Release()
	}
	return out
}

// value appends a random value.
func value(r *rand.Rand, b array.Builder) {
	n := r.Int64N(7)
	switch b := b.(type) {
	case *array.BooleanBuilder:
		b.Append(n%2 == 0)
	case *array.Int8Builder:
		b.Append(int8(n - 3))
	case *array.Int32Builder:
		b.Append(int32(n - 3))
	case *array.Int64Builder:
		b.Append(n)
	case *array.Uint16Builder:
		b.Append(uint16(n))
	case *array.Float32Builder:
		b.Append(float32(n) / 4)
	case *array.Float64Builder:
		b.Append([]float64{0, math.Copysign(0, -1), 1.5, -2.25, 1e10, 3, 1e-3}[n])
	case *array.Decimal128Builder:
		b.Append(decimal128.FromI64(100*n - 250))
	case *array.StringBuilder:
		b.Append([]string{"", "a", "ab", "Äb", "b%", "a_b", "zz"}[n])
	case *array.Date32Builder:
		b.Append(arrow.Date32(8000 + 500*n))
	case *array.TimestampBuilder:
		b.Append(arrow.Timestamp(1_500_000_000_000_000 + 86_399_000_001*n))
	default:
		panic(fmt.Sprintf("%T", b))
	}
}

// ordered is the end of statements whose order is compared.
const ordered = "-- ordered"

// compare runs statements in DuckDB and as queries of frames.
func compare(t *testing.T, statements []string, seeds uint64, schema map[string][]arrow.Field) {
	t.Helper()
	leak.Check(t)
	ctx, c := connect(t)
	db := duckdb.Start(t)
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 7))
		tables := map[string]*frame.Query{}
		for _, name := range []string{"a", "b", "c", "t"} {
			if fields := schema[name]; fields != nil {
				tables[name] = table(t, ctx, c, db, name, random(r, fields, 60/(1+len(tables)), 2+int(seed)%2))
			}
		}
		for _, text := range statements {
			want, err := db.Try(text)
			if err != nil {
				t.Errorf("%s: %v", text, err)
				continue
			}
			got, err := answer(ctx, c, text, tables)
			if err != nil {
				t.Errorf("seed %d: %s: %v", seed, text, err)
				continue
			}
			if !strings.HasSuffix(text, ordered) {
				got, want = got.Sorted(), want.Sorted()
			}
			if diff := duckdb.Diff(got, want); diff != "" {
				t.Errorf("seed %d: %s:\n%s", seed, text, diff)
			}
		}
	}
}

// TestStatements compares statements of all kinds on small tables of integers and texts.
func TestStatements(t *testing.T) {
	b, err := os.ReadFile("../../frame/internal/sqlplan/testdata/statements.sql")
	if err != nil {
		t.Fatal(err)
	}
	schema := map[string][]arrow.Field{}
	for name, columns := range map[string]string{"a": "k g x s", "b": "k h y s", "c": "h z"} {
		for _, column := range strings.Fields(columns) {
			typ := arrow.DataType(arrow.PrimitiveTypes.Int64)
			if column == "s" {
				typ = arrow.BinaryTypes.String
			}
			schema[name] = append(schema[name], arrow.Field{Name: column, Type: typ, Nullable: true})
		}
	}
	compare(t, strings.Split(strings.TrimSpace(string(b)), "\n")[1:], 2, schema)
}

// types are the columns of the table of TestTypes.
var types = []arrow.Field{
	{Name: "bo", Type: arrow.FixedWidthTypes.Boolean}, {Name: "i8", Type: arrow.PrimitiveTypes.Int8},
	{Name: "i32", Type: arrow.PrimitiveTypes.Int32}, {Name: "i64", Type: arrow.PrimitiveTypes.Int64},
	{Name: "u16", Type: arrow.PrimitiveTypes.Uint16}, {Name: "f32", Type: arrow.PrimitiveTypes.Float32},
	{Name: "f64", Type: arrow.PrimitiveTypes.Float64}, {Name: "s", Type: arrow.BinaryTypes.String},
	{Name: "de", Type: &arrow.Decimal128Type{Precision: 15, Scale: 2}},
	{Name: "da", Type: arrow.FixedWidthTypes.Date32},
	{Name: "ts", Type: &arrow.TimestampType{Unit: arrow.Microsecond}},
}

// TestTypes compares verbs and functions on columns of all types.
func TestTypes(t *testing.T) {
	fields := make([]arrow.Field, len(types))
	var statements []string
	add := func(format string, args ...any) { statements = append(statements, fmt.Sprintf(format, args...)) }
	for i, f := range types {
		f.Nullable = true
		fields[i] = f
		n := f.Name
		add("select %s, count(*) from t group by %s", n, n)
		add("select distinct %s, bo from t", n)
		add("select min(%s), max(%s), count(%s), count(distinct %s) from t", n, n, n, n)
		add("select bo, min(%s), max(%s), count(distinct %s) from t group by bo", n, n, n)
		add("select x.%s, y.i64 from t x join t y on x.%s = y.%s", n, n, n)
		add("select x.%s, y.i64 from t x left join t y on x.%s = y.%s and y.i64 = 1", n, n, n)
		add("select i64 from t where %s in (select %s from t where i64 = 1)", n, n)
		add("select i64 from t where %s not in (select %s from t where i64 = 1 and %s is not null)", n, n, n)
		add("select %s, i64, i32, s, f64, de from t order by %s, i64, i32, s, f64, de -- ordered", n, n)
		add("select %s, i64, i32, s, f64, de from t order by %s desc nulls first, i64, i32, s, f64, de limit 5 "+
			"-- ordered", n, n)
		add("select %s is null, coalesce(%s, %s), case when bo then %s end, nullif(%s, %s) from t", n, n, n, n, n, n)
		add("select %s from t union select %s from t", n, n)
		add("select i64, rank() over (partition by bo order by %s) from t", n)
	}
	for _, n := range []string{"i8", "i32", "i64", "u16", "f32", "f64", "de"} {
		add("select sum(%s), avg(%s), median(%s), quantile_cont(%s, 0.3) from t", n, n, n, n)
		add("select bo, sum(%s), avg(%s), stddev(%s), var_samp(%s) from t group by bo", n, n, n, n)
		add("select %s + 1, %s - i64, %s * 2, abs(%s) from t", n, n, n, n)
		if n != "u16" { // DuckDB has no negative of it
			add("select -%s from t", n)
		}
		add("select %s / 4, %s > 1, %s between 0 and 2, %s = i64, %s < f64, %s <> de from t", n, n, n, n, n, n)
		add("select cast(%s as varchar), %s::double, %s::decimal(20, 4) from t where %s < 100", n, n, n, n)
	}
	statements = append(statements,
		"select upper(s), lower(s), length(s), substring(s, 2, 1), s || '!', replace(s, 'b', 'xx'), left(s, 1) from t",
		"select s like 'a%', s like '%b', s not like '_b%', s ilike 'A%', contains(s, 'b'), starts_with(s, 'a') from t",
		"select s in ('a', 'zz'), s not in ('a'), s > 'ab', trim(' ' || s), concat(s, i64) from t",
		"select year(da), month(da), day(da), extract(quarter from da), extract(dow from da), extract(doy from da) from t",
		"select da > date '1996-01-01', da - date '1996-01-01', date_diff('month', da, date '2000-01-01') from t",
		"select hour(ts), minute(ts), extract(second from ts), ts > timestamp '2017-07-15 00:00:00' from t",
		"select i64 from t where da >= date '1995-01-01' and da < date '1995-01-01' + interval '1' year",
		"select i64 % 3, i64 // 2, round(f64, 1), floor(f64), ceil(f64), sqrt(i64), greatest(i8, i32), least(i64, 3) from t",
		"select bo and i64 > 2, bo or i64 > 2, not bo, bo is true, bo is not false, i8 is distinct from i32 from t",
		"select count(*) from t where bo and not (i64 > 2 or s = 'a')",
		"select cast(s as integer) from (select cast(i64 as varchar) as s from t)",
		"select try_cast(s as integer) from t",
		"select i8 as x from t union all select de from t union all select f64 from t",
		"select sum(case when bo then de else 0 end) / sum(de), 100.00 * sum(de) from t where de > 0",
		"select i64 from t where de between 0.06 - 0.01 and 0.50 + 1.50",
	)
	compare(t, statements, 1, map[string][]arrow.Field{"t": fields})
}
