package sqltext

import (
	"fmt"
	"strconv"
	"strings"
)

// String returns the query as text that parses to the same query.
func (q *Query) String() string {
	var b printer
	b.query(q)
	return b.String()
}

// Format returns an expression as text that parses to the same expression. Equal texts are equal expressions, except
// for the case of names.
func Format(e Expr) string {
	var b printer
	b.expr(e)
	return b.String()
}

// Quote returns a name as it is written in a statement: in quotes unless it is a plain word in lower case.
func Quote(name string) string {
	if wordLength(name) == len(name) && name != "" && strings.ToLower(name) == name && !reserved[name] &&
		!special[name] {
		return name
	}
	return `"` + strings.ReplaceAll(name, `"`, `""`) + `"`
}

// special has words that mean something else in some places where a name may be.
var special = set("array asof cube date extract filter grouping interval over position positional recursive rollup " +
	"row struct substring symmetric time timestamp timestamptz trim try_cast")

// printer writes trees as text.
type printer struct{ strings.Builder }

func (b *printer) put(parts ...string) {
	for _, p := range parts {
		b.WriteString(p)
	}
}

// list calls f for each index, with a separator between the calls.
func (b *printer) list(n int, sep string, f func(int)) {
	for i := range n {
		if i > 0 {
			b.put(sep)
		}
		f(i)
	}
}

func (b *printer) names(names []string) {
	if len(names) > 0 {
		b.put(" (")
		b.list(len(names), ", ", func(i int) { b.put(Quote(names[i])) })
		b.put(")")
	}
}

func (b *printer) query(q *Query) {
	if len(q.With) > 0 {
		b.put("WITH ")
		b.list(len(q.With), ", ", func(i int) {
			b.put(Quote(q.With[i].Name))
			b.names(q.With[i].Columns)
			b.put(" AS (")
			b.query(q.With[i].Query)
			b.put(")")
		})
		b.put(" ")
	}
	b.body(q.Body)
	if len(q.OrderBy) > 0 {
		b.put(" ORDER BY ")
		b.order(q.OrderBy)
	}
	if q.Limit != nil {
		b.put(" LIMIT ", strconv.FormatInt(*q.Limit, 10))
	}
	if q.Offset != nil {
		b.put(" OFFSET ", strconv.FormatInt(*q.Offset, 10))
	}
}

func (b *printer) body(body Body) {
	switch s := body.(type) {
	case *Query:
		b.put("(")
		b.query(s)
		b.put(")")
	case *Union:
		b.body(s.Left)
		b.put(" ", string(s.Op), " ")
		if s.All {
			b.put("ALL ")
		}
		b.body(s.Right)
	case *Select:
		b.selectBody(s)
	}
}

func (b *printer) selectBody(s *Select) {
	b.put("SELECT ")
	if s.Distinct {
		b.put("DISTINCT ")
	}
	b.list(len(s.Items), ", ", func(i int) {
		b.expr(s.Items[i].Expr)
		if s.Items[i].Alias != "" {
			b.put(" AS ", Quote(s.Items[i].Alias))
		}
	})
	if len(s.From) > 0 {
		b.put(" FROM ")
		b.list(len(s.From), ", ", func(i int) { b.table(s.From[i]) })
	}
	b.clause(" WHERE ", s.Where)
	if len(s.GroupBy) > 0 {
		b.put(" GROUP BY ")
		b.exprs(s.GroupBy)
	} else if s.GroupByAll {
		b.put(" GROUP BY ALL")
	}
	b.clause(" HAVING ", s.Having)
	b.clause(" QUALIFY ", s.Qualify)
}

func (b *printer) clause(word string, e Expr) {
	if e != nil {
		b.put(word)
		b.expr(e)
	}
}

func (b *printer) order(items []OrderItem) {
	b.list(len(items), ", ", func(i int) {
		if _, all := items[i].Expr.(*Star); all {
			b.put("ALL")
		} else {
			b.expr(items[i].Expr)
		}
		if items[i].Desc {
			b.put(" DESC")
		}
		if items[i].NullsFirst {
			b.put(" NULLS FIRST")
		}
	})
}

func (b *printer) table(ref TableRef) {
	alias := func(name string, columns []string) {
		if name != "" {
			b.put(" AS ", Quote(name))
			b.names(columns)
		}
	}
	switch t := ref.(type) {
	case *Table:
		b.put(Quote(t.Name))
		alias(t.Alias, t.Columns)
	case *Derived:
		b.put("(")
		b.query(t.Query)
		b.put(")")
		alias(t.Alias, t.Columns)
	case *Join:
		b.put("(")
		b.table(t.Left)
		b.put(" ", string(t.Kind), " JOIN ")
		b.table(t.Right)
		b.clause(" ON ", t.On)
		if len(t.Using) > 0 {
			b.put(" USING")
			b.names(t.Using)
		}
		b.put(")")
	}
}

func (b *printer) exprs(list []Expr) { b.list(len(list), ", ", func(i int) { b.expr(list[i]) }) }

// literal writes a constant.
func (b *printer) literal(l *Literal) {
	text := "'" + strings.ReplaceAll(l.Text, "'", "''") + "'"
	switch l.Kind {
	case Null:
		b.put("NULL")
	case Bool:
		b.put(strings.ToUpper(l.Text))
	case Date:
		b.put("DATE ", text)
	case Timestamp:
		b.put("TIMESTAMP ", text)
	case String:
		b.put(text)
	default:
		b.put(l.Text)
	}
}

// interval writes an interval; one of zero is zero days.
func (b *printer) interval(i *Interval) {
	var parts []string
	for _, p := range []struct {
		n    int64
		unit string
	}{{i.Months, "months"}, {i.Days, "days"}, {i.Micros, "microseconds"}} {
		if p.n != 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.unit))
		}
	}
	if len(parts) == 0 {
		parts = []string{"0 days"}
	}
	b.put("INTERVAL '", strings.Join(parts, " "), "'")
}
