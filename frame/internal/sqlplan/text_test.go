package sqlplan

import (
	"fmt"
	"strings"

	"go.millstream.dev/frame/internal/sqltext"
)

// statement returns the tree as a statement of nested subqueries, so that DuckDB can run it.
func statement(n Node) string {
	in := func(n Node) string { return "(" + statement(n) + ") AS _" }
	switch n := n.(type) {
	case *One:
		return "SELECT 1 AS " + sqltext.Quote(n.Name)
	case *Scan:
		var cols []string
		for i, c := range n.From {
			cols = append(cols, named(sqltext.Quote(c), n.To[i]))
		}
		return "SELECT " + strings.Join(cols, ", ") + " FROM " + sqltext.Quote(n.Table)
	case *Filter:
		return "SELECT * FROM " + in(n.In) + " WHERE " + sqltext.Format(n.Cond)
	case *Project:
		var cols []string
		for _, c := range n.Cols {
			cols = append(cols, named(sqltext.Format(c.Expr), c.Name))
		}
		return "SELECT " + strings.Join(cols, ", ") + " FROM " + in(n.In)
	case *Join:
		return joinStatement(n)
	case *Group:
		var cols, keys []string
		for _, k := range n.Keys {
			keys = append(keys, sqltext.Format(k.Expr))
			cols = append(cols, named(sqltext.Format(k.Expr), k.Name))
		}
		for _, a := range n.Aggs {
			c := *a.Call
			if c.Function == "std" {
				c.Function = "stddev"
			} else if c.Function == "quantile" {
				c.Function = "quantile_cont"
			} else if c.Function == "var" {
				c.Function = "var_samp"
			}
			cols = append(cols, named(sqltext.Format(&c), a.Name))
		}
		text := "SELECT " + strings.Join(cols, ", ") + " FROM " + in(n.In)
		if len(keys) > 0 {
			text += " GROUP BY " + strings.Join(keys, ", ")
		}
		return text
	case *Window:
		cols := []string{"*"}
		for _, c := range n.Calls {
			cols = append(cols, named(sqltext.Format(c.Call), c.Name))
		}
		return "SELECT " + strings.Join(cols, ", ") + " FROM " + in(n.In)
	case *Sort:
		q := &sqltext.Query{Body: &sqltext.Select{Items: []sqltext.Item{{Expr: &sqltext.Star{}}},
			From: []sqltext.TableRef{&sqltext.Table{Name: "_"}}}, OrderBy: n.Keys}
		return strings.Replace(q.String(), "FROM _", "FROM "+in(n.In), 1)
	case *Limit:
		text := "SELECT * FROM " + in(n.In)
		if n.N >= 0 {
			text += fmt.Sprintf(" LIMIT %d", n.N)
		}
		return text + fmt.Sprintf(" OFFSET %d", n.Offset)
	case *Distinct:
		return "SELECT DISTINCT * FROM " + in(n.In)
	case *Union:
		var sides []string
		for _, s := range n.In {
			sides = append(sides, "("+statement(s)+")")
		}
		return strings.Join(sides, " UNION ALL ")
	}
	panic(fmt.Sprintf("%T", n))
}

func named(text, name string) string { return text + " AS " + sqltext.Quote(name) }

func joinStatement(n *Join) string {
	var conds []string
	for _, k := range n.Keys {
		conds = append(conds, sqltext.Format(k.Left)+" = "+sqltext.Format(k.Right))
	}
	if n.Cond != nil {
		conds = append(conds, sqltext.Format(n.Cond))
	}
	l, r := "("+statement(n.Left)+") AS _l", "("+statement(n.Right)+") AS _r"
	on := strings.Join(conds, " AND ")
	switch {
	case n.NullAware:
		return fmt.Sprintf("SELECT * FROM %s WHERE %s NOT IN (SELECT %s FROM %s)", l, sqltext.Format(n.Keys[0].Left),
			sqltext.Format(n.Keys[0].Right), r)
	case n.Kind == sqltext.Cross:
		return fmt.Sprintf("SELECT * FROM %s CROSS JOIN %s", l, r)
	case n.Kind == sqltext.Semi:
		return fmt.Sprintf("SELECT * FROM %s WHERE EXISTS (SELECT 1 FROM %s WHERE %s)", l, r, on)
	case n.Kind == sqltext.Anti:
		return fmt.Sprintf("SELECT * FROM %s WHERE NOT EXISTS (SELECT 1 FROM %s WHERE %s)", l, r, on)
	}
	return fmt.Sprintf("SELECT * FROM %s %s JOIN %s ON %s", l, n.Kind, r, on)
}

// shape returns the joins of a tree in one line: tables, groups and the kinds of joins, with the larger side first.
func shape(n Node) string {
	switch n := n.(type) {
	case *One:
		return "1"
	case *Scan:
		return n.Table
	case *Filter:
		if s, ok := n.In.(*Scan); ok {
			return s.Table + "'"
		}
		return shape(n.In)
	case *Project:
		return shape(n.In)
	case *Join:
		op := map[sqltext.JoinKind]string{sqltext.Inner: "⋈", sqltext.Semi: "⋉", sqltext.Anti: "▷", sqltext.Cross: "×",
			sqltext.Left: "⟕", sqltext.Full: "⟗"}[n.Kind]
		if n.Kind == sqltext.Inner && len(n.Keys) == 0 {
			op = "θ"
		}
		return "(" + shape(n.Left) + " " + op + " " + shape(n.Right) + ")"
	case *Group:
		return "γ" + shape(n.In)
	case *Window:
		return "ω" + shape(n.In)
	case *Sort:
		return shape(n.In)
	case *Limit:
		return shape(n.In)
	case *Distinct:
		return "δ" + shape(n.In)
	case *Union:
		var parts []string
		for _, in := range n.In {
			parts = append(parts, shape(in))
		}
		return strings.Join(parts, " ∪ ")
	}
	panic(fmt.Sprintf("%T", n))
}
