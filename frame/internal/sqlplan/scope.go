package sqlplan

import (
	"slices"
	"strings"

	"go.millstream.dev/frame/internal/sqltext"
)

// column is a column that a query can name.
type column struct {
	// table is the alias of its table, name its name there.
	table, name string
	// ref is its name in the plan.
	ref string
	// merged is set for a column of USING that * and names without a table do not mean.
	merged bool
}

// scope has the columns that expressions of a query can name.
type scope struct {
	parent  *scope
	columns []column
}

// find returns the columns that a name may mean.
func (s *scope) find(n *sqltext.Name) []column {
	var out, exact []column
	for _, c := range s.columns {
		if !strings.EqualFold(c.name, n.Column) ||
			(n.Table == "" && c.merged) || (n.Table != "" && !strings.EqualFold(c.table, n.Table)) {
			continue
		}
		out = append(out, c)
		if c.name == n.Column && (n.Table == "" || c.table == n.Table) {
			exact = append(exact, c)
		}
	}
	if len(exact) == 1 {
		return exact
	}
	return out
}

// name resolves a name in a scope and those around it.
func (s *scope) name(n *sqltext.Name) (Expr, error) {
	for at := s; at != nil; at = at.parent {
		switch found := at.find(n); len(found) {
		case 0:
		case 1:
			return &sqltext.Ref{Pos: n.Pos, Name: found[0].ref}, nil
		default:
			var where []string
			for _, c := range found {
				where = append(where, c.table+"."+c.name)
			}
			return nil, sqltext.Errorf(n.Pos, "the column %s is ambiguous: %s; write the table before it",
				sqltext.Format(n), strings.Join(where, ", "))
		}
	}
	return nil, s.unknown(n)
}

// unknown returns the error of a name that no column has.
func (s *scope) unknown(n *sqltext.Name) error {
	const most = 30
	var names []string
	for _, c := range s.columns {
		if n.Table == "" || strings.EqualFold(c.table, n.Table) {
			names = append(names, c.name)
		}
	}
	if n.Table != "" && len(names) == 0 {
		return sqltext.Errorf(n.Pos, "no table %s for the column %s; tables are %s", sqltext.Quote(n.Table),
			sqltext.Format(n), s.tables())
	}
	if len(names) > most {
		names = append(names[:most], "…")
	}
	return sqltext.Errorf(n.Pos, "no column %s; columns are %s", sqltext.Format(n), strings.Join(names, ", "))
}

// tables returns the aliases of the tables as text.
func (s *scope) tables() string {
	var out []string
	for _, c := range s.columns {
		if !slices.Contains(out, c.table) {
			out = append(out, c.table)
		}
	}
	return strings.Join(out, ", ")
}

// resolve returns an expression with Refs in place of names. Queries within are not resolved: they are lowered with the
// scope as their parent.
func (s *scope) resolve(e Expr) (Expr, error) {
	return sqltext.Map(e, func(x Expr) (Expr, error) {
		switch n := x.(type) {
		case *sqltext.Name:
			return s.name(n)
		case *sqltext.Star:
			return nil, sqltext.Errorf(n.Pos, "* is no value; it is for select lists and count(*)")
		}
		return x, nil
	})
}

// refs is a set of names of the plan.
type refs map[string]bool

// refsOf returns the columns of an expression, without those of queries within.
func refsOf(list ...Expr) refs {
	out := refs{}
	for _, e := range list {
		sqltext.Walk(e, func(x Expr) bool {
			if r, ok := x.(*sqltext.Ref); ok {
				out[r.Name] = true
			}
			return true
		})
	}
	return out
}

// in reports whether all columns are among those.
func (r refs) in(columns refs) bool {
	for name := range r {
		if !columns[name] {
			return false
		}
	}
	return true
}

// add adds all columns of another set.
func (r refs) add(other refs) {
	for name := range other {
		r[name] = true
	}
}

// setOf returns the set of some names.
func setOf(names []string) refs {
	out := refs{}
	for _, n := range names {
		out[n] = true
	}
	return out
}

// hasQuery reports whether an expression contains a query.
func hasQuery(e Expr) bool {
	found := false
	sqltext.Walk(e, func(x Expr) bool {
		switch x.(type) {
		case *sqltext.Subquery, *sqltext.Exists, *sqltext.InQuery:
			found = true
		}
		return !found
	})
	return found
}

// conjuncts returns the conditions that are all true if e is.
func conjuncts(e Expr) []Expr {
	if e == nil {
		return nil
	}
	if l, ok := e.(*sqltext.Logic); ok && l.Op == "AND" {
		var out []Expr
		for _, a := range l.Args {
			out = append(out, conjuncts(a)...)
		}
		return out
	}
	return []Expr{e}
}

// all returns the condition that all conditions are true, nil for none.
func all(conds []Expr) Expr {
	switch len(conds) {
	case 0:
		return nil
	case 1:
		return conds[0]
	}
	return &sqltext.Logic{Pos: conds[0].At(), Op: "AND", Args: conds}
}
