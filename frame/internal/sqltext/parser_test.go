package sqltext

import (
	"strings"
	"testing"
)

// TestExpressions checks the tree of expressions by their text, which has all parentheses.
func TestExpressions(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"a", "a"},
		{"A", `"A"`},
		{`"select"`, `"select"`},
		{"t.a", "t.a"},
		{`t."b c"`, `t."b c"`},
		{"1 + 2 * 3", "(1 + (2 * 3))"},
		{"(1 + 2) * 3", "((1 + 2) * 3)"},
		{"1 - 2 - 3", "((1 - 2) - 3)"},
		{"a / b // c % d", "(((a / b) // c) % d)"},
		{"2 ^ 3 ** 4", "((2 ^ 3) ^ 4)"},
		{"-a + -1", "((- a) + -1)"},
		{"- -1", "(- -1)"},
		{"+a", "a"},
		{"1.5e3", "1.5e3"},
		{".5", ".5"},
		{"a || b || 'it''s'", "((a || b) || 'it''s')"},
		{"a + b || c", "((a + b) || c)"},
		{"a = b and c <> d or not e != f", "(((a = b) AND (c <> d)) OR (NOT (e <> f)))"},
		{"a and b and c or d", "((a AND b AND c) OR d)"},
		{"not not a", "(NOT (NOT a))"},
		{"a between 1 and 2 and b", "((a BETWEEN 1 AND 2) AND b)"},
		{"a not between 1+1 and 2", "(a NOT BETWEEN (1 + 1) AND 2)"},
		{"a in (1, 2)", "(a IN (1, 2))"},
		{"a not in (select b from t)", "(a NOT IN (SELECT b FROM t))"},
		{"a like 'x%' escape '!'", "(a LIKE 'x%' ESCAPE '!')"},
		{"a not ilike b", "(a NOT ILIKE b)"},
		{"a is null", "(a IS NULL)"},
		{"a is not null is true", "((a IS NOT NULL) IS TRUE)"},
		{"a isnull or b notnull", "((a IS NULL) OR (b IS NOT NULL))"},
		{"a is not distinct from b", "(a IS NOT DISTINCT FROM b)"},
		{"a = b is null", "((a = b) IS NULL)"},
		{"case when a then 1 else 2 end", "CASE WHEN a THEN 1 ELSE 2 END"},
		{"case a when 1 then 'x' when 2 then 'y' end", "CASE a WHEN 1 THEN 'x' WHEN 2 THEN 'y' END"},
		{"cast(a as decimal(15, 2))", "CAST(a AS DECIMAL(15, 2))"},
		{"a::int::varchar(10)", "CAST(CAST(a AS INTEGER) AS VARCHAR)"},
		{"-a::double precision", "(- CAST(a AS DOUBLE))"},
		{"try_cast(a as timestamp with time zone)", "TRY_CAST(a AS TIMESTAMPTZ)"},
		{"a::numeric", "CAST(a AS DECIMAL(18, 3))"},
		{"extract(year from a)", "EXTRACT(year FROM a)"},
		{"substring(a from 1 for 2)", `"substring"(a, 1, 2)`},
		{"substring(a, 2)", `"substring"(a, 2)`},
		{"substring(a for 2)", `"substring"(a, 1, 2)`},
		{"position('x' in a)", "strpos(a, 'x')"},
		{"trim(both ' ' from a)", `"trim"(a, ' ')`},
		{"trim(leading from a)", "ltrim(a)"},
		{"date '1998-12-01' - interval '90' day (3)", "(DATE '1998-12-01' - INTERVAL '90 days')"},
		{"interval 3 months", "INTERVAL '3 months'"},
		{"interval '1 year 2 days 3 hours'", "INTERVAL '12 months 2 days 10800000000 microseconds'"},
		{"timestamp '2020-01-02 03:04:05.5'", "TIMESTAMP '2020-01-02 03:04:05.5'"},
		{"date", `"date"`},
		{"count(*)", "count(*)"},
		{"COUNT(DISTINCT a)", "count(DISTINCT a)"},
		{"left(a, 2)", `"left"(a, 2)`},
		{"sum(a) filter (where b > 1)", "sum(a) FILTER (WHERE (b > 1))"},
		{"list(a order by b desc)", "list(a ORDER BY b DESC)"},
		{"rank() over (partition by a, b order by c desc nulls first)",
			"rank() OVER (PARTITION BY a, b ORDER BY c DESC NULLS FIRST)"},
		{"sum(a) over (rows 2 preceding)", "sum(a) OVER (ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)"},
		{"sum(a) over (order by b rows between unbounded preceding and 1 following)",
			"sum(a) OVER (ORDER BY b ROWS BETWEEN UNBOUNDED PRECEDING AND 1 FOLLOWING)"},
		{"sum(a) over (order by b range between unbounded preceding and current row)", "sum(a) OVER (ORDER BY b)"},
		{"exists (select 1)", "EXISTS (SELECT 1)"},
		{"(select max(a) from t) + 1", "((SELECT max(a) FROM t) + 1)"},
		{"((select 1))", "(SELECT 1)"},
		{"a -- comment\n + /* and /* another */ one */ b", "(a + b)"},
		{"true or null", "(TRUE OR NULL)"},
	} {
		q, err := Parse("select " + c.in)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		got := Format(q.Body.(*Select).Items[0].Expr)
		if got != c.want {
			t.Errorf("%s: got %s, want %s", c.in, got, c.want)
		}
		again(t, q)
	}
}

