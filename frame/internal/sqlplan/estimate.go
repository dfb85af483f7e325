package sqlplan

import (
	"math"

	"go.millstream.dev/frame/internal/sqltext"
)

// Estimates of conditions on columns without statistics.
const (
	unknownRows = 100_000 // of a table
	equalPart   = 0.05
	rangePart   = 0.3
	betweenPart = 0.2
	likePart    = 0.1
	nullPart    = 0.05
	otherPart   = 0.33
	groupPart   = 0.25 // groups per row
)

// selectivity returns the estimated part of the rows for which a condition is true.
func selectivity(e Expr) float64 {
	not := func(is bool, s float64) float64 {
		if is {
			return 1 - s
		}
		return s
	}
	switch x := e.(type) {
	case nil:
		return 1
	case *sqltext.Logic:
		out := 1.0
		for _, a := range x.Args {
			if s := selectivity(a); x.Op == "AND" {
				out *= s
			} else {
				out *= 1 - s
			}
		}
		return not(x.Op != "AND", out)
	case *sqltext.Unary:
		return 1 - selectivity(x.X)
	case *sqltext.Binary:
		switch x.Op {
		case "=":
			return equalPart
		case "<>":
			return 1 - equalPart
		}
		return rangePart
	case *sqltext.Between:
		return not(x.Not, betweenPart)
	case *sqltext.InList:
		return not(x.Not, math.Min(0.5, equalPart*float64(len(x.List))))
	case *sqltext.Like:
		return not(x.Not, likePart)
	case *sqltext.IsTest:
		return not(x.Not, nullPart)
	}
	return otherPart
}

// filter returns a Filter with its estimate, or the input without conditions.
func filter(in Node, conds ...Expr) Node {
	cond := all(conds)
	if cond == nil {
		return in
	}
	return &Filter{In: in, Cond: cond, rows: math.Max(1, in.Rows()*selectivity(cond))}
}

// groups returns the estimated number of groups.
func groups(in Node, keys int) float64 {
	if keys == 0 {
		return 1
	}
	return math.Max(1, in.Rows()*groupPart)
}
