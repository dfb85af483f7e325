package frame

import (
	"context"
	"strings"
	"testing"

	"go.millstream.dev/cluster"
	"go.millstream.dev/internal/testkit/leak"
)

// TestSQLErrors checks errors of statements and tables. Answers are compared with those of DuckDB in tests/sql.
func TestSQLErrors(t *testing.T) {
	leak.Check(t)
	ctx, c := connect(t, cluster.Goroutines)
	_, other := connect(t, cluster.Goroutines)
	f := peopleFrame(t, ctx, c)
	defer f.Release()
	tables := map[string]*Query{"people": f.Query(), "more": f.Query()}
	for _, s := range []struct{ text, want string }{
		{"select id from people where", "frame: SQL: line 1, column 28: expected an expression, found the end of the " +
			"text"},
		{"select size from people", "frame: SQL: line 1, column 8: no column size; columns are id, name, score, ok"},
		{"select id from nobodies", "no table nobodies; tables are more, people"},
		{"select id from people, more", "the column id is ambiguous: people.id, more.id"},
		{"select frobnicate(id) from people", "line 1, column 8: the function frobnicate is not supported"},
		{"select name + 1 from people", "cannot add utf8 and int64"},
		{"select id from people where name", "is utf8, not bool"},
		{"select sum(name) from people", "name"},
		{"select 1 from people join more on people.id = more.name", "cannot be compared"},
		{"select id from people union all select name from more", "column 1 of UNION"},
		{"select ntile(4) over (order by id) from people", "the window function ntile is not supported"},
		{"select lag(id, id) over (order by id) from people", "a distance of lag that is not a constant"},
		{"select sum(id) over (order by id rows between 3 preceding and 1 preceding) from people",
			"a window frame without the current row"},
		{"select quantile_cont(id, score) from people", "a quantile that is not constant"},
	} {
		_, err := SQL(ctx, c, s.text, tables)
		if err == nil || !strings.Contains(err.Error(), s.want) {
			t.Errorf("%s: got %v, want %s", s.text, err, s.want)
		}
	}
	for want, tables := range map[string]map[string]*Query{
		"no tables":                    nil,
		`table "t" is nil`:             {"t": nil},
		`table "t": frame: Filter: no`: {"t": f.Query().Filter(Col("size").Gt(1))},
	} {
		_, err := SQL(ctx, c, "select 1 from t", tables)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := SQL(ctx, other, "select id from people", tables); err == nil ||
		!strings.Contains(err.Error(), "belongs to another client") {
		t.Errorf("got %v, want an error about the client", err)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := SQL(ended, c, "select people.id from people, more", tables); err == nil {
		t.Error("got no error after the context has ended")
	}
}

// TestSQLPlan checks that a statement becomes a plan: conditions are at the tables, the smaller table is on the right.
func TestSQLPlan(t *testing.T) {
	leak.Check(t)
	ctx, c := connect(t, cluster.Goroutines)
	f := peopleFrame(t, ctx, c)
	defer f.Release()
	tables := map[string]*Query{"a": f.Query(), "b": f.Query().Limit(3)}
	q, err := SQL(ctx, c, "select b.id, a.name from b, a where a.id = b.id and a.score >= 0 order by 1 limit 2", tables)
	if err != nil {
		t.Fatal(err)
	}
	text, err := q.Explain()
	if err != nil {
		t.Fatal(err)
	}
	join, limit := strings.Index(text, "Inner join"), strings.Index(text, "Limit 3")
	if join < 0 || limit < join || !strings.Contains(text, "Top 2") || strings.Index(text, ">= 0") < join {
		t.Errorf("got the plan\n%s", text)
	}
	out, err := q.Compute(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Release()
	if n, err := out.NumRows(ctx); n != 2 || err != nil {
		t.Errorf("got %d rows, %v, want 2", n, err)
	}
}