// again checks that the text of a query parses to a query with the same text.
func again(t *testing.T, q *Query) {
	t.Helper()
	text := q.String()
	q2, err := Parse(text)
	if err != nil {
		t.Errorf("%s: parsed again: %v", text, err)
		return
	}
	if got := q2.String(); got != text {
		t.Errorf("parsed again: got %s, want %s", got, text)
	}
}

// TestStatements checks the tree of statements by their text.
func TestStatements(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"select * from t;", "SELECT * FROM t"},
		{"select t.*, a as b, c d, e \"F\", g as 'x y' from t", ""},
		{"select distinct a from t u", "SELECT DISTINCT a FROM t AS u"},
		{"select all a from t as u (x, y)", "SELECT a FROM t AS u (x, y)"},
		{"select a from t, u, (select 1 as b) v", "SELECT a FROM t, u, (SELECT 1 AS b) AS v"},
		{"select a from t join u on t.a = u.a left outer join v using (a, b)",
			"SELECT a FROM ((t INNER JOIN u ON (t.a = u.a)) LEFT JOIN v USING (a, b))"},
		{"select a from t cross join u", "SELECT a FROM (t CROSS JOIN u)"},
		{"select a from t semi join u using (a) anti join v on true",
			"SELECT a FROM ((t SEMI JOIN u USING (a)) ANTI JOIN v ON TRUE)"},
		{"select a from t right join (u full join v using (b)) using (a)",
			"SELECT a FROM (t RIGHT JOIN (u FULL JOIN v USING (b)) USING (a))"},
		{"select a from ((select 1 as a) union (select 2)) t",
			"SELECT a FROM ((SELECT 1 AS a) UNION (SELECT 2)) AS t"},
		{"select a from ((select 1 as a) t join u using (a))",
			"SELECT a FROM ((SELECT 1 AS a) AS t INNER JOIN u USING (a))"},
		{"select a from ((t join u using (a)) join v using (a))",
			"SELECT a FROM ((t INNER JOIN u USING (a)) INNER JOIN v USING (a))"},
		{"select a from (((select 1 as a))) t", "SELECT a FROM (SELECT 1 AS a) AS t"},
		{"select a from t where b group by a, 2 having sum(b) > 1 qualify c order by a desc, b asc nulls last " +
			"limit 3 offset 4",
			"SELECT a FROM t WHERE b GROUP BY a, 2 HAVING (sum(b) > 1) QUALIFY c ORDER BY a DESC, b LIMIT 3 OFFSET 4"},
		{"select a, sum(b) from t group by all offset 1 rows limit 2",
			"SELECT a, sum(b) FROM t GROUP BY ALL LIMIT 2 OFFSET 1"},
		{"select a from t union all select b from u union select c from v limit all",
			"SELECT a FROM t UNION ALL SELECT b FROM u UNION SELECT c FROM v"},
		{"with x as (select 1 as a), y (b) as materialized (select a from x) select * from y",
			"WITH x AS (SELECT 1 AS a), y (b) AS (SELECT a FROM x) SELECT * FROM y"},
		{"(select a from t order by a limit 1) union all (select b from u)", ""},
	} {
		q, err := Parse(c.in)
		if err != nil {
			t.Errorf("%s: %v", c.in, err)
			continue
		}
		if got := q.String(); c.want != "" && got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.in, got, c.want)
		}
		again(t, q)
	}
}

