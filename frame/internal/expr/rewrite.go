package expr

import (
	"maps"
	"slices"
)

// Columns returns the names of the columns that the expressions use, sorted and without duplicates.
func Columns(exprs ...Expr) []string {
	names := map[string]bool{}
	for _, e := range exprs {
		Walk(e, func(e Expr) {
			if e.Op == OpColumn {
				names[e.Name] = true
			}
		})
	}
	return slices.Sorted(maps.Keys(names))
}

// Walk calls visit for e and all its operands, operands first.
func Walk(e Expr, visit func(Expr)) {
	for _, a := range e.Args {
		Walk(a, visit)
	}
	visit(e)
}

// Conjuncts returns the conditions of which all must be true for e to be true: the operands of And at all depths.
func Conjuncts(e Expr) []Expr {
	if e.Op != OpAnd {
		return []Expr{e}
	}
	var out []Expr
	for _, a := range e.Args {
		out = append(out, Conjuncts(a)...)
	}
	return out
}

// All returns the conjunction of conditions: Lit(true) of none, the condition itself of one.
func All(conditions ...Expr) Expr {
	switch len(conditions) {
	case 0:
		return Lit(true)
	case 1:
		return conditions[0]
	}
	return conditions[0].And(conditions[1:]...)
}

// Substitute replaces columns by expressions. Columns that the map does not contain remain. Names given with As in the
// replacements are removed.
func Substitute(e Expr, columns map[string]Expr) Expr {
	if e.Op == OpColumn {
		if r, ok := columns[e.Name]; ok {
			return Unnamed(r)
		}
		return e
	}
	if len(e.Args) == 0 {
		return e
	}
	out := e
	out.Args = make([]Expr, len(e.Args))
	for i, a := range e.Args {
		out.Args[i] = Substitute(a, columns)
	}
	return out
}

// Unnamed returns e without the names that As has given it.
func Unnamed(e Expr) Expr {
	for e.Op == OpAs && len(e.Args) == 1 {
		e = e.Args[0]
	}
	return e
}

// Equal reports whether two expressions are the same tree.
func Equal(a, b Expr) bool {
	if a.Op != b.Op || a.Name != b.Name || a.Type != b.Type || !equalValues(a.Value, b.Value) {
		return false
	}
	return slices.EqualFunc(a.Args, b.Args, Equal)
}
