package sqlplan

import (
	_ "embed"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"go.millstream.dev/frame/internal/sqltext"
	"go.millstream.dev/internal/testkit/duckdb"
)

// small is a catalog of tables with few values and nulls, so that all cases of joins occur.
var small = Catalog{
	"a": {Columns: []string{"k", "g", "x", "s"}, Rows: 40},
	"b": {Columns: []string{"k", "h", "y", "s"}, Rows: 30},
	"c": {Columns: []string{"h", "z"}, Rows: 6},
}

// smallTable returns a random table of the catalog. Columns named s are text, others numbers.
func smallTable(r *rand.Rand, name string) arrow.RecordBatch {
	var fields []arrow.Field
	for _, c := range small[name].Columns {
		t := arrow.DataType(arrow.PrimitiveTypes.Int64)
		if c == "s" {
			t = arrow.BinaryTypes.String
		}
		fields = append(fields, arrow.Field{Name: c, Type: t, Nullable: true})
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	defer b.Release()
	for range int(small[name].Rows) {
		for i := range fields {
			switch f := b.Field(i).(type) {
			case *array.Int64Builder:
				if r.IntN(8) == 0 {
					f.AppendNull()
				} else {
					f.Append(r.Int64N(7))
				}
			case *array.StringBuilder:
				f.Append(fmt.Sprint("s", r.IntN(4)))
			}
		}
	}
	return b.NewRecordBatch()
}

//go:embed testdata/statements.sql
var statements string

// equivalent returns statements whose lowered trees must have the same answers.
func equivalent() []string { return strings.Split(strings.TrimSpace(statements), "\n")[1:] }

// TestEquivalent compares DuckDB's answers to statements with its answers to the lowered trees, on random tables.
func TestEquivalent(t *testing.T) {
	db := duckdb.Start(t)
	for seed := range uint64(1) {
		r := rand.New(rand.NewPCG(seed, 19))
		for _, name := range []string{"a", "b", "c"} { // in order, so that each has its random rows
			b := smallTable(r, name)
			db.Table(name, b)
			b.Release()
		}
		for _, text := range equivalent() {
			want, err := db.Try(text)
			if err != nil {
				t.Errorf("%s: %v", text, err)
				continue
			}
			lowered := statement(lower(t, text, small))
			got, err := db.Try(lowered)
			if err != nil {
				t.Errorf("%s:\n%s\n%v", text, lowered, err)
				continue
			}
			if q, err := sqltext.Parse(text); err != nil || len(q.OrderBy) == 0 {
				got, want = got.Sorted(), want.Sorted()
			}
			if diff := duckdb.Diff(got, want); diff != "" {
				t.Errorf("seed %d: %s:\n%s\n%s", seed, text, lowered, diff)
			}
		}
	}
}

// TestNames checks the names of results.
func TestNames(t *testing.T) {
	for text, want := range map[string]string{
		"select * from a":                                  "k g x s",
		"select K, a.S from A":                             "K S",
		"select k, k, k from a":                            "k k_1 k_2",
		"select x + 1, sum(x), count(*) from a group by x": "(x + 1) sum(x) count(*)",
		"select cast(x as int), x::text as y from a":       "x y",
		"select * from a join b using (k)":                 "k g x s h y s_1",
		"select b.* from a, b":                             "k h y s",
		"select * from (select k from a) q (z)":            "z",
		"select k as \"K k\" from a":                       "K k",
	} {
		if got := strings.Join(lower(t, text, small).Columns(), " "); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
}

// TestErrors checks that errors name the position and the cause.
func TestErrors(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"select y from a", "line 1, column 8: no column y; columns are k, g, x, s"},
		{"select q.y from a", "no table q for the column q.y; tables are a"},
		{"select a.y from a", "no column a.y; columns are k, g, x, s"},
		{"select k from a, b", "line 1, column 8: the column k is ambiguous: a.k, b.k; write the table before it"},
		{"select 1 from nothing", "line 1, column 15: no table nothing; tables are a, b, c"},
		{"select 1 from a, a", "there are two tables named a; give one an alias"},
		{"select q.* from a", "no table q; tables are a"},
		{"select *", "* without FROM"}, {"select * exclude (z) from a", "no column z for EXCLUDE"},
		{"select * replace (1 as z) from a", "no column z for REPLACE"},
		{"select k from a intersect select k, y from b", "the sides of INTERSECT have 1 and 2 columns"},
		{"select k, sum(x) from a", "line 1, column 8: the column k is neither in GROUP BY nor in an aggregate"},
		{"select sum(x) from a where sum(x) > 1", "the aggregate sum in WHERE; use HAVING"},
		{"select sum(max(x)) from a", "the aggregate max within the aggregate sum"},
		{"select sum(x, g) from a", "sum has 1 arguments, not 2"},
		{"select sum(distinct x) from a", "sum(DISTINCT …) is not supported"},
		{"select k from a group by sum(x)", "the aggregate sum in GROUP BY"},
		{"select k from a group by 3", "GROUP BY 3 is no position in a select list of 1 columns"},
		{"select k from a order by 0", "ORDER BY 0 is no position"},
		{"select distinct k from a order by x", "ORDER BY of SELECT DISTINCT is for columns of the result"},
		{"select k from a union select k, h from b", "the sides of UNION have 1 and 2 columns"},
		{"select * from a where k in (select k, h from b)", "the query of IN has 2 columns, not one"},
		{"select (select k, h from b limit 1) from a", "the scalar subquery has 2 columns, not one"},
		{"select (select k from b) from a", "may have several rows; use an aggregate such as max, or LIMIT 1"},
		{"select (select h from b where b.k = a.k) from a", "not a plain aggregate"},
		{"select (select sum(y) from b where b.k > a.k) from a", "a correlated condition that is not an equality"},
		{"select * from a where k in (select k, y from b) or x = 1", "the query of IN has 2 columns, not one"},
		{"select * from a where k in (select k from b where b.y = a.x) or x = 1",
			"a column of the outer query in this subquery"},
		{"select * from a where exists (select 1 from b where exists (select 1 from c where z = a.x))",
			"a subquery with columns of a query further out is not supported"},
		{"select * from a where k = (select max(k) from (select k from b where b.y = a.x) q)", "no table a"},
		{"select * from a where exists (select h from b where b.k = a.k group by h)", "a column of the outer query"},
		{"with q as (select 1 from a), q as (select 2 from a) select * from q", "two common table expressions named q"},
		{"with q (u, v) as (select k from a) select * from q", "q has 1 columns and 2 names"},
		{"select * from a left join b on a.k = (select max(k) from b)", "a subquery in the condition of a LEFT JOIN"},
		{"select * from a join b using (z)", "no column z"},
		{"select k from a qualify k > 1", "QUALIFY without a window function"},
		{"select * from a where * = 1", "expected an expression"},
		{"select count(* ) over () + * from a", "expected an expression"},
	} {
		q, err := sqltext.Parse(c.in)
		if err == nil {
			_, err = Lower(q, small)
		}
		if err == nil {
			t.Errorf("%s: got no error, want %s", c.in, c.want)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n got %v\nwant %s", c.in, err, c.want)
		}
	}
}

// FuzzLower checks that no statement makes the lowering crash.
func FuzzLower(f *testing.F) {
	for _, s := range equivalent() {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := sqltext.Parse(text)
		if err != nil {
			return
		}
		n, err := Lower(q, small)
		if err != nil {
			return
		}
		if statement(n) == "" || shape(n) == "" {
			t.Errorf("%q: the tree is empty", text)
		}
	})
}