// TestErrors checks that errors name the position and what was expected.
func TestErrors(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", "line 1, column 1: expected SELECT, found the end of the text"},
		{"insert into t values (1)", `line 1, column 1: expected SELECT or WITH, found "insert"`},
		{"select", "line 1, column 7: expected an expression, found the end of the text"},
		{"select a\nfrom", "line 2, column 5: expected the name of a table, found the end of the text"},
		{"select a from t\n  wher b", `line 2, column 8: expected the end of the statement, found "b"`},
		{"select a, from t", `line 1, column 11: expected an expression, found "from"`},
		{"select (a from t", `line 1, column 11: expected ")", found "from"`},
		{"select a from select", `found the keyword "select"; put names that are keywords in double quotes`},
		{"select a from t join u", "expected ON or USING after the table of a INNER JOIN, found the end of the text"},
		{"select a from t cross join u on a", "line 1, column 30: a CROSS JOIN has no condition"},
		{"select a from t where a = b = c", "comparisons do not chain"},
		{"select 'abc", "line 1, column 8: the string has no end"},
		{"select \"abc", "the quoted name has no end"},
		{"select \"\"", "the quoted name is empty"},
		{"select /* a", "line 1, column 8: the comment has no end"},
		{"select 1x", `"1x" is no number`},
		{"select a # b", "unexpected character '#'"},
		{"select \xff", "the text is not UTF-8: byte 0xff"},
		{"select ?", "a parameter (?) is not supported"},
		{"select $1", "a parameter or dollar-quoted string ($) is not supported"},
		{"select e'x'", "a string with the prefix e is not supported"},
		{"select 1; select 2", "more than one statement"},
		{"select a from t limit x", "expected a number of rows after LIMIT"},
		{"select a from t limit 99999999999999999999", "too large"},
		{"select date '1998-13-01'", "line 1, column 13: '1998-13-01' is no date"},
		{"select timestamp 'x'", "'x' is no timestamp"},
		{"select interval '3' parsec", "expected an interval such as"},
		{"select interval 'x' day", `"x" is no whole number`},
		{"select interval '9999999999999999999' day", "no whole number"},
		{"select interval '999999999999999999' year", "too long"},
		{"select case 1 end", "expected WHEN after CASE"},
		{"select case when 1 else 2 end", `expected "then" after the condition of WHEN, found "else"`},
		{"select cast(a as foo)", "the type foo is not supported"},
		{"select cast(a as decimal(99, 2))", "DECIMAL(99, 2) is no type"},
		{"select cast(a as date(2))", "the type date has no parameters"},
		{"select extract(eon from a)", "the field eon of EXTRACT is not supported"},
		{"select max(*) from t", "max(*) has no meaning"},
		{"with recursive t as (select 1) select 1", "WITH RECURSIVE is not supported"},
		{"select a from t intersect by name select b from u", "UNION BY NAME is not supported"},
		{"select a from t natural join u", "natural join is not supported"},
		{"select a from t asof join u on a", "asof join is not supported"},
		{"select a from t, lateral (select 1)", "LATERAL is not supported"},
		{"select a from f(1)", "a table function is not supported"},
		{"select a from s.t", "the name of a schema"},
		{"select a from 'x.parquet'", "a file is no table"},
		{"select a from (t join u using (a)) as v", "an alias of joins in parentheses is not supported"},
		{"select a from t group by rollup (a)", "ROLLUP, CUBE and GROUPING SETS is not supported"},
		{"select distinct on (a) b from t", "DISTINCT ON is not supported"},
		{"select * except (a) from t", "* EXCEPT; use * EXCLUDE is not supported"},
		{"select * exclude from t", "expected the name of a column after EXCLUDE"},
		{"select * replace (a) from t", `expected "as" after an expression of REPLACE`},
		{"select a = any (select 1)", "= any (…); use IN"},
		{"select (a, b) in (select 1, 2)", "a row of several values is not supported"},
		{"select a[1] from t", "an element of a list is not supported"},
		{"select [1, 2]", "a list or struct is not supported"},
		{"select sum(a) over w from t", "a window by name"},
		{"select sum(a) over (range between 1 preceding and current row) from t", "RANGE or GROUPS"},
		{"select sum(a) over (rows between 1 following and 1 preceding) from t", "ends before it starts"},
		{"select sum(a) over (rows 1) from t", "expected PRECEDING or FOLLOWING"},
		{"select a from t order by a nulls", "expected FIRST or LAST after NULLS"},
		{"values 1", "before a row of VALUES"},
		{"select a similar to b", "SIMILAR TO is not supported"},
		{"select a.b.c from t", "a name of three parts is not supported"},
		{"select a. from t where", "expected an expression"},
	} {
		_, err := Parse(c.in)
		if err == nil {
			t.Errorf("%s: got no error, want %s", c.in, c.want)
		} else if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s:\n got %v\nwant %s", c.in, err, c.want)
		}
	}
}

// TestLimits checks that long and deep statements are errors and take no long time.
func TestLimits(t *testing.T) {
	for name, text := range map[string]string{
		"text":        "select '" + strings.Repeat("x", maxText) + "'",
		"tokens":      "select " + strings.Repeat("1,", maxTokens/2) + "1",
		"parentheses": "select " + strings.Repeat("(", 10_000),
		"from":        "select 1 from " + strings.Repeat("(", 10_000),
		"queries":     "select 1 from " + strings.Repeat("((select 1 from ", 5_000),
		"not":         "select " + strings.Repeat("not ", 10_000) + "a",
		"sign":        "select " + strings.Repeat("- ", 10_000) + "a",
		"chain":       "select a" + strings.Repeat(" + a", 5_000),
		"is":          "select a" + strings.Repeat(" is null", 5_000),
		"like":        "select a" + strings.Repeat(" like a", 5_000),
		"cast":        "select a" + strings.Repeat("::int", 5_000),
		"joins":       "select a from t" + strings.Repeat(" cross join t", 5_000),
		"unions":      "select a from t" + strings.Repeat(" union select a from t", 5_000),
		"case":        "select " + strings.Repeat("case when ", 10_000),
	} {
		if _, err := Parse(text); err == nil {
			t.Errorf("%s: got no error", name)
		} else if len(err.Error()) > 300 {
			t.Errorf("%s: the error has %d bytes", name, len(err.Error()))
		}
	}
	// Long lists are no nesting.
	if _, err := Parse("select a from t where a in (1" + strings.Repeat(", 1", 5_000) + ")"); err != nil {
		t.Error(err)
	}
	if _, err := Parse("select a from t where a" + strings.Repeat(" and a", 5_000)); err != nil {
		t.Error(err)
	}
}

// TestPositions checks the positions of nodes.
func TestPositions(t *testing.T) {
	q, err := Parse("select a,\n  é.b + foo(c)\nfrom t")
	if err != nil {
		t.Fatal(err)
	}
	s := q.Body.(*Select)
	plus := s.Items[1].Expr.(*Binary)
	for _, c := range []struct {
		name string
		got  Pos
		want Pos
	}{
		{"select", s.Pos, Pos{1, 1}}, {"a", s.Items[0].Expr.At(), Pos{1, 8}}, {"é.b", plus.L.At(), Pos{2, 3}},
		{"+", plus.Pos, Pos{2, 7}}, {"foo", plus.R.At(), Pos{2, 9}}, {"t", s.From[0].At(), Pos{3, 6}},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, c.got, c.want)
		}
	}
}

// TestWalk checks that Walk visits all nodes but those of queries, and Map replaces them.
func TestWalk(t *testing.T) {
	q, err := Parse(`select case a when b then c else d end + cast(e as int) - extract(day from f) || g(h order by i)
		filter (where j) over (partition by k order by l) like m escape n and (o between p and q) or r in (s, t) or
		u in (select v from w) or not x is null or -y = (select z)`)
	if err != nil {
		t.Fatal(err)
	}
	e := q.Body.(*Select).Items[0].Expr
	var names strings.Builder
	Walk(e, func(x Expr) bool {
		if n, ok := x.(*Name); ok {
			names.WriteString(n.Column)
		}
		return true
	})
	if got, want := sorted(names.String()), "abcdefhijklmnopqrstuxy"; got != want {
		t.Errorf("got the names %s, want %s", got, want)
	}
	before := Format(e)
	mapped, err := Map(e, func(x Expr) (Expr, error) {
		if n, ok := x.(*Name); ok {
			return &Name{Column: strings.ToUpper(n.Column)}, nil
		}
		return x, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range "ABCDEFHIJKLMNOPQRSTUXY" {
		if !strings.Contains(Format(mapped), `"`+string(n)+`"`) {
			t.Errorf("%c is not mapped in %s", n, Format(mapped))
		}
	}
	if got := Format(e); got != before {
		t.Errorf("Map changed its argument to %s", got)
	}
}

func sorted(s string) string {
	var out strings.Builder
	for c := 'a'; c <= 'z'; c++ {
		out.WriteString(strings.Repeat(string(c), strings.Count(s, string(c))))
	}
	return out.String()
}

// FuzzParse checks that no text makes the parser crash, and that the text of a parsed query parses to the same query.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"select a, sum(b) as c from t where d > 1 group by a having c > 1 order by 2 desc limit 3",
		"with x as (select 1) select * from x join y using (a), (select 2) z (b) where exists (select 1 from w)",
		"select case when a then date '2020-01-01' + interval '3' month end::varchar from ((select 1) union all (select 2)) t",
		"select rank() over (partition by a order by b rows between 1 preceding and current row), \"A b\" from \"T\"",
		"select substring(a from 1 for 2), extract(year from b), trim(both 'x' from c), position('x' in d), -1.5e3",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := Parse(text)
		if err != nil {
			if len(err.Error()) > 1000 {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
			return
		}
		printed := q.String()
		if len(printed) > maxText {
			return
		}
		q2, err := Parse(printed)
		if err != nil {
			// The printed text has more parentheses.
			if strings.Contains(err.Error(), "nested") || strings.Contains(err.Error(), "tokens") {
				return
			}
			t.Fatalf("%q: printed as %q: %v", text, printed, err)
		}
		if again := q2.String(); again != printed {
			t.Fatalf("%q: printed as %q and then %q", text, printed, again)
		}
	})
}
